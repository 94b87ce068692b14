"""Keywords of policies, checked against their constructors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from rlzoo.config.legacy.policy_keywords import translate_policy_keywords
from rlzoo.core.errors import unknown
from rlzoo.core.signatures import constructor_parameters
from rlzoo.networks.torch_layers import FlattenExtractor, NatureCNN

POSITIONAL = ("observation_space", "action_space", "lr_schedule")
FEATURE_EXTRACTIONS: dict[str, type] = {"mlp": FlattenExtractor, "cnn": NatureCNN}


def accepted_keywords(policy_class: type) -> set[str]:
    """Return the constructor's keywords; where it passes `**kwargs` on, also those of its base classes."""
    return set(constructor_parameters(policy_class)) - set(POSITIONAL)


def policy_keywords(policy_class: type, policy_kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return `policy_kwargs` under current names, activations as classes.

    :raises UserError: for a keyword that the policy does not have; the message names the nearest it has
    """
    if not (isinstance(policy_class, type) and issubclass(policy_class, nn.Module)):
        return dict(policy_kwargs or {})
    accepted = accepted_keywords(policy_class)
    keywords = dict(policy_kwargs or {})
    if not accepted.issuperset(keywords):
        keywords = translate_policy_keywords(keywords, accepted, FEATURE_EXTRACTIONS, _activation)
    for name in keywords:
        if name not in accepted:
            raise unknown("policy keyword", name, accepted)
    if "activation_fn" in keywords:
        keywords["activation_fn"] = _activation(keywords["activation_fn"])
    return keywords


def _activation(value: object) -> type:
    """Return an activation class; also from its name (`"tanh"`), or from the function (`torch.tanh`)."""
    if isinstance(value, type):
        return value
    by_name: dict[str, type] = {name.lower(): getattr(nn, name) for name in nn.modules.activation.__all__}
    name = value if isinstance(value, str) else getattr(value, "__name__", repr(value))
    plain_name = name.lower().replace("_", "")
    if plain_name not in by_name:
        raise unknown("activation", name, by_name)
    return by_name[plain_name]

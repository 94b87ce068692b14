"""The keywords of a policy: checked against its constructor, old names translated."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from torch import nn

from rlzoo.core.errors import UserError, unknown
from rlzoo.core.signatures import constructor_parameters
from rlzoo.networks.extractors import FlattenExtractor, NatureCNN

POSITIONAL = ("observation_space", "action_space", "lr_schedule")
FEATURE_EXTRACTIONS = {"mlp": FlattenExtractor, "cnn": NatureCNN}


def accepted_keywords(policy_class: type) -> set[str]:
    """The constructor's keywords; where it passes `**kwargs` on, also those of its base classes."""
    return set(constructor_parameters(policy_class)) - set(POSITIONAL)


def policy_keywords(policy_class: type, policy_kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """`policy_kwargs` under today's names; one notice lists the old ones.

    :raises UserError: for a keyword that the policy does not have; the text names the nearest it has
    """
    if not (isinstance(policy_class, type) and issubclass(policy_class, nn.Module)):
        return dict(policy_kwargs or {})
    accepted = accepted_keywords(policy_class)
    old_keywords = OLD_LSTM_KEYWORDS if "lstm_hidden_size" in accepted else OLD_KEYWORDS
    keywords: dict[str, Any] = {}
    notices = []
    for name, value in (policy_kwargs or {}).items():
        if name in accepted:
            keywords[name] = _activation(value) if name == "activation_fn" else value
        elif name in old_keywords:
            for new_name, new_value in old_keywords[name](value).items():
                if new_name not in accepted:
                    raise unknown("policy keyword", name, accepted)
                if new_name in (policy_kwargs or {}):
                    raise UserError(
                        f"the policy keywords {name!r} (old) and {new_name!r} say the same: give one"
                    )
                shown = getattr(new_value, "__name__", new_value)
                notices.append(f"policy keyword {name!r} is now {new_name!r}: {shown}")
                keywords[new_name] = new_value
        else:
            raise unknown("policy keyword", name, accepted)
    if notices:
        warnings.warn("; ".join(notices), stacklevel=3)
    return keywords


def _activation(value: Any) -> Any:
    """An activation class; also from its name (`"tanh"`), or from the function so called (`torch.tanh`)."""
    if isinstance(value, type):
        return value
    by_name = {name.lower(): getattr(nn, name) for name in nn.modules.activation.__all__}
    name = value if isinstance(value, str) else getattr(value, "__name__", repr(value))
    plain_name = name.lower().replace("_", "")
    if plain_name not in by_name:
        raise unknown("activation", name, by_name)
    return by_name[plain_name]


def _layers(value: Any) -> dict[str, Any]:
    return {} if value is None else {"net_arch": list(value)}


def _layers_before_lstm(value: Any) -> dict[str, Any]:
    return {} if value is None else {"net_arch": [*value, "lstm"]}


def _n_lstm(value: Any) -> dict[str, Any]:
    return {"lstm_hidden_size": value}


def _act_fun(value: Any) -> dict[str, Any]:
    return {"activation_fn": _activation(value)}


def _feature_extraction(value: Any) -> dict[str, Any]:
    if value not in FEATURE_EXTRACTIONS:
        raise unknown("feature_extraction", str(value), FEATURE_EXTRACTIONS)
    return {"features_extractor_class": FEATURE_EXTRACTIONS[value]}


def _cnn_extractor(value: Any) -> dict[str, Any]:
    if not (isinstance(value, type) and issubclass(value, nn.Module)):
        raise UserError(
            "cnn_extractor is now features_extractor_class, a class derived from BaseFeaturesExtractor, "
            f"not a function ({getattr(value, '__name__', value)})"
        )
    return {"features_extractor_class": value}


def _layer_norm(value: Any) -> dict[str, Any]:
    return {"layer_norm": value} if value else {}  # a policy without the keyword has no layer normalisation


OLD_KEYWORDS = {
    "layers": _layers,
    "act_fun": _act_fun,
    "layer_norm": _layer_norm,
    "feature_extraction": _feature_extraction,
    "cnn_extractor": _cnn_extractor,
}
OLD_LSTM_KEYWORDS = {**OLD_KEYWORDS, "layers": _layers_before_lstm, "n_lstm": _n_lstm}
"""Those of policies with an LSTM, which actor and critic shared."""

"""The layers of an MLP policy as JSON that any language can evaluate."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import MISSING, choice_counts, is_image_space
from rlzoo.export.observation_layers import Part
from rlzoo.export.policy_module import PolicyModule
from rlzoo.networks.batch_renorm import BatchRenorm
from rlzoo.networks.torch_layers import CombinedExtractor, FlattenExtractor, MlpExtractor
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy
from rlzoo.policies.base_policy import BasePolicy
from rlzoo.policies.continuous_policies import SACPolicy, TD3Policy
from rlzoo.policies.linear_policy import ARSPolicy
from rlzoo.policies.value_based import DQNPolicy, QNetwork, QRDQNPolicy

Json: TypeAlias = dict[str, object]
Numbers: TypeAlias = "list[Numbers] | list[float | None]"

ACTIVATIONS: dict[type[nn.Module], tuple[str, dict[str, str]]] = {
    nn.Tanh: ("tanh", {}),
    nn.ReLU: ("relu", {}),
    nn.Sigmoid: ("sigmoid", {}),
    nn.SiLU: ("silu", {}),
    nn.Softplus: ("softplus", {}),
    nn.ELU: ("elu", {"alpha": "alpha"}),
    nn.LeakyReLU: ("leaky_relu", {"negative_slope": "negative_slope"}),
    nn.Hardtanh: ("clip", {"low": "min_val", "high": "max_val"}),
}
"""Activation function -> its type in the document, and the keys of its parameters -> its attributes."""

NO_EFFECT = (nn.Identity, nn.Flatten, nn.Dropout)
"""Layers that do nothing to flat inputs in evaluation mode."""


def layers_document(module: PolicyModule, description: Json) -> Json:
    """Return an MLP policy as JSON: `metadata`, `inputs`, `layers` and `output`.

    The inputs are flattened, normalised or one-hot encoded, and concatenated in this order; the layers are
    applied in sequence; `output` describes how actions are computed from the last layer.

    :raises UserError: the policy has other layers, is recurrent, or sees images
    """
    if module.is_recurrent:
        raise _refusal("this one is recurrent")
    extractor, network = _network(module.policy)
    keys = _order(extractor, module)
    return {
        "metadata": description,
        "inputs": [_input(name, module.parts[name]) for name in keys],
        "layers": list(_layers(network)),
        "output": _output(module),
    }


def as_text(document: Json) -> str:
    """Serialise the document without spaces between the weights."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _refusal(reason: str) -> UserError:
    return UserError(
        f"only MLP policies can be exported to json or html, and {reason}; use --to onnx or torchscript"
    )


def _network(policy: BasePolicy) -> tuple[nn.Module, list[nn.Module]]:
    """Return the features extractor and the layers after it."""
    squash: list[nn.Module] = [nn.Tanh()]
    if not type(policy).__module__.startswith("rlzoo."):
        raise _refusal(f"{type(policy).__name__} may do more")
    if isinstance(policy, ActorCriticPolicy):
        mlp = policy.mlp_extractor
        if type(mlp) is not MlpExtractor:
            raise _refusal(f"{type(mlp).__name__} may do more")
        shared = [mlp.shared_net] if mlp.has_shared_net else []
        bounded = squash if policy.squash_output else []
        return policy.pi_features_extractor, [*shared, mlp.policy_net, policy.action_net, *bounded]
    if isinstance(policy, TD3Policy):
        return policy.actor.features_extractor, [policy.actor.mu]
    if isinstance(policy, SACPolicy):
        return policy.actor.features_extractor, [policy.actor.latent_pi, policy.actor.mu, *squash]
    if isinstance(policy, DQNPolicy):
        return _q_network(policy)
    if isinstance(policy, ARSPolicy):
        return policy.features_extractor, [policy.action_net]
    raise _refusal(f"{type(policy).__name__} is none of them")


def _q_network(policy: DQNPolicy) -> tuple[nn.Module, list[nn.Module]]:
    network = policy.online_net()
    if not isinstance(network, QNetwork):
        raise _refusal(f"its network is a {type(network).__name__}")
    if network.dueling:
        raise _refusal("this one has a dueling network")
    head = network.get_submodule(network.head)
    assert isinstance(head, nn.Sequential)
    if isinstance(policy, QRDQNPolicy):
        return network.features_extractor, [*list(head)[:-1], _mean_quantile(head[-1], network)]
    return network.features_extractor, [head]


def _mean_quantile(layer: nn.Module, network: QNetwork) -> nn.Linear:
    """Return the last layer with the mean over the quantiles folded into its weights."""
    assert isinstance(layer, nn.Linear) and network.n_quantiles is not None
    mean = nn.Linear(layer.in_features, network.n_actions)
    with torch.no_grad():
        mean.weight.copy_(layer.weight.view(network.n_quantiles, network.n_actions, -1).mean(dim=0))
        mean.bias.copy_(layer.bias.view(network.n_quantiles, network.n_actions).mean(dim=0))
    return mean


def _order(extractor: nn.Module, module: PolicyModule) -> list[str]:
    """Return the names of the inputs in the order in which the network concatenates them."""
    for part in module.parts.values():
        if is_image_space(part.space):
            raise _refusal("this one sees images")
    if type(extractor) is FlattenExtractor:
        return list(module.parts)
    if type(extractor) is CombinedExtractor:
        if not all(type(part) is nn.Flatten for part in extractor.extractors.values()):
            raise _refusal("this one sees images")
        return list(extractor.extractors)
    raise _refusal(f"its features come from a {type(extractor).__name__}")


def _input(name: str, part: Part) -> Json:
    space = part.space
    document: Json = {"name": name, "size": int(np.prod(space.shape or ())), "one_hot": None, "scaling": None}
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        document["one_hot"] = {"n": choice_counts(space), "start": _starts(space)}
    if (scaling := part.scaling) is not None:
        missing = MISSING if part.stack is not None and part.stack.missing == MISSING else None
        document["scaling"] = {
            "mean": scaling.mean.ravel().tolist(),
            "std": scaling.std.ravel().tolist(),
            "clip": scaling.clip if math.isfinite(scaling.clip) else None,
            "missing": missing,
        }
    return document


def _layers(network: list[nn.Module]) -> Iterator[Json]:
    for layer in network:
        if isinstance(layer, nn.Sequential):
            yield from _layers(list(layer))
        elif type(layer) is nn.Linear:
            bias = None if layer.bias is None else _numbers(layer.bias)
            yield {"type": "linear", "weight": _numbers(layer.weight), "bias": bias}
        elif type(layer) is nn.LayerNorm and len(layer.normalized_shape) == 1:
            yield {
                "type": "layer_norm",
                "weight": _numbers(layer.weight),
                "bias": _numbers(layer.bias),
                "eps": layer.eps,
            }
        elif type(layer) is BatchRenorm:
            factor = layer.scale * torch.rsqrt(layer.ra_var + layer.eps)
            shift = layer.bias - layer.ra_mean * factor
            yield {"type": "scale", "factor": _numbers(factor), "shift": _numbers(shift)}
        elif type(layer) in ACTIVATIONS:
            kind, parameters = ACTIVATIONS[type(layer)]
            yield {"type": kind, **{key: getattr(layer, name) for key, name in parameters.items()}}
        elif type(layer) not in NO_EFFECT:
            raise _refusal(f"this one has a {type(layer).__name__}")


def _output(module: PolicyModule) -> Json:
    space, executed = module.policy.action_space, module.executed
    if isinstance(space, spaces.Box):
        low, high = (_numbers(torch.as_tensor(bound).reshape(-1)) for bound in (space.low, space.high))
        return {"type": "box", "low": low, "high": high, "rescaled": executed.squash_output}
    if isinstance(space, spaces.MultiBinary) and not module.is_masked:
        return {"type": "binary"}
    return {"type": "choices", "n": choice_counts(space), "start": _starts(space)}


def _starts(space: spaces.Space[object]) -> list[int]:
    """Return the smallest action of each dimension."""
    first = np.ravel(getattr(space, "start", 0))
    return [int(value) for value in np.broadcast_to(first, len(choice_counts(space)))]


def _numbers(tensor: Tensor) -> Numbers:
    """Return nested lists with the digits of single precision; infinities are null."""
    if tensor.dim() > 1:
        return [_numbers(row) for row in tensor]
    return [float(f"{value:.9g}") if math.isfinite(value) else None for value in tensor.tolist()]

"""Spaces of gym and Gymnasium as a pickle describes them, as ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.core.errors import CheckpointError
from rlzoo.io.pickle_tree import Instance, Reference
from rlzoo.io.pickled_values import plain_value

ROOTS = ("gym.", "gymnasium.")
MAX_NUMBERS = 2**24
"""Numbers in an observation, those of one-hot codes included."""


def read_space(tree: Any) -> spaces.Space[Any]:
    """Return the space that an instance describes.

    :raises CheckpointError: it is no space of gym or Gymnasium, or of a kind that no agent takes
    """
    if not isinstance(tree, Instance) or not tree.path.startswith(ROOTS):
        raise CheckpointError("it is no space")
    kind = tree.path.rpartition(".")[2]
    if kind not in _READERS:
        raise CheckpointError(f"{kind[:40]} spaces are not read")
    try:
        return _READERS[kind](plain_value(tree.attributes()))
    except CheckpointError:
        raise
    except RecursionError:
        raise CheckpointError("spaces in spaces without end") from None
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"a damaged {kind} space: {error}"[:200]) from None


def _box(state: Mapping[str, Any]) -> spaces.Space[Any]:
    low, high = state["low"], state["high"]
    if not (isinstance(low, np.ndarray) and isinstance(high, np.ndarray)) or low.shape != high.shape:
        raise CheckpointError("a Box without bounds")
    return spaces.Box(low, high, low.shape, _dtype(state.get("dtype"), low.dtype).type)


def _dtype(value: Any, default: Any) -> np.dtype[Any]:
    """The dtype of a space, which is an object of NumPy's, a name, or a class that the pickle names."""
    name = value.name if isinstance(value, Reference) else value
    dtype: np.dtype[Any] = np.dtype(default if name is None else name)
    if dtype.kind not in "biuf":
        raise CheckpointError(f"a space of dtype {dtype}")
    return dtype


def _discrete(state: Mapping[str, Any]) -> spaces.Space[Any]:
    n = int(state["n"])
    if not 0 < n <= MAX_NUMBERS:
        raise CheckpointError(f"a Discrete space of {n:,} choices")
    return spaces.Discrete(n, start=int(state.get("start", 0)))


def _multi_discrete(state: Mapping[str, Any]) -> spaces.Space[Any]:
    nvec = np.asarray(state["nvec"], np.int64)
    if nvec.size == 0 or (nvec <= 0).any() or nvec.astype(float).sum() > MAX_NUMBERS:
        raise CheckpointError("a MultiDiscrete space without choices, or of too many")
    start = np.broadcast_to(np.asarray(state.get("start", 0), np.int64), nvec.shape)
    return spaces.MultiDiscrete(nvec, start=start)


def _multi_binary(state: Mapping[str, Any]) -> spaces.Space[Any]:
    n = state["n"]
    shape = [int(size) for size in n] if isinstance(n, list | tuple | np.ndarray) else [int(n)]
    if not shape or min(shape) < 1 or float(np.prod(np.array(shape, float))) > MAX_NUMBERS:
        raise CheckpointError(f"a MultiBinary space of shape {str(shape)[:60]}")
    return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)


def _dict(state: Mapping[str, Any]) -> spaces.Space[Any]:
    if any(isinstance(part, Instance) and part.path.endswith(".Dict") for part in state["spaces"].values()):
        raise CheckpointError("a Dict space in another, which no policy takes")
    parts = {key: read_space(part) for key, part in state["spaces"].items()}
    if not parts or not all(isinstance(key, str) for key in parts):
        raise CheckpointError("a Dict space whose keys are no texts")
    space = spaces.Dict(parts)
    space.spaces = parts  # in the order that the networks were built in
    return space


_READERS = {
    "Box": _box,
    "Discrete": _discrete,
    "MultiDiscrete": _multi_discrete,
    "MultiBinary": _multi_binary,
    "Dict": _dict,
}


# -- where the file does not say -----------------------------------------------------------------

_INPUTS = (
    "mlp_extractor.policy_net.0.weight", "mlp_extractor.shared_net.0.weight", "lstm_actor.weight_ih_l0",
    "actor.latent_pi.0.weight", "actor.mu.0.weight", "actor.mu.weight", "q_net.q_net.0.weight",
    "quantile_net.quantile_net.0.weight", "action_net.0.weight", "action_net.weight",
)  # fmt: skip


def observations_of(weights: Mapping[str, torch.Tensor]) -> spaces.Space[Any]:
    """Return a Box of as many numbers as the first layer takes.

    :raises CheckpointError: the networks begin with an extractor of images or of a Dict
    """
    first = next((weights[name] for name in _INPUTS if name in weights), None)
    if first is None or first.dim() != 2 or any("features_extractor." in name for name in weights):
        raise CheckpointError("the observation space is not readable, and the networks do not tell it")
    return spaces.Box(-np.inf, np.inf, (first.shape[1],), np.float32)


def actions_of(weights: Mapping[str, torch.Tensor]) -> spaces.Space[Any]:
    """Return a Discrete space of the size of the last layer; bounds of a Box, no network tells.

    :raises CheckpointError: the networks do not tell it
    """
    for name in ("q_net.q_net.", "action_net."):
        last = [key for key in weights if key.startswith(name) and key.endswith("weight")]
        if last and weights[last[-1]].dim() == 2 and "log_std" not in weights:
            return spaces.Discrete(len(weights[last[-1]]))
    raise CheckpointError("the action space is not readable, and the networks do not tell it")

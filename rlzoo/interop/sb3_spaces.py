"""Read spaces of gym and Gymnasium from the tree of a pickle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from rlzoo.core.errors import CheckpointError
from rlzoo.io.pickle_tree import Instance, Reference
from rlzoo.io.pickled_values import plain_value

ROOTS = ("gym.", "gymnasium.")
MAX_NUMBERS = 2**24
"""Limit of numbers in an observation, including those of one-hot codes."""
Attributes: TypeAlias = Mapping[str, Any]  # of a pickled space


def read_space(tree: object) -> spaces.Space:
    """Return the space of an instance in the tree.

    :raises CheckpointError: not a space of gym or Gymnasium, or one that agents do not support
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


def _box(state: Attributes) -> spaces.Space:
    low, high = state["low"], state["high"]
    if not (isinstance(low, np.ndarray) and isinstance(high, np.ndarray)) or low.shape != high.shape:
        raise CheckpointError("a Box without bounds")
    return spaces.Box(low, high, low.shape, _dtype(state.get("dtype"), low.dtype).type)


def _dtype(value: npt.DTypeLike | Reference | None, default: np.dtype) -> np.dtype:
    """Return the dtype of a space, from a dtype, its name, or a reference to a NumPy class."""
    name = value.name if isinstance(value, Reference) else value
    dtype = np.dtype(default if name is None else name)
    if dtype.kind not in "biuf":
        raise CheckpointError(f"a space of dtype {dtype}")
    return dtype


def _discrete(state: Attributes) -> spaces.Space:
    n = int(state["n"])
    if not 0 < n <= MAX_NUMBERS:
        raise CheckpointError(f"a Discrete space of {n:,} choices")
    return spaces.Discrete(n, start=int(state.get("start", 0)))


def _multi_discrete(state: Attributes) -> spaces.Space:
    nvec = np.asarray(state["nvec"], np.int64)
    if nvec.size == 0 or (nvec <= 0).any() or nvec.astype(float).sum() > MAX_NUMBERS:
        raise CheckpointError("a MultiDiscrete space without choices, or of too many")
    start = np.broadcast_to(np.asarray(state.get("start", 0), np.int64), nvec.shape)
    return spaces.MultiDiscrete(nvec, start=start)


def _multi_binary(state: Attributes) -> spaces.Space:
    n = state["n"]
    shape = [int(size) for size in n] if isinstance(n, list | tuple | np.ndarray) else [int(n)]
    if not shape or min(shape) < 1 or float(np.prod(np.array(shape, float))) > MAX_NUMBERS:
        raise CheckpointError(f"a MultiBinary space of shape {str(shape)[:60]}")
    return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)


def _dict(state: Attributes) -> spaces.Space:
    if any(isinstance(part, Instance) and part.path.endswith(".Dict") for part in state["spaces"].values()):
        raise CheckpointError("a Dict space in another, which no policy takes")
    parts = {key: read_space(part) for key, part in state["spaces"].items()}
    if not parts or not all(isinstance(key, str) for key in parts):
        raise CheckpointError("a Dict space whose keys are no texts")
    space = spaces.Dict(parts)
    space.spaces = parts  # keep the order in which the networks were built
    return space


_READERS = {
    "Box": _box,
    "Discrete": _discrete,
    "MultiDiscrete": _multi_discrete,
    "MultiBinary": _multi_binary,
    "Dict": _dict,
}


# -- spaces from the networks -----------------------------------------------------------------

_INPUTS = (
    "mlp_extractor.policy_net.0.weight", "mlp_extractor.shared_net.0.weight", "lstm_actor.weight_ih_l0",
    "actor.latent_pi.0.weight", "actor.mu.0.weight", "actor.mu.weight", "q_net.q_net.0.weight",
    "quantile_net.quantile_net.0.weight", "action_net.0.weight", "action_net.weight",
)  # fmt: skip


def observations_of(weights: Mapping[str, torch.Tensor]) -> spaces.Space:
    """Return a Box with the input size of the first layer.

    :raises CheckpointError: the networks start with an extractor for images or a Dict
    """
    first = next((weights[name] for name in _INPUTS if name in weights), None)
    if first is None or first.dim() != 2 or any("features_extractor." in name for name in weights):
        raise CheckpointError("the observation space is not readable, and the networks do not tell it")
    return spaces.Box(-np.inf, np.inf, (first.shape[1],), np.float32)


def actions_of(weights: Mapping[str, torch.Tensor]) -> spaces.Space:
    """Return a Discrete space with the output size of the last layer.

    :raises CheckpointError: the networks do not determine the space, e.g. the bounds of a Box
    """
    for name in ("q_net.q_net.", "action_net."):
        last = [key for key in weights if key.startswith(name) and key.endswith("weight")]
        if last and weights[last[-1]].dim() == 2 and "log_std" not in weights:
            return spaces.Discrete(len(weights[last[-1]]))
    raise CheckpointError("the action space is not readable, and the networks do not tell it")

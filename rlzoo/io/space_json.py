"""Gymnasium spaces as plain JSON and back, without pickles.

A space is an object with its `type` and what its constructor needs. Bounds are one number where all are
equal and a flat list (row-major) elsewhere; infinities, which JSON lacks, are the texts "inf" and "-inf".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.io.container import checkpoint_errors

Json = dict[str, Any]
JSONNumber: TypeAlias = "int | float | str"  # infinities are strings
MAX_ELEMENTS = 2**24
"""Numbers in all Boxes of one space: a file of a few bytes must not ask for terabytes."""


def space_to_json(space: spaces.Space[object]) -> Json:
    """Return what `space_from_json` reads back as an equal space.

    :raises UserError: a kind of space that no algorithm supports
    """
    if isinstance(space, spaces.Box):
        bounds = {"low": _numbers_to_json(space.low), "high": _numbers_to_json(space.high)}
        return {"type": "Box", "dtype": str(space.dtype), "shape": list(space.shape), **bounds}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        shape, dtype = list(space.nvec.shape), str(space.dtype)
        start = _numbers_to_json(np.asarray(space.start))
        nvec = space.nvec.ravel().tolist()
        return {"type": "MultiDiscrete", "dtype": dtype, "shape": shape, "nvec": nvec, "start": start}
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", "shape": list(space.shape)}
    if isinstance(space, spaces.Dict):
        entries = [[_key(key), space_to_json(inner)] for key, inner in space.spaces.items()]
        return {"type": "Dict", "spaces": entries}  # pairs: the order of the keys is part of the space
    if isinstance(space, spaces.Tuple):
        return {"type": "Tuple", "spaces": [space_to_json(inner) for inner in space.spaces]}
    raise UserError(f"a {type(space).__name__} space cannot be written into a model file")


@checkpoint_errors("a damaged description of a space")
def space_from_json(tree: object) -> spaces.Space[object]:
    """Return the space that `space_to_json` described.

    :raises CheckpointError: the description is damaged, or of a size that no environment has
    """
    return _read(tree, _Budget())


class _Budget:
    """Counts the numbers that a description asks for before they are allocated."""

    def __init__(self) -> None:
        self.left = MAX_ELEMENTS

    def shape(self, value: object) -> tuple[int, ...]:
        if not isinstance(value, list) or not all(type(size) is int and size >= 0 for size in value):
            raise CheckpointError(f"a damaged description of a space: {str(value)[:60]} is no shape")
        self.left -= math.prod(max(size, 1) for size in value)
        if self.left < 0:
            raise CheckpointError(f"a space of shape {str(value)[:60]} is too large to be one")
        return tuple(value)


def _read(tree: Any, budget: _Budget) -> spaces.Space[object]:
    kind = tree["type"]
    if kind not in _READERS:
        raise CheckpointError(f"unknown kind of space {str(kind)[:60]!r}")
    return _READERS[kind](tree, budget)


def _read_box(tree: Json, budget: _Budget) -> spaces.Space[object]:
    shape, dtype = budget.shape(tree["shape"]), _dtype(tree)
    low, high = (_numbers_from_json(tree[name], shape, dtype) for name in ("low", "high"))
    return spaces.Box(low, high, shape, dtype.type)


def _read_discrete(tree: Json, budget: _Budget) -> spaces.Space[object]:
    return spaces.Discrete(_int(tree["n"]), start=_int(tree["start"]))


def _read_multi_discrete(tree: Json, budget: _Budget) -> spaces.Space[object]:
    shape, dtype = budget.shape(tree["shape"]), _dtype(tree)
    nvec, start = (_numbers_from_json(tree[name], shape, dtype) for name in ("nvec", "start"))
    return spaces.MultiDiscrete(nvec, dtype=dtype.type, start=start)


def _read_multi_binary(tree: Json, budget: _Budget) -> spaces.Space[object]:
    shape = budget.shape(tree["shape"])
    return spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)


def _read_dict(tree: Json, budget: _Budget) -> spaces.Space[object]:
    inner = {key: _read(space, budget) for key, space in tree["spaces"]}
    if not all(isinstance(key, str) for key in inner):
        raise CheckpointError("a damaged description of a space: a key of a Dict space is no text")
    space: spaces.Dict = spaces.Dict(inner)
    # Gymnasium may sort the keys of a plain dict; the file's order is the one the networks were built in.
    space.spaces = {key: space.spaces[key] for key in inner}
    return space


def _read_tuple(tree: Json, budget: _Budget) -> spaces.Space[object]:
    return spaces.Tuple([_read(space, budget) for space in tree["spaces"]])


_READERS: dict[str, Callable[[Json, _Budget], spaces.Space[object]]] = {
    "Box": _read_box,
    "Discrete": _read_discrete,
    "MultiDiscrete": _read_multi_discrete,
    "MultiBinary": _read_multi_binary,
    "Dict": _read_dict,
    "Tuple": _read_tuple,
}


def _numbers_to_json(array: np.ndarray) -> JSONNumber | list[JSONNumber]:
    if array.size and (array == array.flat[0]).all():
        return _number_to_json(array.flat[0])
    return [_number_to_json(number) for number in array.ravel()]


def _number_to_json(number: np.generic) -> JSONNumber:
    value = number.item()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _numbers_from_json(value: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    if isinstance(value, list):
        return np.array([_number(entry) for entry in value], dtype).reshape(shape)
    return np.full(shape, _number(value), dtype)


def _number(value: object) -> int | float:
    if value in ("inf", "-inf"):
        return float(value)
    if not isinstance(value, int | float):
        raise CheckpointError(f"a damaged description of a space: {str(value)[:60]!r} is no number")
    return value


def _int(value: object) -> int:
    if type(value) is not int:
        raise CheckpointError(f"a damaged description of a space: {str(value)[:60]!r} is no whole number")
    return value


def _dtype(tree: Json) -> np.dtype[Any]:
    dtype = np.dtype(str(tree["dtype"]))
    if dtype.kind not in "fiub":
        raise CheckpointError(f"a space cannot be of dtype {dtype}")
    return dtype


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise UserError(
            f"the keys of a Dict space must be texts to be written into a model file, not {key!r}"
        )
    return key

"""Batches of observations: an array [n_envs, ...], or a dict or tuple of such arrays (Dict, Tuple spaces)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from rlzoo.core.errors import UnsupportedSpace
from rlzoo.core.preprocessing import check_for_nested_spaces

Obs: TypeAlias = np.ndarray | dict[str, np.ndarray] | tuple[np.ndarray, ...]
ObsKey: TypeAlias = (
    str | int | None
)  # of one array: name in a Dict, position in a Tuple, None where it is alone
Info: TypeAlias = dict[str, Any]  # of `reset` and `step`; the values depend on the environment
Array = TypeVar("Array")
Result = TypeVar("Result")


def map_obs(
    function: Callable[[Array], Result], obs: Array | dict[str, Array] | tuple[Array, ...]
) -> Result | dict[str, Result] | tuple[Result, ...]:
    """Apply `function` to an observation array, or to each array (or tensor) of a dict or tuple of them."""
    if isinstance(obs, dict):
        return {key: function(value) for key, value in obs.items()}
    if isinstance(obs, tuple):
        return tuple(function(value) for value in obs)
    return function(obs)


def copy_obs(obs: Obs) -> Obs:
    """Return a copy, which later steps do not overwrite; tensors are copied to arrays."""
    return map_obs(copy_of, obs)


def copy_of(values: np.ndarray) -> np.ndarray:
    """Return a copy of an array, or of a tensor on any device as an array."""
    return np.array(values.cpu().numpy() if hasattr(values, "cpu") else values)


def n_bytes(obs: Obs) -> int:
    """Return the size of the arrays in bytes."""
    parts = obs.values() if isinstance(obs, dict) else obs if isinstance(obs, tuple) else (obs,)
    return sum(part.nbytes for part in parts)


def stack_obs(rows: Sequence[Obs]) -> Obs:
    """Stack observations of single environments to one batch [len(rows), ...]."""
    first = rows[0]
    if isinstance(first, dict):
        dicts = cast("Sequence[dict[str, np.ndarray]]", rows)
        return {key: np.stack([row[key] for row in dicts]) for key in first}
    if isinstance(first, tuple):
        tuples = cast("Sequence[tuple[np.ndarray, ...]]", rows)
        return tuple(np.stack(parts) for parts in zip(*tuples, strict=True))
    return np.stack(cast("Sequence[np.ndarray]", rows))


def obs_row(obs: Obs, index: int) -> Obs:
    """Return the observation of environment `index` of a batch; a view where it has axes."""
    return map_obs(lambda array: array[index], obs)


def leaf_spaces(space: spaces.Space[object]) -> list[tuple[ObsKey, tuple[int, ...], np.dtype]]:
    """Return key, shape and dtype of each array of an observation.

    :raises UnsupportedSpace: a Dict or Tuple inside a Dict or Tuple, or a space whose samples are no arrays
    """
    check_for_nested_spaces(space)
    leaves: list[tuple[ObsKey, spaces.Space[object]]]
    if isinstance(space, spaces.Dict):
        leaves = list(space.spaces.items())
    elif isinstance(space, spaces.Tuple):
        leaves = list(enumerate(space.spaces))
    else:
        leaves = [(None, space)]
    arrays = []
    for key, leaf in leaves:
        if leaf.shape is None or leaf.dtype is None:
            where = "" if key is None else f" (at {key!r})"
            raise UnsupportedSpace(
                f"{type(leaf).__name__} observations{where} are not supported: their samples are not arrays"
            )
        arrays.append((key, leaf.shape, np.dtype(leaf.dtype)))
    return arrays


class ObsBuffer:
    """One batch of observations in preallocated memory, written row by row.

    :param space: the observation space of one environment
    :param n_rows: number of observations
    :param allocate: returns an array of a given shape and dtype
    """

    def __init__(
        self,
        space: spaces.Space[object],
        n_rows: int,
        allocate: Callable[[tuple[int, ...], np.dtype], np.ndarray] = np.zeros,
    ) -> None:
        self._arrays = [
            (key, allocate((n_rows, *shape), dtype), shape) for key, shape, dtype in leaf_spaces(space)
        ]
        self._single: tuple[np.ndarray, tuple[int, ...]] | None = None
        if isinstance(space, spaces.Dict):
            self.batch: Obs = cast("dict[str, np.ndarray]", {key: array for key, array, _ in self._arrays})
        elif isinstance(space, spaces.Tuple):
            self.batch = tuple(array for _, array, _ in self._arrays)
        else:
            _, single, shape = self._arrays[0]
            self.batch = single
            self._single = (single, shape)

    def write(self, row: int, obs: Any) -> None:
        """Write the observation of one environment, as it came from `reset` or `step`, into its row.

        :raises ValueError: a key is missing, or the shape is not that of the space; leading axes of length 1
            are dropped, nothing is broadcast
        """
        if self._single is not None:
            array, shape = self._single
            if np.shape(obs) != shape:
                if not _has_only_unit_axes_before(obs, shape):
                    raise ValueError(f"an observation of shape {np.shape(obs)} where the space has {shape}")
                obs = np.reshape(obs, shape)
            array[row] = obs
            return
        for key, array, shape in self._arrays:
            try:
                part = obs[key]
            except (KeyError, IndexError, TypeError):
                raise ValueError(f"an observation without {key!r}, which the space has") from None
            if np.shape(part) != shape:
                if not _has_only_unit_axes_before(part, shape):
                    raise ValueError(
                        f"{key!r} of shape {np.shape(part)} in an observation where the space has {shape}"
                    )
                part = np.reshape(part, shape)
            array[row] = part

    def row(self, row: int) -> Obs:
        """Return a copy of the observation in a row."""
        return copy_obs(obs_row(self.batch, row))


def obs_space_info(
    space: spaces.Space[object],
) -> tuple[list[ObsKey], dict[ObsKey, tuple[int, ...]], dict[ObsKey, np.dtype]]:
    """Return the keys of an observation's arrays, and their shapes and dtypes by key.

    >>> obs_space_info(spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2,)))))[1]
    {0: (), 1: (2,)}

    :raises UserError: see `leaf_spaces`
    """
    leaves = leaf_spaces(space)
    shapes = {key: shape for key, shape, _ in leaves}
    return list(shapes), shapes, {key: dtype for key, _, dtype in leaves}


def dict_to_obs(obs_space: spaces.Space[object], obs_dict: dict[ObsKey, np.ndarray]) -> Obs:
    """Return the observation whose arrays are given by the keys of `obs_space_info`."""
    if isinstance(obs_space, spaces.Dict):
        return cast("dict[str, np.ndarray]", obs_dict)
    if isinstance(obs_space, spaces.Tuple):
        return tuple(obs_dict[position] for position in range(len(obs_space.spaces)))
    return obs_dict[None]


def copy_obs_dict(obs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a copy of a dict of arrays."""
    return {key: np.array(value) for key, value in obs.items()}


def _has_only_unit_axes_before(obs: npt.ArrayLike, shape: tuple[int, ...]) -> bool:
    """Return whether an observation has the given shape behind leading axes of length 1."""
    given = np.shape(obs)
    return given == (1,) * (len(given) - len(shape)) + shape

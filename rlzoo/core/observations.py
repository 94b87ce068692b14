"""Batches of observations: an array [n_envs, ...], or a dict or a tuple of such arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UnsupportedSpace
from rlzoo.core.spaces import check_for_nested_spaces

Obs: TypeAlias = Any


def map_obs(function: Callable[[Any], Any], obs: Obs) -> Obs:
    """`function` of an observation array, or of each array of a dict or tuple of them."""
    if isinstance(obs, dict):
        return {key: function(value) for key, value in obs.items()}
    if isinstance(obs, tuple):
        return tuple(function(value) for value in obs)
    return function(obs)


def copy_obs(obs: Obs) -> Obs:
    """A copy that later steps leave alone."""
    return map_obs(np.array, obs)


def stack_obs(rows: Sequence[Obs]) -> Obs:
    """Observations of single environments as one batch [len(rows), ...]."""
    first = rows[0]
    if isinstance(first, dict):
        return {key: np.stack([row[key] for row in rows]) for key in first}
    if isinstance(first, tuple):
        return tuple(np.stack(parts) for parts in zip(*rows, strict=True))
    return np.stack(rows)


def obs_row(obs: Obs, index: int) -> Obs:
    """The observation of one environment out of a batch."""
    return map_obs(lambda array: array[index], obs)


def leaf_spaces(space: spaces.Space[Any]) -> list[tuple[Any, tuple[int, ...], Any]]:
    """Key (None, a name or a position), shape and dtype of the arrays that an observation is made of.

    :raises UnsupportedSpace: a Dict or Tuple inside a Dict or Tuple, or a space that is no array
    """
    check_for_nested_spaces(space)
    if isinstance(space, spaces.Dict):
        leaves: list[tuple[Any, spaces.Space[Any]]] = list(space.spaces.items())
    elif isinstance(space, spaces.Tuple):
        leaves = list(enumerate(space.spaces))
    else:
        leaves = [(None, space)]
    arrays = []
    for key, leaf in leaves:
        if leaf.shape is None or leaf.dtype is None:
            where = "" if key is None else f" (at {key!r})"
            raise UnsupportedSpace(
                f"observations of {type(leaf).__name__}{where} are not supported: they are no array"
            )
        arrays.append((key, leaf.shape, leaf.dtype))
    return arrays


class ObsBuffer:
    """One batch of observations in memory that is written row by row.

    :param space: the space of one observation
    :param n_rows: number of observations
    :param allocate: makes an array of a shape and a dtype
    """

    def __init__(
        self,
        space: spaces.Space[Any],
        n_rows: int,
        allocate: Callable[[tuple[int, ...], Any], np.ndarray] = np.zeros,
    ) -> None:
        self._arrays = [
            (key, allocate((n_rows, *shape), dtype), shape) for key, shape, dtype in leaf_spaces(space)
        ]
        self._single: tuple[np.ndarray, tuple[int, ...]] | None = None
        if isinstance(space, spaces.Dict):
            self.batch: Obs = {key: array for key, array, _ in self._arrays}
        elif isinstance(space, spaces.Tuple):
            self.batch = tuple(array for _, array, _ in self._arrays)
        else:
            _, self.batch, shape = self._arrays[0]
            self._single = (self.batch, shape)

    def write(self, row: int, obs: Any) -> None:
        """Put the observation of one environment into its row.

        :raises ValueError: its shape is not that of the space, but for leading axes of length 1 (it is never
            broadcast), or a key is missing
        """
        if self._single is not None:
            array, shape = self._single
            if np.shape(obs) != shape:
                if not _is_row_of_one(obs, shape):
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
                if not _is_row_of_one(part, shape):
                    raise ValueError(
                        f"{key!r} of shape {np.shape(part)} in an observation where the space has {shape}"
                    )
                part = np.reshape(part, shape)
            array[row] = part

    def row(self, row: int) -> Any:
        """A copy of the observation in a row."""
        return copy_obs(obs_row(self.batch, row))


def obs_space_info(
    space: spaces.Space[Any],
) -> tuple[list[Any], dict[Any, tuple[int, ...]], dict[Any, np.dtype]]:
    """Return the keys, shapes and dtypes by key of the arrays that an observation is made of.

    The key of an observation that is one array is None, those of a Tuple are positions.

    :raises UserError: see `leaf_spaces`
    """
    leaves = leaf_spaces(space)
    shapes = {key: shape for key, shape, _ in leaves}
    return list(shapes), shapes, {key: np.dtype(dtype) for key, _, dtype in leaves}


def dict_to_obs(obs_space: spaces.Space[Any], obs_dict: dict[Any, np.ndarray]) -> Obs:
    """Return an observation of the space, of its arrays by the keys of `obs_space_info`."""
    if isinstance(obs_space, spaces.Dict):
        return obs_dict
    if isinstance(obs_space, spaces.Tuple):
        return tuple(obs_dict[position] for position in range(len(obs_space.spaces)))
    return obs_dict[None]


def copy_obs_dict(obs: dict[Any, np.ndarray]) -> dict[Any, np.ndarray]:
    """Return a copy of the arrays by key."""
    return {key: np.array(value) for key, value in obs.items()}


def _is_row_of_one(obs: Any, shape: tuple[int, ...]) -> bool:
    """Whether this is an observation of that shape behind leading axes of length 1."""
    given = np.shape(obs)
    return bool(given == (1,) * (len(given) - len(shape)) + shape)

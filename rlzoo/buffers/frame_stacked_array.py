"""Trajectories of images that are stacks of their environment's last frames, each frame stored once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


class Stacks:
    """An array [n_slots, n_envs, n_rows, n_stack * channels, height, width] of stacks, kept as frames.

    It is written slot by slot, and read trajectory by trajectory. The first stack of a trajectory is kept
    whole, and the newest frame of each later one. Where a stack is not the one before moved on by a frame, as
    when an episode begins, its older frames are kept aside; so whatever is written is read back.

    :param shape: that of the array
    :param n_stack: frames of a stack, the newest last
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, n_stack: int) -> None:
        self.shape, self.n_stack = shape, n_stack
        n_slots, n_envs, n_rows, depth, *size = shape
        self.frames = np.zeros((n_slots, n_envs, n_rows + n_stack - 1, depth // n_stack, *size), dtype)
        self.breaks: list[dict[int, list[tuple[int, np.ndarray]]]] = [{} for _ in range(n_slots)]

    @staticmethod
    def fit(shape: tuple[int, ...], n_stack: int) -> bool:
        """Whether an array of this shape may hold stacks of so many frames."""
        return n_stack > 1 and len(shape) == 6 and shape[3] % n_stack == 0

    @property
    def dtype(self) -> Any:
        return self.frames.dtype

    @property
    def nbytes(self) -> int:
        aside = (older.nbytes for envs in self.breaks for rows in envs.values() for _, older in rows)
        return self.frames.nbytes + sum(aside)

    def __setitem__(self, slot: int, stacks: np.ndarray) -> None:
        n_envs, n_rows = self.shape[1:3]
        split = stacks.reshape(n_envs, n_rows, self.n_stack, *self.frames.shape[3:])
        self.frames[slot, :, : self.n_stack] = split[:, 0]
        self.frames[slot, :, self.n_stack :] = split[:, 1:, -1]
        moved_on = (split[:, 1:, :-1] == split[:, :-1, 1:]).all(axis=(2, 3, 4, 5))
        breaks: dict[int, list[tuple[int, np.ndarray]]] = {}
        for env, row in np.argwhere(~moved_on):
            breaks.setdefault(int(env), []).append((int(row) + 1, split[env, row + 1, :-1].copy()))
        self.breaks[slot] = breaks

    def first(self, n_slots: int) -> np.ndarray:
        """What the first slots hold, as a whole array."""
        slots, envs = np.indices((n_slots, self.shape[1])).reshape(2, -1)
        return self[slots, envs].reshape(n_slots, *self.shape[1:])

    def __getitem__(self, index: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """:param index: slots [n] and environments [n]; of each pair the trajectory, [n, n_rows, ...]"""
        slots, envs = index
        windows = sliding_window_view(self.frames[slots, envs], self.n_stack, axis=1)
        stacks = np.ascontiguousarray(np.moveaxis(windows, -1, 2))
        for found, slot, env in zip(stacks, slots, envs, strict=True):
            for row, older in self.breaks[slot].get(int(env), ()):  # later ones write over earlier ones
                for age, stack in enumerate(found[row : row + self.n_stack - 1]):
                    stack[: self.n_stack - 1 - age] = older[age:]
        return stacks.reshape(len(stacks), *self.shape[2:])

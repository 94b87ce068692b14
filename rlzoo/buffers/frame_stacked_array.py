"""Trajectories of frame-stacked images, of which each frame is stored once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view


class FrameStackedArray:
    """Array [n_slots, n_envs, n_rows, n_stack * channels, height, width] of stacks, stored as frames.

    It is written slot by slot, and read trajectory by trajectory. The first stack of a trajectory is stored
    whole, and the newest frame of each later one. Where a stack does not continue the one before, as at the
    start of an episode, its older frames are stored separately; so every stack is read back as written.

    :param shape: that of the array
    :param n_stack: frames of a stack, the newest last
    """

    def __init__(self, shape: tuple[int, ...], dtype: npt.DTypeLike, n_stack: int) -> None:
        self.shape, self.n_stack = shape, n_stack
        n_slots, n_envs, n_rows, depth, *size = shape
        self.frames = np.zeros((n_slots, n_envs, n_rows + n_stack - 1, depth // n_stack, *size), dtype)
        self.breaks: list[dict[int, list[tuple[int, np.ndarray]]]] = [{} for _ in range(n_slots)]

    @staticmethod
    def fit(shape: tuple[int, ...], n_stack: int) -> bool:
        """Return whether an array of this shape may hold stacks of so many frames."""
        return n_stack > 1 and len(shape) == 6 and shape[3] % n_stack == 0

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return self.frames.dtype

    @property
    def nbytes(self) -> int:
        older_frames = (older.nbytes for envs in self.breaks for rows in envs.values() for _, older in rows)
        return self.frames.nbytes + sum(older_frames)

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
        """Return the contents of the first slots as one array."""
        slots, envs = np.indices((n_slots, self.shape[1])).reshape(2, -1)
        return self[slots, envs].reshape(n_slots, *self.shape[1:])

    def __getitem__(self, index: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return the trajectories [n, n_rows, ...] of slots [n] and environments [n]."""
        slots, envs = index
        windows = sliding_window_view(self.frames[slots, envs], self.n_stack, axis=1)
        stacks = np.ascontiguousarray(np.moveaxis(windows, -1, 2))
        for found, slot, env in zip(stacks, slots, envs, strict=True):
            for row, older in self.breaks[slot].get(int(env), ()):  # later ones write over earlier ones
                for age, stack in enumerate(found[row : row + self.n_stack - 1]):
                    stack[: self.n_stack - 1 - age] = older[age:]
        return stacks.reshape(len(stacks), *self.shape[2:])

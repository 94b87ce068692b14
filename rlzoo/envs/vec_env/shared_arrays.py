"""Memory shared by the worker processes of a vectorised environment."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress

import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.core.observations import ObsBuffer, leaf_spaces


class SharedArrays:
    """Actions and results of one step of all environments, in a file that every process maps into memory.

    :param num_envs: number of environments
    :param path: the file, of at least `size` bytes
    """

    def __init__(self, obs_space: spaces.Space, action_space: spaces.Space, num_envs: int, path: str) -> None:
        memory = np.asarray(np.memmap(path, dtype=np.uint8, mode="r+"))
        layout = self._layout(obs_space, action_space, num_envs)
        arrays = [
            memory[start : start + count].view(dtype).reshape(shape) for shape, dtype, start, count in layout
        ]
        self.actions, self.rewards, self.terminated, self.truncated, self.at, *self._obs = arrays
        self._obs_space = obs_space
        self.obs = self.obs_rows(0, num_envs)

    def obs_rows(self, low: int, high: int) -> ObsBuffer:
        """Return the observations of the environments `low` to `high - 1`."""
        arrays = iter(self._obs)
        return ObsBuffer(self._obs_space, high - low, lambda shape, dtype: next(arrays)[low:high])

    @classmethod
    def size(cls, obs_space: spaces.Space, action_space: spaces.Space, num_envs: int) -> int:
        """Return the size of all arrays, in bytes."""
        _, _, start, count = cls._layout(obs_space, action_space, num_envs)[-1]
        return start + count

    @staticmethod
    def _layout(
        obs_space: spaces.Space, action_space: spaces.Space, num_envs: int
    ) -> list[tuple[tuple[int, ...], np.dtype, int, int]]:
        """Return shape, dtype, offset and size (in bytes) of each array."""
        structured = isinstance(action_space, (spaces.Dict, spaces.Tuple))  # sent through pipes instead
        actions = [(None, (0,), np.dtype(np.uint8))] if structured else leaf_spaces(action_space)
        parts = [
            *((shape, dtype) for _, shape, dtype in actions),
            ((), np.float32),  # rewards
            ((), np.bool_),  # terminated
            ((), np.bool_),  # truncated
            ((), np.int64),  # at: in a worker's first row, the environment it is stepping
            *((shape, dtype) for _, shape, dtype in leaf_spaces(obs_space)),
        ]
        layout, start = [], 0
        for shape, dtype in parts:
            count = num_envs * int(np.prod(shape)) * np.dtype(dtype).itemsize
            layout.append(((num_envs, *shape), np.dtype(dtype), start, count))
            start += -(-count // 64) * 64  # align every array to a cache line
        return layout


def reserve_file(size: int) -> str:
    """Create a file of `size` bytes, in memory (/dev/shm) if there is room; return its path.

    :raises UserError: there is no room for it
    """
    for folder in ("/dev/shm", tempfile.gettempdir()):
        if not os.path.isdir(folder):
            continue
        with suppress(OSError):
            descriptor, path = tempfile.mkstemp(prefix="rlzoo-", dir=folder)
            try:
                # posix_fallocate reports a full disk now, instead of a crash at a later write
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(descriptor, 0, size)
                else:
                    os.truncate(descriptor, size)
            except OSError:
                os.unlink(path)
                raise
            finally:
                os.close(descriptor)
            return path
    raise UserError(f"no room for {size:,} bytes of shared memory in /dev/shm or {tempfile.gettempdir()}")

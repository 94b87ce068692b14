"""The contents of a replay buffer as plain arrays, computed on access."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.buffers.base_buffer import BaseBuffer, part_shape
from rlzoo.buffers.replay.replay_observations import Observations, RingColumn
from rlzoo.buffers.rollout_buffer import Obs

FINAL_STORED, ENDED, TERMINATED = 1, 2, 4
"""Bits of `flags`: the next observation is in the `FinalObsStore`; the episode ended; it terminated."""


class ReplayArrays(BaseBuffer):
    """Arrays [buffer_size, n_envs, ...] of a ring; row `pos` is the next that is written.

    `actions` and `rewards` share memory with the buffer until the ring is full for the first time. All others
    are copies, and copies cannot be written to.
    """

    n_slots: int
    head: int  # the slot of the current observation; its transition is not stored yet
    laps: int  # how often the ring has wrapped around
    obs: Observations
    action_column: RingColumn
    reward_column: np.ndarray
    flags: np.ndarray
    handles: np.ndarray
    _size: int

    @property
    def pos(self) -> int:
        """Index of the row that is written next."""
        return (self.laps * self.n_slots + self.head) % self.buffer_size

    @property
    def observations(self) -> Obs:
        """Observations that were acted on; zeros where nothing is yet."""
        places, slots = self._filled()
        return self._spread(places, self.obs.gather(self._rows(slots)))

    @property
    def next_observations(self) -> Obs:
        """Next observations; at the end of an episode its final observation."""
        places, slots = self._filled()
        rows = self._rows(slots)
        final = np.flatnonzero(self.flags[slots].reshape(-1) & FINAL_STORED)
        handles = self.handles.reshape(-1).take(rows.take(final))
        return self._spread(places, self.obs.gather_next(rows, final, handles))

    @property
    def actions(self) -> np.ndarray:
        """Actions as they are learned from: those of a Box in [-1, 1]."""
        everything = self.action_column.read(slice(0, self.n_slots))
        return self._in_order(everything.reshape(self.n_slots, self.n_envs, self.action_dim))

    @property
    def rewards(self) -> np.ndarray:
        """Rewards [buffer_size, n_envs], before any normalisation."""
        return self._in_order(self.reward_column)

    @property
    def dones(self) -> np.ndarray:
        """1 where an episode ended, [buffer_size, n_envs]."""
        return self._flagged(self.flags & ENDED > 0)

    @property
    def timeouts(self) -> np.ndarray:
        """1 where an episode was truncated, [buffer_size, n_envs]."""
        return self._flagged((self.flags & ENDED > 0) & (self.flags < TERMINATED))

    def _filled(self) -> tuple[np.ndarray, np.ndarray]:
        """Return rows of the arrays that are filled, oldest first, and their slots."""
        ages = np.arange(self._size, 0, -1)
        return (self.pos - ages) % self.buffer_size, (self.head - ages) % self.n_slots

    def _slot_of(self, places: np.ndarray) -> np.ndarray:
        """Return slots of rows of the arrays."""
        ages = (self.pos - 1 - places) % self.buffer_size + 1
        slots: np.ndarray = (self.head - ages) % self.n_slots
        return slots

    def _rows(self, slots: np.ndarray) -> np.ndarray:
        """Return flat indices of the transitions in slots."""
        rows: np.ndarray = slots[:, None] * self.n_envs + np.arange(self.n_envs)
        return rows.reshape(-1)

    def _spread(self, places: np.ndarray, filled: Obs) -> Obs:
        """Place tensors [k * n_envs, ...] of observations in arrays of the whole buffer."""

        def spread(part: torch.Tensor, space: spaces.Space[object]) -> np.ndarray:
            shape = (self.n_envs, *part_shape(space))
            array = np.zeros((self.buffer_size, *shape), space.dtype)
            array[places] = part.cpu().numpy().reshape(len(places), *shape)
            return _read_only(array)

        space = self.observation_space
        if isinstance(space, spaces.Dict):
            return {key: spread(filled[key], part) for key, part in space.spaces.items()}
        return spread(filled, space)

    def _in_order(self, ring: np.ndarray) -> np.ndarray:
        """Return the rows [n_slots, n_envs, ...] of a ring in the order of the arrays."""
        if self.laps == 0:
            return ring[: self.buffer_size]
        places, slots = self._filled()
        array = np.zeros((self.buffer_size, *ring.shape[1:]), ring.dtype)
        array[places] = ring[slots]
        return _read_only(array)

    def _flagged(self, ring: np.ndarray) -> np.ndarray:
        places, slots = self._filled()
        array = np.zeros((self.buffer_size, self.n_envs), np.float32)
        array[places] = ring[slots]
        return _read_only(array)


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array

"""The contents of a replay buffer as plain arrays, computed on access."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from rlzoo.buffers.base_buffer import BaseBuffer, Obs, part_shape
from rlzoo.buffers.replay.final_obs_store import as_array
from rlzoo.buffers.replay.replay_observations import Observations, RingColumn

FINAL_STORED, ENDED, TERMINATED = 1, 2, 4
"""Bits of `flags`: the next observation is in the `FinalObsStore`; the episode ended; it terminated."""


class Mirror:
    """A copy [buffer_size, n_envs, ...] of what a ring holds, in the order of the arrays of `ReplayArrays`.

    :param written: steps that had been written when it was brought up to date
    """

    def __init__(self, shape: tuple[int, ...], dtype: npt.DTypeLike | None) -> None:
        self.array = np.zeros(shape, dtype)
        self.written = 0

    def stale(self, written: int, size: int) -> int:
        """Return how many of the newest steps differ; of those copied, the newest may have been truncated."""
        return min(written - self.written + 1, size)

    def read_only(self) -> np.ndarray:
        """Return a view that cannot be written to."""
        view = self.array.view()
        view.flags.writeable = False
        return view


class ReplayArrays(BaseBuffer):
    """Arrays [buffer_size, n_envs, ...] of a ring; row `pos` is the next that is written.

    `actions` and `rewards` share memory with the buffer until the ring is full for the first time. All others
    are copies, which cannot be written to: a copy is made when an array is first read, and after that only
    the steps that are new since then are copied.
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
    _mirrors: dict[str, Mirror]  # by name; emptied where steps are replaced

    @property
    def pos(self) -> int:
        """Index of the row that is written next."""
        return (self.laps * self.n_slots + self.head) % self.buffer_size

    @property
    def observations(self) -> Obs:
        """Observations that were acted on; zeros where nothing is yet."""
        return self._mirrored("observations", self.observation_space, self.obs.gather)

    @property
    def next_observations(self) -> Obs:
        """Next observations; at the end of an episode its final observation."""

        def following(rows: np.ndarray) -> Obs:
            final = np.flatnonzero(self.flags.reshape(-1).take(rows) & FINAL_STORED)
            return self.obs.gather_next(rows, final, self.handles.reshape(-1).take(rows.take(final)))

        return self._mirrored("next_observations", self.observation_space, following)

    @property
    def actions(self) -> np.ndarray:
        """Actions as they are learned from: those of a Box in [-1, 1]."""
        everything = self.action_column.read(slice(0, self.n_slots))
        return self._in_order("actions", everything.reshape(self.n_slots, self.n_envs, self.action_dim))

    @property
    def rewards(self) -> np.ndarray:
        """Rewards [buffer_size, n_envs], before any normalisation."""
        return self._in_order("rewards", self.reward_column)

    @property
    def dones(self) -> np.ndarray:
        """1 where an episode ended, [buffer_size, n_envs]."""
        return self._copied("dones", np.float32, (), lambda slots: self.flags[slots] & ENDED > 0)

    @property
    def timeouts(self) -> np.ndarray:
        """1 where an episode was truncated, [buffer_size, n_envs]."""

        def truncated(slots: np.ndarray) -> np.ndarray:
            flags = self.flags[slots]
            return (flags & ENDED > 0) & (flags < TERMINATED)

        return self._copied("timeouts", np.float32, (), truncated)

    def _slot_of(self, places: np.ndarray) -> np.ndarray:
        """Return slots of rows of the arrays."""
        ages = (self.pos - 1 - places) % self.buffer_size + 1
        slots: np.ndarray = (self.head - ages) % self.n_slots
        return slots

    def _mirrored(self, name: str, space: spaces.Space[object], gather: Callable[[np.ndarray], Obs]) -> Obs:
        """Return observations as arrays; `gather` gives those of transitions at flat indices [n]."""

        def rows_of(key: str | None, slots: np.ndarray) -> np.ndarray:
            rows = slots[:, None] * self.n_envs + np.arange(self.n_envs)
            gathered = gather(rows.reshape(-1))
            return as_array(gathered if key is None else gathered[key])

        if not isinstance(space, spaces.Dict):
            return self._copied(name, space.dtype, part_shape(space), partial(rows_of, None))
        return {
            key: self._copied(f"{name}.{key}", part.dtype, part_shape(part), partial(rows_of, key))
            for key, part in space.spaces.items()
        }

    def _in_order(self, name: str, ring: np.ndarray) -> np.ndarray:
        """Return the rows [n_slots, n_envs, ...] of a ring in the order of the arrays."""
        if self.laps == 0:
            return ring[: self.buffer_size]
        return self._copied(name, ring.dtype, ring.shape[2:], lambda slots: ring[slots])

    def _copied(
        self,
        name: str,
        dtype: npt.DTypeLike | None,
        shape: tuple[int, ...],
        rows_of: Callable[[np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """Return the array of this name, with what `rows_of` gives for the slots that are new in it."""
        written = self.laps * self.n_slots + self.head
        if name not in self._mirrors:
            self._mirrors[name] = Mirror((self.buffer_size, self.n_envs, *shape), dtype)
        mirror = self._mirrors[name]
        ages = np.arange(mirror.stale(written, self._size), 0, -1)
        places, slots = (self.pos - ages) % self.buffer_size, (self.head - ages) % self.n_slots
        mirror.array[places] = rows_of(slots).reshape(len(ages), self.n_envs, *shape)
        mirror.written = written
        return mirror.read_only()

"""The observations of a replay buffer: each is stored once."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from rlzoo.buffers.base_buffer import Obs, map_obs, stored_dtype
from rlzoo.buffers.replay.final_obs_store import FinalObsStore, Rows, allocate, as_array, tensor_bytes
from rlzoo.core.errors import UserError

Dtypes: TypeAlias = "Mapping[str | None, npt.DTypeLike]"


class RingColumn:
    """Ring of rows [n_slots * n_envs, ...], written slot by slot and gathered row by row.

    On the CPU rows are written and gathered through numpy views: for a slot that costs a tenth of what a
    tensor's indexing does, for a batch of vectors half.

    :param spare: rows after the ring, always zero
    """

    __slots__ = ("_flat", "_writer", "layout", "rows")

    def __init__(
        self,
        n_slots: int,
        n_envs: int,
        shape: tuple[int, ...],
        dtype: npt.DTypeLike | None,
        device: torch.device,
        spare: int = 0,
    ) -> None:
        self.rows = allocate((n_slots * n_envs + spare, *shape), dtype, device)
        self.layout = (n_slots, n_envs)
        self._share_rows()

    def _share_rows(self) -> None:
        on_cpu = self.rows.device.type == "cpu"
        by_slot = self.rows[: math.prod(self.layout)].view(*self.layout, *self.rows.shape[1:])
        self._writer: np.ndarray | torch.Tensor = by_slot.numpy() if on_cpu else by_slot
        self._flat = self.rows.numpy() if on_cpu else None

    def __getstate__(self) -> tuple[torch.Tensor, tuple[int, int]]:
        """Leave out the views, which `__setstate__` makes again."""
        return self.rows, self.layout

    def __setstate__(self, state: tuple[torch.Tensor, tuple[int, int]]) -> None:
        self.rows, self.layout = state
        self._share_rows()

    def write(self, slot: int | slice, value: np.ndarray | torch.Tensor) -> None:
        """Write a row of each environment into a slot."""
        if isinstance(self._writer, np.ndarray):
            self._writer[slot] = value if isinstance(value, np.ndarray) else value.cpu()
        else:
            self._writer[slot] = torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value

    def read(self, slot: int | slice) -> np.ndarray:
        """Return the rows [..., n_envs, ...] of one or several slots; a view if the column is on the CPU."""
        part = self._writer[slot]
        return part if isinstance(part, np.ndarray) else part.cpu().numpy()

    def gather(self, indices: np.ndarray) -> Rows:
        """Return the rows [n, ...] at flat indices [n]: an array on the CPU, elsewhere a tensor."""
        if self._flat is not None:
            return self._flat.take(indices, axis=0)
        return self.rows.index_select(0, torch.from_numpy(indices).to(self.rows.device))


class Observations:
    """One observation per slot and environment, a Box or another array, or a Dict of such.

    `dtypes` has what parts are stored as, by key (None: the whole observation), where that does not follow
    from the space: floating-point numbers are float32 unless they are named there.

    The observation after a transition is the one in the following slot; at the end of an episode it is in a
    `FinalObsStore`, and the transition has its handle.
    """

    n_context = 0
    """Slots before a transition that its observation is made from."""

    def __init__(
        self,
        space: spaces.Space[object],
        n_slots: int,
        n_envs: int,
        device: torch.device,
        dtypes: Dtypes | None = None,
    ) -> None:
        self.n_slots, self.n_envs = n_slots, n_envs
        self.n_rows = n_slots * n_envs
        columns = {
            key: RingColumn(n_slots, n_envs, part.shape or (), dtype, device)
            for key, part, dtype in _stored_parts(space, dtypes)
        }
        self.columns: Any = columns if isinstance(space, spaces.Dict) else columns[None]
        self.finals = FinalObsStore(map_obs(lambda column: column.rows[:0], self.columns))
        self._single = None if isinstance(self.columns, dict) else self.columns

    @staticmethod
    def row_bytes(space: spaces.Space[object], dtypes: Dtypes | None = None) -> int:
        """Return the bytes of one observation."""
        return sum(
            int(np.prod(part.shape or ())) * np.dtype(dtype).itemsize
            for _, part, dtype in _stored_parts(space, dtypes)
        )

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return tensor_bytes(map_obs(lambda column: column.rows, self.columns)) + self.finals.nbytes

    def write(self, slot: int, obs: Obs) -> None:
        """Write the observations [n_envs, ...] after a step into a slot."""
        if self._single is not None:
            self._single.write(slot, obs)
        else:
            for key, column in self.columns.items():
                column.write(slot, obs[key])

    def begin(self, slot: int, obs: Obs, envs: np.ndarray) -> None:
        """Mark the observations of these environments in a slot as the first of their episodes."""

    def free(self, slot: int) -> None:
        """Free the final observations of a slot that is about to be overwritten."""
        self.finals.free(slot)

    def store_final(self, slot: int, finals: Obs) -> np.ndarray:
        """Store the final observations [n, ...] of the transitions in a slot; return their handles [n]."""
        return self.finals.store(slot, finals)

    def current(self, slot: int) -> Obs:
        """Return the observations [n_envs, ...] in a slot."""
        return map_obs(lambda column: column.read(slot), self.columns)

    def last_part(self, obs: Obs) -> Obs:
        """Return the part of observations that is stored."""
        return obs

    def gather(self, indices: np.ndarray) -> Obs:
        """Return the observations [n, ...] at flat indices [n]."""
        if self._single is not None:
            return self._single.gather(indices)
        return {key: column.gather(indices) for key, column in self.columns.items()}

    def gather_next(self, last: np.ndarray, rows: np.ndarray, handles: np.ndarray) -> Obs:
        """Return the observations [n, ...] after the transitions at flat indices [n].

        :param rows: [k] positions in `last` whose next observation is in the final-observation store
        :param handles: [k] their handles
        """
        following = last + self.n_envs
        following -= self.n_rows * (following >= self.n_rows)
        next_obs = self.gather(following)
        if len(rows):
            finals = self.finals.gather(handles)
            map_obs(lambda target, final: operator.setitem(target, rows, final), next_obs, finals)
        return next_obs

    def pair(
        self, indices: np.ndarray, last: np.ndarray, rows: np.ndarray, handles: np.ndarray
    ) -> tuple[Obs, Obs]:
        """Return `gather(indices)` and `gather_next(last, ...)`."""
        return self.gather(indices), self.gather_next(last, rows, handles)

    def clear(self) -> None:
        """Clear the final-observation store."""
        self.finals.clear()


class StackedObservations(Observations):
    """Frame-stacked images, of which each frame is stored once.

    A stack is rebuilt from the frames in the slots before it. Frames from before the episode are zero, as in
    VecFrameStack; if an episode begins with a filled stack, its older frames are in a `FinalObsStore`.

    :param space: Box [n_stack * channels, height, width], the newest frame last
    """

    def __init__(
        self, space: spaces.Space[object], n_slots: int, n_envs: int, device: torch.device, n_stack: int
    ) -> None:
        if not isinstance(space, spaces.Box) or len(space.shape) != 3 or space.shape[0] % n_stack:
            raise UserError(
                f"frame_stack={n_stack} needs images of {n_stack} stacked frames along the first axis, "
                f"not observations of {space}"
            )
        self.n_stack, self.n_context = n_stack, n_stack - 1
        self.channels = space.shape[0] // n_stack
        self.n_slots, self.n_envs, self.n_rows = n_slots, n_envs, n_slots * n_envs
        frame = (self.channels, *space.shape[1:])
        self.columns = self._single = RingColumn(
            n_slots, n_envs, frame, _torch_dtype(space.dtype), device, spare=1
        )
        self.finals = FinalObsStore(self.columns.rows[:0])
        self.ages = np.zeros(
            (n_slots, n_envs), np.uint8
        )  # steps since the episode began, n_stack - 1 at most
        self.older = FinalObsStore(self.columns.rows.new_empty((0, n_stack - 1, *frame)))
        self.older_handles = np.full((n_slots, n_envs), -1)  # of episodes that began with a filled stack
        self._lags = np.arange(n_stack - 1, -1, -1)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.older.nbytes + self.ages.nbytes + self.older_handles.nbytes

    def last_part(self, obs: Obs) -> Obs:
        return obs[:, -self.channels :]

    def write(self, slot: int, obs: Obs) -> None:
        self.columns.write(slot, obs[:, -self.channels :])
        np.minimum(self.ages[slot - 1] + 1, self.n_context, out=self.ages[slot], casting="unsafe")

    def begin(self, slot: int, obs: Obs, envs: np.ndarray) -> None:
        self.ages[slot, envs] = 0
        self.older_handles[slot, envs] = -1
        before = np.asarray(obs)[envs, : -self.channels]
        filled = before.reshape(len(envs), -1).any(axis=1)
        if filled.any():
            frames = before[filled].reshape(-1, *self.older.rows.shape[1:])
            self.older_handles[slot, envs[filled]] = self.older.store(slot, frames)

    def free(self, slot: int) -> None:
        super().free(slot)
        self.older.free(slot)

    def store_final(self, slot: int, finals: Obs) -> np.ndarray:
        return super().store_final(slot, self.last_part(finals))

    def current(self, slot: int) -> Obs:
        return as_array(self.gather(np.arange(slot * self.n_envs, (slot + 1) * self.n_envs)))

    def clear(self) -> None:
        super().clear()
        self.older.clear()

    def _frame_indices(self, indices: np.ndarray) -> np.ndarray:
        """Return the rows [n, n_stack] of the frames in the stacks at flat indices [n]."""
        lags = self._lags
        frames = indices[:, None] - lags * self.n_envs
        frames += self.n_rows * (frames < 0)
        ages = self.ages.reshape(-1).take(indices)
        frames[lags > ages[:, None]] = self.n_rows  # the row that is always zero
        return frames

    def _fill_older(self, frames: Rows, indices: np.ndarray) -> None:
        """Fill the frames from before the episode into stacks [n, >= n_stack, ...]."""
        ages = self.ages.reshape(-1).take(indices)
        first = indices - ages.astype(np.int64) * self.n_envs
        first += self.n_rows * (first < 0)
        handles = self.older_handles.reshape(-1).take(first)
        for age in range(self.n_context):
            rows = np.flatnonzero((ages == age) & (handles >= 0))
            if len(rows):
                older = self.older.gather(handles[rows])[:, age:]
                frames[rows, : self.n_context - age] = older

    def _merged(self, frames: Rows) -> Rows:
        """Merge frames [n, k, channels, ...] to stacks [n, k * channels, ...]."""
        return frames.reshape(len(frames), -1, *frames.shape[3:])

    def gather(self, indices: np.ndarray) -> Obs:
        frames = self.columns.gather(self._frame_indices(indices).reshape(-1))
        frames = frames.reshape(len(indices), self.n_stack, *frames.shape[1:])
        if len(self.older):
            self._fill_older(frames, indices)
        return self._merged(frames)

    def gather_next(self, last: np.ndarray, rows: np.ndarray, handles: np.ndarray) -> Obs:
        return self._merged(self._shifted(last, rows, handles)[:, 1:])

    def _shifted(self, last: np.ndarray, rows: np.ndarray, handles: np.ndarray) -> Rows:
        """Return frames [n, n_stack + 1, ...]: the stacks at `last` and the frame after each."""
        following = last + self.n_envs
        following -= self.n_rows * (following >= self.n_rows)
        index = np.concatenate((self._frame_indices(last), following[:, None]), axis=1)
        frames = self.columns.gather(index.reshape(-1))
        frames = frames.reshape(len(last), self.n_stack + 1, *frames.shape[1:])
        if len(rows):
            frames[rows, -1] = self.finals.gather(handles)
        if len(self.older):
            self._fill_older(frames, last)
        return frames

    def pair(
        self, indices: np.ndarray, last: np.ndarray, rows: np.ndarray, handles: np.ndarray
    ) -> tuple[Obs, Obs]:
        if indices is not last:
            return super().pair(indices, last, rows, handles)
        # one step: the two stacks share all frames but two, which are gathered once
        frames = self._shifted(last, rows, handles)
        return self._merged(frames[:, :-1]), self._merged(frames[:, 1:])


def make_observations(
    space: spaces.Space[object],
    n_slots: int,
    n_envs: int,
    device: torch.device,
    n_stack: int,
    dtypes: Dtypes | None = None,
) -> Observations:
    """Make the storage for observations of a space; with n_stack > 1 for frame-stacked images."""
    if n_stack > 1:
        return StackedObservations(space, n_slots, n_envs, device, n_stack)
    return Observations(space, n_slots, n_envs, device, dtypes)


def _stored_parts(
    space: spaces.Space[object], dtypes: Dtypes | None
) -> Iterator[tuple[str | None, spaces.Space[object], npt.DTypeLike | None]]:
    """Yield key (None without a Dict), space and stored dtype of each part of an observation."""
    parts = list(space.spaces.items()) if isinstance(space, spaces.Dict) else [(None, space)]
    for key, part in parts:
        given = None if dtypes is None else dtypes.get(key)
        yield key, part, _torch_dtype(part.dtype) if given is None else given


def _torch_dtype(dtype: npt.DTypeLike | None) -> npt.DTypeLike | None:
    """Return the dtype for storage: torch can only index signed integers and bytes."""
    wider = {"uint16": np.int32, "uint32": np.int64, "uint64": np.int64}
    return wider.get(np.dtype(dtype).name, stored_dtype(dtype))

"""The observations of a replay buffer: stored once each, however often transitions refer to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.buffers.replay.final_obs_store import Aside, allocate, tensor_bytes
from rlzoo.buffers.rollout_buffer import Obs, _stored_dtype, map_obs
from rlzoo.core.errors import UserError

Dtypes: TypeAlias = "Mapping[str | None, Any]"


class Column:
    """A ring of rows [n_slots * n_envs, ...], written slot by slot and gathered row by row.

    On the CPU rows are written and gathered through numpy views: for a slot that costs a tenth of what a
    tensor's indexing does, for a batch of vectors half.

    :param spare: rows after the ring, always zero
    """

    __slots__ = ("_flat", "_writer", "rows")

    def __init__(
        self,
        n_slots: int,
        n_envs: int,
        shape: tuple[int, ...],
        dtype: Any,
        device: torch.device,
        spare: int = 0,
    ) -> None:
        self.rows = allocate((n_slots * n_envs + spare, *shape), dtype, device)
        by_slot = self.rows[: n_slots * n_envs].view(n_slots, n_envs, *shape)
        self._writer: Any = by_slot.numpy() if device.type == "cpu" else by_slot
        self._flat = self.rows.numpy() if device.type == "cpu" else None

    def write(self, slot: int | slice, value: Any) -> None:
        """Put a row of each environment into a slot."""
        if isinstance(self._writer, np.ndarray):
            self._writer[slot] = value if isinstance(value, np.ndarray) else value.cpu()
        else:
            self._writer[slot] = torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value

    def read(self, slot: int | slice) -> np.ndarray:
        """The rows [..., n_envs, ...] in a slot or in several; a view where the column is on the CPU."""
        part = self._writer[slot]
        return part if isinstance(part, np.ndarray) else part.cpu().numpy()

    def gather(self, indices: np.ndarray) -> torch.Tensor:
        """The rows [n, ...] at flat indices [n]."""
        if self._flat is not None:
            return torch.from_numpy(self._flat.take(indices, axis=0))
        return self.rows.index_select(0, torch.from_numpy(indices).to(self.rows.device))


class Observations:
    """One observation per slot and environment, a Box or another array, or a Dict of such.

    `dtypes` has what parts are stored as, by key (None: the whole observation), where that does not follow
    from the space: floating-point numbers are float32 unless they are named there.

    The observation after a transition is the one in the following slot; where that is not so, it is kept
    aside, and the transition has the ticket of it.
    """

    n_context = 0
    """Slots before a transition that its observation is made from."""

    def __init__(
        self,
        space: spaces.Space[Any],
        n_slots: int,
        n_envs: int,
        device: torch.device,
        dtypes: Dtypes | None = None,
    ) -> None:
        self.n_slots, self.n_envs = n_slots, n_envs
        self.n_rows = n_slots * n_envs
        columns = {
            key: Column(n_slots, n_envs, part.shape or (), dtype, device)
            for key, part, dtype in _stored_parts(space, dtypes)
        }
        self.columns: Any = columns if isinstance(space, spaces.Dict) else columns[None]
        self.finals = Aside(map_obs(lambda column: column.rows[:0], self.columns))
        self._single = None if isinstance(self.columns, dict) else self.columns

    @staticmethod
    def row_bytes(space: spaces.Space[Any], dtypes: Dtypes | None = None) -> int:
        """Bytes of one observation."""
        return sum(
            int(np.prod(part.shape or ())) * np.dtype(dtype).itemsize
            for _, part, dtype in _stored_parts(space, dtypes)
        )

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return tensor_bytes(map_obs(lambda column: column.rows, self.columns)) + self.finals.nbytes

    def write(self, slot: int, obs: Obs) -> None:
        """Put the observations [n_envs, ...] that a step led to into a slot."""
        if self._single is not None:
            self._single.write(slot, obs)
        else:
            for key, column in self.columns.items():
                column.write(slot, obs[key])

    def begin(self, slot: int, obs: Obs, envs: np.ndarray) -> None:
        """What `write` put into a slot is, for these environments, the first observation of an episode."""

    def free(self, slot: int) -> None:
        """Forget what was kept aside for a slot that is about to be written again."""
        self.finals.free(slot)

    def keep_final(self, slot: int, finals: Obs) -> np.ndarray:
        """Keep what the transitions in a slot led to, [n, ...], aside; their tickets [n]."""
        return self.finals.keep(slot, finals)

    def current(self, slot: int) -> Obs:
        """Observations [n_envs, ...] in a slot."""
        return map_obs(lambda column: column.read(slot), self.columns)

    def last_part(self, obs: Obs) -> Obs:
        """Of whole observations, what is stored."""
        return obs

    def gather(self, indices: np.ndarray) -> Obs:
        """Observations [n, ...] at flat indices [n]."""
        if self._single is not None:
            return self._single.gather(indices)
        return {key: column.gather(indices) for key, column in self.columns.items()}

    def gather_next(self, last: np.ndarray, rows: np.ndarray, tickets: np.ndarray) -> Obs:
        """Observations [n, ...] after the transitions at flat indices [n].

        :param rows: [k] the positions in `last` whose next observation is kept aside
        :param tickets: [k] where
        """
        following = last + self.n_envs
        following -= self.n_rows * (following >= self.n_rows)
        next_obs = self.gather(following)
        if len(rows):
            index = torch.from_numpy(rows)
            map_obs(
                lambda target, final: target.index_copy_(0, index.to(target.device), final),
                next_obs,
                self.finals.gather(tickets),
            )
        return next_obs

    def pair(
        self, indices: np.ndarray, last: np.ndarray, rows: np.ndarray, tickets: np.ndarray
    ) -> tuple[Obs, Obs]:
        """`gather` of `indices` and `gather_next` of `last`."""
        return self.gather(indices), self.gather_next(last, rows, tickets)

    def clear(self) -> None:
        """Forget what was kept aside."""
        self.finals.clear()


class StackedObservations(Observations):
    """Images that are stacks of their environment's last frames: each frame is stored once.

    A stack is made again from the frames in the slots before it. Frames from before the episode are zero, as
    VecFrameStack has them; an episode that begins with a stack already filled has those frames kept aside.

    :param space: Box [n_stack * channels, height, width], the newest frame last
    """

    def __init__(
        self, space: spaces.Space[Any], n_slots: int, n_envs: int, device: torch.device, n_stack: int
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
        self.columns = self._single = Column(
            n_slots, n_envs, frame, _torch_dtype(space.dtype), device, spare=1
        )
        self.finals = Aside(self.columns.rows[:0])
        self.ages = np.zeros(
            (n_slots, n_envs), np.uint8
        )  # steps since the episode began, n_stack - 1 at most
        self.older = Aside(self.columns.rows.new_empty((0, n_stack - 1, *frame)))
        self.older_tickets = np.full((n_slots, n_envs), -1)  # of episodes that began with a filled stack
        self._lags = np.arange(n_stack - 1, -1, -1)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.older.nbytes + self.ages.nbytes + self.older_tickets.nbytes

    def last_part(self, obs: Obs) -> Obs:
        return obs[:, -self.channels :]

    def write(self, slot: int, obs: Obs) -> None:
        self.columns.write(slot, obs[:, -self.channels :])
        np.minimum(self.ages[slot - 1] + 1, self.n_context, out=self.ages[slot], casting="unsafe")

    def begin(self, slot: int, obs: Obs, envs: np.ndarray) -> None:
        self.ages[slot, envs] = 0
        self.older_tickets[slot, envs] = -1
        before = np.asarray(obs)[envs, : -self.channels]
        filled = before.reshape(len(envs), -1).any(axis=1)
        if filled.any():
            frames = before[filled].reshape(-1, *self.older.rows.shape[1:])
            self.older_tickets[slot, envs[filled]] = self.older.keep(slot, frames)

    def free(self, slot: int) -> None:
        super().free(slot)
        self.older.free(slot)

    def keep_final(self, slot: int, finals: Obs) -> np.ndarray:
        return super().keep_final(slot, self.last_part(finals))

    def current(self, slot: int) -> Obs:
        rows = np.arange(slot * self.n_envs, (slot + 1) * self.n_envs)
        return self.gather(rows).cpu().numpy()

    def clear(self) -> None:
        super().clear()
        self.older.clear()

    def _frame_indices(self, indices: np.ndarray) -> np.ndarray:
        """Rows [n, n_stack] of the frames that the stacks at flat indices [n] are made of."""
        lags = self._lags
        frames = indices[:, None] - lags * self.n_envs
        frames += self.n_rows * (frames < 0)
        ages = self.ages.reshape(-1).take(indices)
        frames[lags > ages[:, None]] = self.n_rows  # the row that is always zero
        return frames

    def _fill_older(self, frames: torch.Tensor, indices: np.ndarray) -> None:
        """Into stacks [n, >= n_stack, ...]: frames from before their episodes began."""
        ages = self.ages.reshape(-1).take(indices)
        first = indices - ages.astype(np.int64) * self.n_envs
        first += self.n_rows * (first < 0)
        tickets = self.older_tickets.reshape(-1).take(first)
        for age in range(self.n_context):
            rows = np.flatnonzero((ages == age) & (tickets >= 0))
            if len(rows):
                older = self.older.gather(tickets[rows])[:, age:]
                frames[torch.from_numpy(rows).to(frames.device), : self.n_context - age] = older

    def _merged(self, frames: torch.Tensor) -> torch.Tensor:
        """Frames [n, k, channels, ...] as stacks [n, k * channels, ...]."""
        return frames.flatten(1, 2)

    def gather(self, indices: np.ndarray) -> Obs:
        frames = self.columns.gather(self._frame_indices(indices).reshape(-1))
        frames = frames.view(len(indices), self.n_stack, *frames.shape[1:])
        if len(self.older):
            self._fill_older(frames, indices)
        return self._merged(frames)

    def gather_next(self, last: np.ndarray, rows: np.ndarray, tickets: np.ndarray) -> Obs:
        return self._merged(self._shifted(last, rows, tickets)[:, 1:])

    def _shifted(self, last: np.ndarray, rows: np.ndarray, tickets: np.ndarray) -> torch.Tensor:
        """Frames [n, n_stack + 1, ...]: the stacks at `last`, and the frame that came after each."""
        following = last + self.n_envs
        following -= self.n_rows * (following >= self.n_rows)
        index = np.concatenate((self._frame_indices(last), following[:, None]), axis=1)
        frames = self.columns.gather(index.reshape(-1))
        frames = frames.view(len(last), self.n_stack + 1, *frames.shape[1:])
        if len(rows):
            frames[torch.from_numpy(rows).to(frames.device), -1] = self.finals.gather(tickets)
        if len(self.older):
            self._fill_older(frames, last)
        return frames

    def pair(
        self, indices: np.ndarray, last: np.ndarray, rows: np.ndarray, tickets: np.ndarray
    ) -> tuple[Obs, Obs]:
        if indices is not last:
            return super().pair(indices, last, rows, tickets)
        # one step: the two stacks share all frames but two, which are gathered once
        frames = self._shifted(last, rows, tickets)
        return self._merged(frames[:, :-1]), self._merged(frames[:, 1:])


def make_observations(
    space: spaces.Space[Any],
    n_slots: int,
    n_envs: int,
    device: torch.device,
    n_stack: int,
    dtypes: Dtypes | None = None,
) -> Observations:
    """The storage for observations of a space; with n_stack > 1 they are stacks of frames."""
    if n_stack > 1:
        return StackedObservations(space, n_slots, n_envs, device, n_stack)
    return Observations(space, n_slots, n_envs, device, dtypes)


def _stored_parts(space: spaces.Space[Any], dtypes: Dtypes | None) -> Iterator[tuple[Any, Any, Any]]:
    """Key (None of what is no Dict), space and stored dtype of each part of an observation."""
    parts: Any = space.spaces if isinstance(space, spaces.Dict) else {None: space}
    for key, part in parts.items():
        given = None if dtypes is None else dtypes.get(key)
        yield key, part, _torch_dtype(part.dtype) if given is None else given


def _torch_dtype(dtype: Any) -> Any:
    """What numbers are stored as: torch can draw from signed integers and from bytes only."""
    wider = {"uint16": np.int32, "uint32": np.int64, "uint64": np.int64}
    return wider.get(np.dtype(dtype).name, _stored_dtype(dtype))

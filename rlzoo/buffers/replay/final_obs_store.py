"""Storage for the final observations of episodes, which the next ring slot overwrites."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from rlzoo.buffers.base_buffer import Obs, map_obs

Rows: TypeAlias = "np.ndarray | torch.Tensor"
"""What is gathered from tensors on the CPU, an array, and elsewhere, a tensor."""


def allocate(shape: tuple[int, ...], dtype: npt.DTypeLike | None, device: torch.device) -> torch.Tensor:
    """Allocate zeros [*shape]; on the CPU the operating system provides a page when it is first written."""
    zeros = torch.from_numpy(np.zeros(shape, dtype))
    return zeros if device.type == "cpu" else zeros.to(device)


class FinalObsStore:
    """First-in, first-out store of observations, addressed by increasing handles.

    An entry belongs to a slot of the ring and is freed when that slot is written again. The memory grows by
    doubling, up to the largest number of entries held at once.

    :param empty: observations [0, ...] that give shapes, dtypes and device
    """

    def __init__(self, empty: Obs) -> None:
        self.rows = empty
        self.capacity = 0
        self._oldest = self._next = 0  # handles; entry `handle` is in row `handle % capacity`
        self._held: deque[tuple[int, int]] = deque()  # (slot, number of entries), oldest first

    def __len__(self) -> int:
        return self._next - self._oldest

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return tensor_bytes(self.rows)

    def store(self, slot: int, rows: Obs) -> np.ndarray:
        """Copy rows [n, ...] (arrays or tensors) for a slot; return their handles [n]."""
        handles = self._append(rows)
        self._held.append((slot, len(handles)))
        return handles

    def extend(self, slots: np.ndarray, chunks: Iterable[Obs]) -> np.ndarray:
        """Copy chunks of rows [k, ...] for slots [n] in the order of the ring; return their handles [n]."""
        first = self._next
        for rows in chunks:
            self._append(rows)
        self._held.extend((slot, 1) for slot in slots.tolist())
        return np.arange(first, self._next)

    def _append(self, rows: Obs) -> np.ndarray:
        n_rows = len(next(iter(rows.values())) if isinstance(rows, dict) else rows)
        if len(self) + n_rows > self.capacity:
            self._grow(max(2 * self.capacity, len(self) + n_rows, 16))
        handles = np.arange(self._next, self._next + n_rows)
        index = torch.from_numpy(handles % self.capacity)

        def write(target: torch.Tensor, source: np.ndarray | torch.Tensor) -> None:
            source = torch.from_numpy(np.array(source)) if isinstance(source, np.ndarray) else source
            target[index.to(target.device)] = source.to(target)

        map_obs(write, self.rows, rows)
        self._next += n_rows
        return handles

    def free(self, slot: int) -> None:
        """Free the entries of a slot; slots are freed in the order in which they were filled."""
        held = self._held
        while held and held[0][0] == slot:
            self._oldest += held.popleft()[1]

    def clear(self) -> None:
        """Clear the buffer without freeing its memory."""
        self._held.clear()
        self._oldest = self._next

    def gather(self, handles: np.ndarray, key: str | None = None) -> Obs:
        """Return the entries [n, ...] with these handles, `Rows`; with a key, only that part of a Dict."""
        index = handles % self.capacity

        def chosen(rows: torch.Tensor) -> Rows:
            if rows.device.type == "cpu":
                return rows.numpy().take(index, axis=0)
            return rows.index_select(0, torch.from_numpy(index).to(rows.device))

        return map_obs(chosen, self.rows if key is None else self.rows[key])

    def _grow(self, capacity: int) -> None:
        handles = np.arange(self._oldest, self._next)
        new = torch.from_numpy(handles % capacity)
        old = torch.from_numpy(handles % max(self.capacity, 1))

        def larger(rows: torch.Tensor) -> torch.Tensor:
            shape = (capacity, *rows.shape[1:])
            grown = allocate(shape, rows[:0].cpu().numpy().dtype, rows.device)
            grown[new.to(rows.device)] = rows[old.to(rows.device)]
            return grown

        # Tensors that are made in inference mode, as `predict` has it, could not be written elsewhere.
        with torch.inference_mode(False):
            self.rows = map_obs(larger, self.rows)
        self.capacity = capacity


def as_array(rows: Rows) -> np.ndarray:
    """Return rows as an array in the memory of the CPU."""
    return rows if isinstance(rows, np.ndarray) else rows.cpu().numpy()


def tensor_bytes(tensors: Obs) -> int:
    """Return the bytes of a tensor or of a dict of tensors."""
    columns = tensors.values() if isinstance(tensors, dict) else [tensors]
    return sum(column.numel() * column.element_size() for column in columns)

"""Sequences of rows of a rollout, for recurrent policies.

Losses work on rows [n_rows, ...] without padding: only the recurrent network arranges rows in time, pads the
shorter sequences, and removes the padding again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rlzoo.buffers.rollout_buffer import Batch, PolicyContext, RolloutBuffer

RNNState = dict[str, Tensor]
"""Recurrent (hidden) state by name: [n_sequences or n_envs, ...]."""


Versions = tuple[int, ...]


class Sequences:
    """Sequences of the rows of a batch, with the hidden state before each sequence.

    :param starts: bool array [n_rows]: this row begins a sequence; the first does
    :param order: int array [n_rows]: positions of the rows in the batch, in the order of `starts`
    :param rnn_state: before the first row of each sequence, [n_sequences, ...]
    """

    def __init__(
        self, starts: np.ndarray, order: np.ndarray, rnn_state: RNNState, device: torch.device
    ) -> None:
        self.rnn_state = rnn_state
        first = np.flatnonzero(starts)
        sequence = np.cumsum(starts) - 1  # the sequence of each row
        time = np.arange(len(starts)) - first[sequence]  # its place in it
        self.n_sequences, self.max_length = len(first), int(time.max()) + 1
        cell = time * self.n_sequences + sequence
        row_of_cell = np.zeros(self.max_length * self.n_sequences, np.int64)  # padding repeats row 0
        row_of_cell[cell] = order
        cell_of_row = np.empty(len(starts), np.int64)
        cell_of_row[order] = cell
        self._row_of_cell = torch.from_numpy(row_of_cell).to(device)
        self._cell_of_row = torch.from_numpy(cell_of_row).to(device)
        self._last: tuple[Tensor, Tensor, Versions] | None = None  # rows, padded, and the versions of both

    def pad(self, rows: Tensor) -> Tensor:
        """Pad [n_rows, ...] to [max_length, n_sequences, ...]; the values of the padding do not matter.

        The last result is cached: actor and critic pad the same tensor, and so does every epoch where the
        minibatch is the whole rollout.
        """
        if self._last is not None and self._last[0] is rows and not rows.requires_grad:
            padded, versions = self._last[1:]
            if _versions(rows, padded) == versions:
                return padded
        padded = rows.index_select(0, self._row_of_cell)
        padded = padded.view(self.max_length, self.n_sequences, *rows.shape[1:])
        kept = not (rows.requires_grad or rows.is_inference() or padded.is_inference())
        self._last = (rows, padded, _versions(rows, padded)) if kept else None
        return padded

    def unpad(self, padded: Tensor) -> Tensor:
        """Invert `pad`: [max_length, n_sequences, ...] -> [n_rows, ...]."""
        return padded.flatten(0, 1).index_select(0, self._cell_of_row)


def _versions(*tensors: Tensor) -> Versions:
    """Return the version of each tensor, which grows with every change in place."""
    return tuple(tensor._version for tensor in tensors)


def rollout_sequences(rollout: RolloutBuffer, rnn_state: RNNState) -> Sequences:
    """Return the sequences of a whole rollout, whose rows are [n_steps * n_envs], step after step.

    :param rnn_state: before each step, [n_steps (or more), n_envs, ...]
    """
    rows = _by_environment(rollout)
    return _sequences(rows, rows, rollout, rnn_state)


def sequence_minibatches(
    batch: Batch, batch_size: int, rollout: RolloutBuffer, rnn_state: RNNState
) -> Iterator[Batch]:
    """Split a batch into minibatches of `batch_size` neighbouring rows; the last may be smaller.

    Rows are taken environment after environment, from a random row on, so that the cuts differ every time. A
    cut sequence continues from the hidden state at collection.

    :param rnn_state: before each step, [n_steps (or more), n_envs, ...]
    """
    n_rows = rollout.n_steps * rollout.n_envs
    if batch_size >= n_rows:
        yield batch
        return
    rows = np.roll(_by_environment(rollout), -int(torch.randint(n_rows, ())))
    for start in range(0, n_rows, batch_size):
        yield take_sequences(batch, rows[start : start + batch_size], rollout, rnn_state)


def take_sequences(batch: Batch, rows: np.ndarray, rollout: RolloutBuffer, rnn_state: RNNState) -> Batch:
    """Return a minibatch of rows of a rollout, with the sequences that they form.

    :param rows: row numbers; neighbouring steps of an environment are one sequence
    :param rnn_state: before each step, [n_steps (or more), n_envs, ...]
    """
    context: PolicyContext = {**batch.context}
    context.pop("sequences", None)
    minibatch = replace(batch, context=context).take(torch.from_numpy(rows))
    minibatch.context["sequences"] = _sequences(rows, np.arange(len(rows)), rollout, rnn_state)
    return minibatch


def _by_environment(rollout: RolloutBuffer) -> np.ndarray:
    """Return the rows of a rollout, environment after environment."""
    rows = np.arange(rollout.n_steps * rollout.n_envs).reshape(rollout.n_steps, rollout.n_envs)
    return rows.T.ravel()


def _sequences(rows: np.ndarray, order: np.ndarray, rollout: RolloutBuffer, rnn_state: RNNState) -> Sequences:
    """Return the sequences of `rows` of the rollout; `order` has their positions in the batch.

    A sequence ends where the episode or the environment does, or where the rows jump.
    """
    steps, envs = np.divmod(rows, rollout.n_envs)
    episode_starts = rollout.starts_column[steps, envs]
    starts = episode_starts.copy()
    starts[0] = True
    starts[1:] |= (np.diff(envs) != 0) | (np.diff(steps) != 1)
    before, fresh = (steps[starts], envs[starts]), episode_starts[starts]
    device = next(iter(rnn_state.values())).device
    is_start = torch.from_numpy(fresh).to(device)
    initial = {
        name: column[before].masked_fill(is_start.reshape(-1, *[1] * (column.dim() - 2)), 0.0)
        for name, column in rnn_state.items()
    }
    return Sequences(starts, order, initial, device)

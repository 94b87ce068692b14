"""Rows of a rollout as algorithms read them: all of them, and in shuffled minibatches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypedDict, TypeVar

import torch
from torch import Tensor

from rlzoo.buffers.base_buffer import map_obs
from rlzoo.core.types import TensorObs

if TYPE_CHECKING:
    from rlzoo.buffers.sequences import Sequences

Batch = TypeVar("Batch", bound="RolloutBatch")
EMPTY = torch.empty(0)
"""The value of a column that an algorithm does not fill."""


class PolicyContext(TypedDict, total=False):
    """What methods of a policy need besides observations, as keywords.

    `sequences` of a recurrent policy, `action_masks` [n_rows, n_choices] of a masked one, and
    `gaussian_actions` [n_rows, n], the actions of a squashed Gaussian before the tanh.
    """

    sequences: Sequences
    action_masks: Tensor
    gaussian_actions: Tensor


@dataclass(slots=True)
class RolloutBatch:
    """Rows of a rollout, [n_rows, ...], on the device of the algorithm.

    Columns that an algorithm does not fill are empty. A subclass may have further columns. Columns can also
    be read and written by name, `batch["obs"]`.

    :param actions: as they are stored
    :param context: keywords for the policy's methods
    :param values: V of the policy that collected the rows, [n_rows]
    :param log_probs: log-probabilities of the actions under that policy, [n_rows]
    """

    obs: TensorObs
    actions: Tensor = EMPTY
    context: PolicyContext = field(default_factory=PolicyContext)
    values: Tensor = EMPTY
    log_probs: Tensor = EMPTY
    advantages: Tensor = EMPTY
    returns: Tensor = EMPTY

    def __getitem__(self, name: str) -> object:
        return getattr(self, name)

    def __setitem__(self, name: str, value: object) -> None:
        setattr(self, name, value)

    def normalized_advantages(self) -> Tensor:
        """Return the advantages with mean 0 and standard deviation 1; the one of a single row unchanged."""
        if self.advantages.shape[-1] < 2:
            return self.advantages
        std, mean = torch.std_mean(self.advantages, -1, keepdim=True)
        return (self.advantages - mean) / (std + 1e-8)

    def take(self: Batch, rows: Tensor) -> Batch:
        """Return the given rows of every column.

        :param rows: int tensor of row numbers
        """

        def rows_of(column: Tensor) -> Tensor:
            return column if column is EMPTY else column[rows.to(column.device)]

        return type(self)(**{item.name: map_obs(rows_of, getattr(self, item.name)) for item in fields(self)})


def uneven_minibatches(batch_size: int, n_steps: int, n_envs: int, normalized: bool) -> str | None:
    """Return a sentence when the last minibatch of a rollout is smaller than the others, else None.

    :param normalized: whether advantages are normalised, which a single row does not allow
    """
    rows = n_steps * n_envs
    if rows <= batch_size or rows % batch_size == 0:
        return None  # a smaller rollout is one minibatch
    divisors = (size for size in range(2, rows + 1) if rows % size == 0)
    fitting = min(divisors, key=lambda size: abs(size - batch_size))
    smaller = "be smaller"
    if rows % batch_size == 1 and normalized:
        smaller = "have one row, whose advantage cannot be normalised"
    return (
        f"batch_size {batch_size} does not divide n_steps * n_envs = {n_steps} * {n_envs} = "
        f"{rows}, so the last minibatch would {smaller}; the nearest that does is {fitting}"
    )


def single_minibatch(batch_size: int, n_steps: int, n_envs: int) -> str | None:
    """Return a sentence when a rollout is smaller than a minibatch, else None."""
    rows = n_steps * n_envs
    if rows >= batch_size:
        return None  # `uneven_minibatches` looks at these
    return (
        f"batch_size {batch_size} is larger than a rollout, n_steps * n_envs = {n_steps} * {n_envs} = {rows},"
        " so each minibatch is the whole rollout"
    )


def minibatches(batch: Batch, batch_size: int, n_rows: int, device: torch.device) -> Iterator[Batch]:
    """Split a batch of `n_rows` rows into shuffled minibatches; the last may be smaller.

    A single minibatch with all rows is not shuffled: a mean does not depend on the order of its terms.
    """
    if batch_size >= n_rows:
        yield batch
        return
    order = torch.randperm(n_rows, device=device)
    for start in range(0, n_rows, batch_size):
        yield batch.take(order[start : start + batch_size])

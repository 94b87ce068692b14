"""Minibatches of the rollouts of all ranks: drawn alike on every rank, which computes the rows it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from rlzoo.buffers.rollout_buffer import EMPTY, RolloutBatch

TakeRows = Callable[[np.ndarray], RolloutBatch]
"""Row numbers of this rank's rollout -> the minibatch of them."""


@dataclass(slots=True)
class RankBatch(RolloutBatch):
    """The rows of this rank in a minibatch of all ranks.

    :param moments: standard deviation and mean of the advantages of the whole minibatch
    """

    moments: tuple[Tensor, Tensor] | None = None

    def normalized_advantages(self) -> Tensor:
        if self.moments is None:
            return self.advantages
        std, mean = self.moments
        return (self.advantages - mean) / (std + 1e-8)


def rank_batch(batch: RolloutBatch, advantages: Tensor) -> RankBatch:
    """Return the rows of this rank.

    :param advantages: of the whole minibatch, [n_rows]; empty without advantages
    """
    columns = {item.name: getattr(batch, item.name) for item in fields(batch)}
    moments = torch.std_mean(advantages) if len(advantages) > 1 else None
    return RankBatch(**columns, moments=moments)


class Shares:
    """Which rows of the rollouts of all ranks this rank has.

    Rows of all ranks are numbered as in one process, step after step: `step * n_envs + env`.

    :param n_local: environments of this rank
    """

    def __init__(self, rank: int, size: int, n_local: int) -> None:
        self.size, self.n_local, self.n_envs, self.first = size, n_local, n_local * size, n_local * rank

    def own(self, rows: np.ndarray) -> np.ndarray:
        """Return the numbers in this rank's rollout of those among `rows` that it has."""
        steps, envs = np.divmod(rows[self.positions(rows)], self.n_envs)
        return steps * self.n_local + envs - self.first

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """Return the positions among `rows` of those that this rank has."""
        envs = rows % self.n_envs - self.first
        return np.flatnonzero((envs >= 0) & (envs < self.n_local))

    def merged(self, columns: np.ndarray) -> np.ndarray:
        """Return columns [size, n_steps * n_local] of all ranks as one, [n_steps * n_envs]."""
        by_step = columns.reshape(self.size, -1, self.n_local)
        return np.ascontiguousarray(by_step.transpose(1, 0, 2)).reshape(-1)

    def order(self, n_steps: int, device: torch.device, recurrent: bool) -> np.ndarray:
        """Return all rows in the order in which one process splits them into minibatches.

        :param recurrent: environment after environment, from a random row on
        """
        n_rows = n_steps * self.n_envs
        if not recurrent:
            return torch.randperm(n_rows, device=device).cpu().numpy()  # type: ignore[no-any-return]
        by_env = np.arange(n_rows).reshape(n_steps, self.n_envs).T.ravel()
        return np.roll(by_env, -int(torch.randint(n_rows, ())))

    def minibatches(
        self, order: np.ndarray, batch_size: int, advantages: Tensor, take: TakeRows
    ) -> Iterator[tuple[RankBatch, float]]:
        """Yield this rank's rows of each minibatch, with their fraction of the minibatch.

        Where it has none, that is 0, and the batch is one row that does not count.

        :param advantages: of all rows, or empty
        """
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            rows = self.own(chosen)
            share = len(rows) / len(chosen)
            batch = take(rows if len(rows) else np.zeros(1, np.int64))
            of_all = advantages
            if len(advantages):
                of_all = advantages[torch.from_numpy(chosen).to(advantages.device)]
            yield rank_batch(batch, of_all), share


def has_advantages(batch: RolloutBatch) -> bool:
    """Return whether an algorithm has filled the column."""
    return batch.advantages is not EMPTY

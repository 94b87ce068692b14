"""Prioritised experience replay: Schaul et al. (2016), https://arxiv.org/abs/1511.05952.

The proportional variant: a transition is sampled with probability P(i) = p_i^alpha / sum_k p_k^alpha, where
p_i is its last absolute TD error plus `eps`, and its loss is weighted with (N P(i))^-beta, divided by the
largest weight of the batch. Transitions that were never sampled have the largest priority so far. The paper
also divides the learning rate by 4, which is left to the user.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from rlzoo.buffers.base_buffer import StepResult
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.buffers.replay.sum_tree import SumTree
from rlzoo.core.errors import UserError


class PrioritizedReplayBuffer(ReplayBuffer):
    """Replay buffer that samples with probabilities in proportion to (|TD error| + eps)^alpha.

    Source: Schaul et al. 2016, https://arxiv.org/abs/1511.05952.

    Batches have `weights`; the algorithm passes the absolute TD errors to `update_priorities`.

    Example:
        >>> from rlzoo import DQN
        >>> model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=PrioritizedReplayBuffer)

    :param alpha: 0 samples uniformly, 1 in proportion to the TD errors
    :param beta0: initial exponent of the importance weights: 0 no correction, 1 full; it ends at 1
    :param beta_iters: transitions after which beta is 1; None: at the end of the training (`progress`)
    :param eps: added to absolute TD errors, so that every transition may be sampled
    :param args: as of `ReplayBuffer`
    """

    draws_ahead: ClassVar[bool] = False

    def __init__(
        self,
        *args: Any,
        alpha: float = 0.6,
        beta0: float = 0.4,
        beta_iters: int | None = None,
        eps: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        for name, value in {"alpha": alpha, "beta0": beta0}.items():
            if not 0 <= value <= 1:
                raise UserError(f"{name} of prioritised replay must be at least 0 and at most 1, not {value}")
        if eps <= 0 or (beta_iters is not None and beta_iters < 1):
            raise UserError(
                f"prioritised replay needs eps > 0 and beta_iters of 1 at least, not {eps} and {beta_iters}"
            )
        self.alpha, self.beta0, self.beta_iters, self.eps = alpha, beta0, beta_iters, eps
        self.tree = SumTree(self._n_rows)  # p^alpha of every transition
        self.max_priority = 1.0  # the largest p so far
        self._n_added = 0  # transitions, ever
        self._pending = 0  # slots added since their priorities were last written

    @property
    def beta(self) -> float:
        """Current exponent of the importance weights."""
        done = self.progress if self.beta_iters is None else min(self._n_added / self.beta_iters, 1.0)
        return self.beta0 + (1.0 - self.beta0) * done

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.tree.nbytes

    @classmethod
    def required_bytes(cls, buffer_size: int, *args: Any, **kwargs: Any) -> int:
        tree = 17 * buffer_size  # weights and running sums, 8 bytes each, and the levels above
        return super().required_bytes(buffer_size, *args, **kwargs) + tree

    def reset(self) -> None:
        super().reset()
        self.tree.set(np.arange(self._n_rows), 0.0)
        self.max_priority, self._n_added, self._pending = 1.0, 0, 0

    def _on_added(self, slot: int, result: StepResult) -> None:
        self._n_added += self.n_envs
        self._pending += 1

    def _write_pending(self) -> None:
        """Give new transitions the largest priority, and overwritten ones none."""
        if self._pending == 0:
            return
        count = min(self._pending, self._size)
        self._pending = 0
        if self.full:
            self.tree.set(self._rows_of(self.head, self.n_slots - self._size), 0.0)
        self.tree.set(self._rows_of(self.head - count, count), self.max_priority**self.alpha)

    def _rows_of(self, first_slot: int, n_slots: int) -> np.ndarray:
        """Return the indices of all transitions in consecutive slots."""
        rows: np.ndarray = np.arange(first_slot * self.n_envs, (first_slot + n_slots) * self.n_envs)
        return rows % self._n_rows

    def _draw(self, count: int) -> np.ndarray:
        """Sample a transition from each of `count` equal parts of the sum of priorities."""
        self._write_pending()
        total = self.tree.total
        places = (np.arange(count) + torch.rand(count, dtype=torch.float64).numpy()) * (total / count)
        return self.tree.find(np.minimum(places, np.nextafter(total, 0.0)))

    def _assemble(self, indices: np.ndarray) -> ReplayBatch:
        self._write_pending()
        batch = super()._assemble(indices)
        chances = self.tree.get(indices) * (len(self) / self.tree.total)  # N P(i)
        weights = chances**-self.beta
        batch.weights = self._to_device((weights / weights.max()).astype(np.float32))
        return batch

    def update_priorities(self, indices: np.ndarray, priorities: torch.Tensor | np.ndarray) -> None:
        """Set the priorities of the transitions at indices [B] from absolute TD errors [B].

        They may come late: the slot of the current observation, which holds no transition, gets no priority.
        """
        self._write_pending()
        errors = priorities.detach().cpu().numpy() if isinstance(priorities, torch.Tensor) else priorities
        values = np.abs(np.asarray(errors, dtype=np.float64)).reshape(-1) + self.eps
        indices = np.asarray(indices)
        held = (indices // self.n_envs - self.oldest) % self.n_slots < self._size
        self.tree.set(indices[held], values[held] ** self.alpha)
        self.max_priority = max(self.max_priority, float(values.max()))

    def own_columns(self) -> dict[str, np.ndarray]:
        self._write_pending()
        return {"priorities": self.tree.leaves.reshape(self.n_slots, self.n_envs)}

    def own_state(self) -> dict[str, float | str]:
        return {"max_priority": self.max_priority, "n_added": self._n_added}

    def load_own_state(self, state: dict[str, float | str]) -> None:
        self.max_priority, self._n_added = float(state["max_priority"]), int(state["n_added"])
        self._pending = 0
        self.tree.set(np.arange(self._n_rows), self.tree.leaves)

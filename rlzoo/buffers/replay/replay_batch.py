"""Batches of transitions for off-policy algorithms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rlzoo.buffers.samples import DictReplayBufferSamples, ReplayBufferSamples


@dataclass(slots=True)
class ReplayBatch:
    """B transitions of a replay buffer, on the device of the algorithm.

    With n-step returns a transition spans m <= n steps: fewer where the episode, or the experience, ends.

    :param observations: [B, ...] or a dict of such, as the environment gives them (normalised where a
        VecNormalize does so, never preprocessed)
    :param actions: [B, ...]: float32 of a Box, int64 of the discrete spaces
    :param next_observations: what the last of the m steps led to; the true final observation at an end
    :param rewards: [B] float32, sum over the m steps of gamma^k r_k
    :param discounts: [B] float32, gamma^m, or 0 where the task ended: what the bootstrap is multiplied with
    :param indices: [B] int64 array, position of the transitions in the buffer
    :param weights: [B] float32, importance weights of prioritised replay; None without
    :param priorities: [B], absolute TD errors, written by the algorithm when there are weights
    """

    observations: Any
    actions: torch.Tensor
    next_observations: Any
    rewards: torch.Tensor
    discounts: torch.Tensor
    indices: Any
    weights: torch.Tensor | None = None
    priorities: torch.Tensor | None = None

    def set_priorities(self, td_errors: torch.Tensor) -> None:
        """Set the priorities to absolute TD errors, where replay is prioritised.

        :param td_errors: [B], or [n_critics, B], which are averaged
        """
        if self.weights is not None:
            errors = td_errors.detach().abs()
            self.priorities = errors if errors.dim() == 1 else errors.mean(dim=0)


def as_samples(
    batch: ReplayBatch, dones: np.ndarray, discounts: np.ndarray | None
) -> ReplayBufferSamples | DictReplayBufferSamples:
    """Convert a batch to a named tuple.

    :param dones: [B]
    :param discounts: gamma^m [B] of n-step returns, else None
    """

    def column(numbers: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(numbers, dtype=torch.float32, device=batch.rewards.device).reshape(-1, 1)

    kind = DictReplayBufferSamples if isinstance(batch.observations, dict) else ReplayBufferSamples
    samples = kind(
        observations=batch.observations,
        actions=batch.actions.reshape(len(dones), -1),
        next_observations=batch.next_observations,
        dones=column(dones),
        rewards=batch.rewards.reshape(-1, 1),
        discounts=None if discounts is None else column(discounts),
    )
    samples.indices, samples.weights = batch.indices, batch.weights
    return samples


def as_batch(samples: Any, gamma: float) -> ReplayBatch:
    """Convert a named tuple of samples to a `ReplayBatch`.

    :param samples: `ReplayBufferSamples`, or what has its fields
    :param gamma: discount of the transitions, where they do not have their own
    """
    discounts = getattr(samples, "discounts", None)
    dones = samples.dones.reshape(-1)
    shape = samples.actions.shape
    discrete = not samples.actions.is_floating_point() and shape[1:] == (1,)
    return ReplayBatch(
        observations=samples.observations,
        actions=samples.actions.reshape(-1) if discrete else samples.actions,
        next_observations=samples.next_observations,
        rewards=samples.rewards.reshape(-1).float(),
        discounts=(1 - dones.float()) * (gamma if discounts is None else discounts.reshape(-1)),
        indices=getattr(samples, "indices", None),
        weights=getattr(samples, "weights", None),
    )

"""What a training loop and an algorithm exchange at every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
import torch

Metrics: TypeAlias = "dict[str, torch.Tensor | float]"
"""Metrics of an update by name, without the prefix `train/`: scalar tensors or numbers."""

TensorObs: TypeAlias = "torch.Tensor | dict[str, torch.Tensor]"
"""Observations as policies take them, [batch, ...], a tensor or a dict of tensors."""


@dataclass(slots=True)
class Counters:
    """Counters of a training; the loop advances them, algorithms read them.

    :param total_timesteps: number of environment steps at which this training ends, counted from zero
    :param collected: steps of each environment since the last update, off-policy only
    :param ended: episodes that ended in these steps
    :param episodes: episodes that ended since the training began, off-policy only
    :param warm_up: actions are still random
    """

    num_timesteps: int = 0
    total_timesteps: int = 0
    iteration: int = 0
    n_updates: int = 0
    collected: int = 0
    ended: int = 0
    episodes: int = 0
    warm_up: bool = False

    @property
    def progress_remaining(self) -> float:
        """Fraction of the training that is left, from 1 to 0: the argument of every schedule."""
        return max(0.0, 1.0 - self.num_timesteps / self.total_timesteps) if self.total_timesteps else 1.0


class StochasticPolicy(Protocol):
    """A policy with a distribution of actions.

    Besides observations its methods may need a context, as keywords: see `PolicyContext`.
    """

    def evaluate_actions(
        self, obs: TensorObs, actions: torch.Tensor, **context: object
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Return values [B, 1], log-probabilities of actions [B] and entropies [B], with gradients."""


@dataclass(slots=True)
class PolicyInput:
    """What an algorithm sees when it chooses actions.

    :param obs: observations [n_envs, ...] on the algorithm's device
    :param episode_start: bool array [n_envs], whether this observation is the first of its episode
    :param step: index of the step in the current rollout
    :param action_masks: bool array [n_envs, n_choices], or None
    """

    obs: TensorObs
    episode_start: np.ndarray
    step: int
    counters: Counters
    action_masks: np.ndarray | None = None

    @property
    def clock(self) -> Counters:
        """Former name of `counters`."""
        return self.counters


@dataclass(slots=True)
class PolicyOutput:
    """The actions that an algorithm chose.

    :param action: tensor [n_envs, ...], as it is stored and learned from
    :param env_action: array [n_envs, ...], as the environments execute it (a Box's clipped or unscaled)
    :param extra: further columns of the rollout (values, log-probabilities, LSTM states), [n_envs, ...]
    """

    action: torch.Tensor
    env_action: np.ndarray
    extra: dict[str, torch.Tensor] = field(default_factory=dict)

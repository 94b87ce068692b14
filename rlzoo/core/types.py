"""What a training loop and an algorithm exchange at every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
import torch

from rlzoo.core.schedules import Counters

Metrics: TypeAlias = "dict[str, torch.Tensor | float]"
"""Metrics of an update by name, without the prefix `train/`: scalar tensors or numbers."""

TensorObs: TypeAlias = "torch.Tensor | dict[str, torch.Tensor]"
"""Observations as policies take them, [batch, ...], a tensor or a dict of tensors."""


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

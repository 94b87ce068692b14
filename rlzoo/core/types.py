"""What a training loop and an algorithm hand each other at every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Clock:
    """Where training stands. The loop owns it; algorithms only read it.

    :param total_timesteps: the number of environment steps at which this training ends, counted from zero
    :param collected: steps of each environment since the last round of updates, where experience is replayed
    :param ended: episodes that ended in these steps
    :param episodes: episodes that ended since the training began, where experience is replayed
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
        """1 at the beginning, 0 at the end: the argument of every schedule."""
        return max(0.0, 1.0 - self.num_timesteps / self.total_timesteps) if self.total_timesteps else 1.0


@dataclass(slots=True)
class Inputs:
    """What an algorithm sees when it must act.

    :param obs: observations, a tensor [n_envs, ...] or a dict of them, on the algorithm's device
    :param episode_start: bool array [n_envs], whether this observation is the first of its episode
    :param step: index of the step in the current rollout
    :param action_masks: bool array [n_envs, n_choices], or None
    """

    obs: Any
    episode_start: Any
    step: int
    clock: Clock
    action_masks: Any = None


@dataclass(slots=True)
class Step:
    """What an algorithm answers.

    :param action: tensor [n_envs, ...], as it is stored and learned from
    :param env_action: array [n_envs, ...], as the environments execute it (clipped or unscaled to a Box)
    :param extra: further columns for the rollout (values, log-probabilities, LSTM states), tensors
        [n_envs, ...]
    """

    action: Any
    env_action: Any
    extra: dict[str, Any] = field(default_factory=dict)

"""State of a training loop between two steps of the environments."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rlzoo.core.observations import Obs, copy_obs
from rlzoo.envs.vec_env.vec_env import VecEnv, VecStep


@dataclass
class Collector:
    """The position of a training loop in its environments.

    :param obs: current observations of all environments; None before the first reset
    :param episode_starts: bool array [n_envs], whether these are the first of their episodes
    :param episodes_restored: the episodes in progress come from a checkpoint
    :param saved_rollout: a partly filled rollout of a checkpoint, until the loop takes it
    :param start_time: when `learn` was called, in seconds
    :param start_timesteps: `num_timesteps` at that time
    """

    obs: Obs | None = None
    episode_starts: np.ndarray = field(default_factory=lambda: np.ones(1, bool))
    episodes_restored: bool = False
    saved_rollout: Mapping[str, object] = field(default_factory=dict)
    start_time: float = 0.0
    start_timesteps: int = 0

    def start_training(self, num_timesteps: int) -> None:
        """Start measuring the speed of a training."""
        self.start_time, self.start_timesteps = time.time(), num_timesteps

    def reset(self, env: VecEnv) -> None:
        """Begin new episodes, and a new rollout."""
        self.obs, self.episode_starts = env.reset(), np.ones(env.num_envs, bool)
        self.episodes_restored, self.saved_rollout = False, {}

    def restore(self, obs: Obs, episode_starts: np.ndarray) -> None:
        """Take over copies of saved observations and episode starts."""
        self.obs, self.episode_starts = copy_obs(obs), np.array(episode_starts, bool)

    def current_obs(self) -> Obs:
        """Return the current observations.

        :raises RuntimeError: the environments were not reset
        """
        if self.obs is None:
            raise RuntimeError("the environments were not reset")
        return self.obs

    def advance(self, result: VecStep) -> None:
        """Move on to the observations that a step led to."""
        self.obs, self.episode_starts = result.obs, result.terminated | result.truncated

    def detach_obs(self) -> None:
        """Copy the observations, whose memory the environments write again."""
        self.obs = None if self.obs is None else copy_obs(self.obs)

    def take_rollout(self) -> Mapping[str, object]:
        """Return the saved rollout, once; empty without one."""
        saved, self.saved_rollout = self.saved_rollout, {}
        return saved

    def time_elapsed(self) -> float:
        """Return the seconds since `learn` was called, above zero."""
        return max(time.time() - self.start_time, 1e-9)

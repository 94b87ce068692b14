"""State of a training between two steps of the environments: position, counters, schedules, episodes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from rlzoo.core.observations import Info, Obs, copy_obs
from rlzoo.core.schedules import Counters, Schedule
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
    :param acting: makes the context in which the policy acts, see `acting_mode`; environments and callbacks
        are not inside, since they may train networks
    """

    obs: Obs | None = None
    episode_starts: np.ndarray = field(default_factory=lambda: np.ones(1, bool))
    episodes_restored: bool = False
    saved_rollout: Mapping[str, object] = field(default_factory=dict)
    start_time: float = 0.0
    start_timesteps: int = 0
    acting: Callable[[], AbstractContextManager[object]] = torch.no_grad

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


class EpisodeBuffers(Protocol):
    """An algorithm that keeps the statistics of its last episodes."""

    ep_info_buffer: deque[Info]
    ep_success_buffer: deque[bool]


def record_episodes(algorithm: EpisodeBuffers, infos: Iterable[Info]) -> None:
    """Keep the statistics of episodes that have just ended for `rollout/ep_rew_mean` and its like."""
    for info in infos:
        if "episode" in info:
            algorithm.ep_info_buffer.append(info["episode"])
            if "is_success" in info:
                algorithm.ep_success_buffer.append(bool(info["is_success"]))


class CounterProperties:
    """What a model reads from its counters, its schedules and its collector."""

    counters: Counters
    collector: Collector
    schedules: dict[str, Schedule]
    assigned_progress: tuple[int, float] | None = None  # by a script, and the step until which it holds

    @property
    def clock(self) -> Counters:
        """Former name of `counters`."""
        return self.counters

    @property
    def num_timesteps(self) -> int:
        return self.counters.num_timesteps

    @num_timesteps.setter
    def num_timesteps(self, value: int) -> None:
        self.counters.num_timesteps = value

    @property
    def n_updates(self) -> int:
        return self.counters.n_updates

    @property
    def lr_schedule(self) -> Any:
        """The learning rate as a function of the progress remaining, from 1 to 0."""
        return self.schedules["learning_rate"]

    @lr_schedule.setter
    def lr_schedule(self, value: Any) -> None:
        self.replace_config(learning_rate=value)

    def replace_config(self, **changes: object) -> None:
        raise NotImplementedError

    def optimize_assigned_policy(self) -> None:
        raise NotImplementedError

    @property
    def start_time(self) -> int:
        """When `learn` was called, in nanoseconds as of `time.time_ns()`."""
        return int(self.collector.start_time * 1e9)

    @property
    def _last_obs(self) -> Obs | None:
        return self.collector.obs

    @_last_obs.setter
    def _last_obs(self, obs: Obs | None) -> None:
        self.collector.obs = obs

    @property
    def _last_episode_starts(self) -> np.ndarray:
        return self.collector.episode_starts

    @_last_episode_starts.setter
    def _last_episode_starts(self, episode_starts: np.ndarray) -> None:
        self.collector.episode_starts = episode_starts

    @property
    def _total_timesteps(self) -> int:
        return self.counters.total_timesteps

    @_total_timesteps.setter
    def _total_timesteps(self, total_timesteps: int) -> None:
        self.counters.total_timesteps = total_timesteps

    @property
    def _current_progress_remaining(self) -> float:
        """The argument of the schedules; an assigned value holds until the next step."""
        if self.assigned_progress is not None and self.assigned_progress[0] == self.counters.num_timesteps:
            return self.assigned_progress[1]
        return self.counters.progress_remaining

    @_current_progress_remaining.setter
    def _current_progress_remaining(self, progress_remaining: float) -> None:
        self.assigned_progress = (self.counters.num_timesteps, progress_remaining)

    def schedule(self, name: str, counters: Counters) -> float:
        """Return the present value of a scheduled hyperparameter."""
        own = counters is self.counters
        progress = self._current_progress_remaining if own else counters.progress_remaining
        value: float = self.schedules[name](progress)
        return value

    def set_learning_rate(self, optimizer: torch.optim.Optimizer, counters: Counters) -> float:
        """Give the optimiser the present learning rate, and return it."""
        learning_rate = self.schedule("learning_rate", counters)
        for group in optimizer.param_groups:
            if isinstance(group["lr"], torch.Tensor):  # of a captured step, which reads this tensor
                group["lr"].fill_(learning_rate)
            else:
                group["lr"] = learning_rate
        return learning_rate

"""Counters, schedules and loop state of a model, under the names that scripts read them by."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlzoo.core.observations import Obs
from rlzoo.core.schedules import Schedule
from rlzoo.core.types import Counters
from rlzoo.training.collector import Collector


class CounterProperties:
    """What a model reads from its counters, its schedules and its collector."""

    counters: Counters
    collector: Collector
    schedules: dict[str, Schedule]

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
    def _n_updates(self) -> int:
        return self.counters.n_updates

    @property
    def lr_schedule(self) -> Any:
        """The learning rate as a function of the progress remaining, from 1 to 0."""
        return self.schedules["learning_rate"]

    @lr_schedule.setter
    def lr_schedule(self, value: Any) -> None:
        self.replace_config(learning_rate=value)

    def _setup_lr_schedule(self) -> None:
        """Do nothing: an assigned `learning_rate` is in use at once."""

    def replace_config(self, **changes: object) -> None:
        raise NotImplementedError

    @property
    def start_time(self) -> float:
        """When `learn` was called, in seconds."""
        return self.collector.start_time

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

    @property
    def _current_progress_remaining(self) -> float:
        return self.counters.progress_remaining

    def schedule(self, name: str, counters: Counters) -> float:
        """Return the present value of a scheduled hyperparameter."""
        value: float = self.schedules[name](counters.progress_remaining)
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

"""CounterProperties and schedules of a model, under the names by which scripts read them."""

from __future__ import annotations

from typing import Any

import torch

from rlzoo.core.types import Counters


class CounterProperties:
    """What a model reads from its clock and its schedules."""

    clock: Counters
    schedules: dict[str, Any]

    @property
    def num_timesteps(self) -> int:
        return self.clock.num_timesteps

    @num_timesteps.setter
    def num_timesteps(self, value: int) -> None:
        self.clock.num_timesteps = value

    @property
    def n_updates(self) -> int:
        return self.clock.n_updates

    @property
    def _n_updates(self) -> int:
        return self.clock.n_updates

    @property
    def lr_schedule(self) -> Any:
        """The learning rate as a function of the progress remaining, from 1 to 0."""
        return self.schedules["learning_rate"]

    @lr_schedule.setter
    def lr_schedule(self, value: Any) -> None:
        self._replace_config(learning_rate=value)

    def _setup_lr_schedule(self) -> None:
        """Do nothing: an assigned `learning_rate` is in use at once."""

    def _replace_config(self, **changes: Any) -> None:
        raise NotImplementedError

    @property
    def _total_timesteps(self) -> int:
        return self.clock.total_timesteps

    @property
    def _current_progress_remaining(self) -> float:
        return self.clock.progress_remaining

    def schedule(self, name: str, clock: Counters) -> float:
        """The present value of a scheduled hyperparameter."""
        value: float = self.schedules[name](clock.progress_remaining)
        return value

    def set_learning_rate(self, optimizer: torch.optim.Optimizer, clock: Counters) -> float:
        """Give the optimiser the present learning rate, and return it."""
        learning_rate = self.schedule("learning_rate", clock)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate
        return learning_rate

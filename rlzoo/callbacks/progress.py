"""Reports of training loops: episode statistics and metrics."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
import torch

from rlzoo.core.observations import Info
from rlzoo.core.schedules import Counters
from rlzoo.core.types import Metrics
from rlzoo.metrics.logger import Logger

Metric: TypeAlias = "torch.Tensor | float"


class Speed(Protocol):
    """What the frames per second are computed from."""

    start_timesteps: int

    def time_elapsed(self) -> float:
        """Return the seconds since training began."""


class Reporter(Protocol):
    """What is reported of an algorithm."""

    counters: Counters
    overrides_dump_logs: ClassVar[bool]
    ep_info_buffer: deque[Info]
    ep_success_buffer: deque[bool]

    @property
    def logger(self) -> Logger:
        """The logger of the training."""

    @property
    def collector(self) -> Speed:
        """The state of the training loop."""

    def dump_logs(self, iteration: int = 0) -> None:
        """Record and dump the statistics of episodes."""

    def rollout_metrics(self) -> Metrics:
        """Return what is logged under `rollout/` besides statistics of episodes."""

    def summarise(self, history: list[Metrics], counters: Counters) -> Metrics:
        """Return the mean of each metric."""


def log_progress(algorithm: Reporter, metrics: Mapping[str, Metric]) -> None:
    """Record and dump metrics, by `dump_logs` where a class overrides it.

    :param metrics: of the last update
    """
    if not algorithm.overrides_dump_logs:
        dump_progress(algorithm, metrics)
        return
    record_metrics(algorithm, metrics)
    algorithm.dump_logs(*[algorithm.counters.iteration] * bool(algorithm.counters.iteration))


def dump_progress(algorithm: Reporter, metrics: Mapping[str, Metric]) -> None:
    """Record and dump metrics and statistics of episodes under the names that users know.

    :param metrics: of the last update
    """
    logger, counters = algorithm.logger, algorithm.counters
    elapsed = algorithm.collector.time_elapsed()
    if algorithm.ep_info_buffer:
        logger.record(
            "rollout/ep_rew_mean", float(np.mean([episode["r"] for episode in algorithm.ep_info_buffer]))
        )
        logger.record(
            "rollout/ep_len_mean", float(np.mean([episode["l"] for episode in algorithm.ep_info_buffer]))
        )
    if algorithm.ep_success_buffer:
        logger.record("rollout/success_rate", float(np.mean(algorithm.ep_success_buffer)))
    for name, value in algorithm.rollout_metrics().items():
        logger.record(f"rollout/{name}", value)
    logger.record("time/fps", int((counters.num_timesteps - algorithm.collector.start_timesteps) / elapsed))
    counted = "iterations" if counters.iteration else "episodes"
    logger.record(f"time/{counted}", counters.iteration or counters.episodes, exclude="tensorboard")
    logger.record("time/time_elapsed", int(elapsed), exclude="tensorboard")
    logger.record("time/total_timesteps", counters.num_timesteps, exclude="tensorboard")
    record_metrics(algorithm, metrics)
    logger.dump(step=counters.num_timesteps)


def last_metrics(algorithm: Reporter, history: list[Metrics]) -> Metrics:
    """Return the means of the metrics of the last update, which cost nothing until somebody asks."""
    return algorithm.summarise(history, algorithm.counters) if history else {}


def record_metrics(algorithm: Reporter, metrics: Mapping[str, Metric]) -> None:
    """Record the metrics of an update, as plain numbers, without dumping them."""
    for name, value in metrics.items():
        algorithm.logger.record(f"train/{name}", value.item() if isinstance(value, torch.Tensor) else value)
    if algorithm.counters.n_updates:
        algorithm.logger.record("train/n_updates", algorithm.counters.n_updates, exclude="tensorboard")

"""Reports of training loops: episode statistics, metrics, and the `locals` of callbacks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch

from rlzoo.core.observations import Info, Obs, copy_obs, copy_of
from rlzoo.core.types import Counters, Metrics
from rlzoo.envs.vec_env.vec_env import infos_of_step
from rlzoo.metrics.logger import Logger

Metric: TypeAlias = "torch.Tensor | float"
Reader: TypeAlias = Callable[[], object]
"""Looks up one of the locals."""


class Speed(Protocol):
    """What the frames per second are computed from."""

    start_timesteps: int

    def time_elapsed(self) -> float:
        """Return the seconds since training began."""


class Reporter(Protocol):
    """What is reported of an algorithm."""

    counters: Counters
    ep_info_buffer: deque[Info]
    ep_success_buffer: deque[bool]

    @property
    def logger(self) -> Logger:
        """The logger of the training."""

    @property
    def collector(self) -> Speed:
        """The state of the training loop."""

    def rollout_metrics(self) -> Metrics:
        """Return what is logged under `rollout/` besides statistics of episodes."""

    def summarise(self, history: list[Metrics], counters: Counters) -> Metrics:
        """Return the mean of each metric."""


def record_episodes(algorithm: Reporter, infos: Iterable[Info]) -> None:
    """Keep the statistics of episodes that have just ended for `rollout/ep_rew_mean` and its like."""
    for info in infos:
        if "episode" in info:
            algorithm.ep_info_buffer.append(info["episode"])
            if "is_success" in info:
                algorithm.ep_success_buffer.append(bool(info["is_success"]))


def log_progress(algorithm: Reporter, metrics: Mapping[str, Metric]) -> None:
    """Record and dump metrics under the names that users know.

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


class LoopLocals(Mapping[str, object]):
    """What callbacks see as `locals`: looked up when read, so that it costs nothing when nobody looks.

    `actions` are the policy's where it learns from a rollout, and what the environments executed where it
    replays experience; the others are `clipped_actions` and `buffer_actions`.

    `history` is no local: the metrics of the last update, one dict per gradient step or one for all of them.

    :param buffers: `rollout_buffer` or `replay_buffer`
    """

    def __init__(
        self, algorithm: Any, callback: object = None, log_interval: int = 1, **buffers: object
    ) -> None:
        self.algorithm = algorithm
        self.obs: Any = None  # what was acted on
        self.step: Any = None
        self.result: Any = None
        self.history: list[Metrics] = []
        self._read: dict[str, object] = {}  # of the present step: the same array for all who ask
        self._read_at = -1
        self._readers: dict[str, Reader] = {
            "self": lambda: algorithm,
            "callback": lambda: callback,
            "log_interval": lambda: log_interval,
            **{name: partial(buffers.get, name) for name in buffers},
            "env": lambda: algorithm.env,
            "total_timesteps": lambda: algorithm.counters.total_timesteps,
        }
        self._step_readers: dict[str, Reader] = {
            "infos": lambda: infos_of_step(self.result),
            "rewards": lambda: copy_of(self.result.rewards),  # the environments write into theirs again
            "dones": lambda: self.result.terminated | self.result.truncated,
            "new_obs": self._new_obs,
            "obs_tensor": lambda: self.obs,
        }
        of_loop = self._of_replay if "replay_buffer" in buffers else self._of_rollout
        self._step_readers |= of_loop()

    def _of_replay(self) -> dict[str, Reader]:
        config = self.algorithm.config
        self._readers |= {
            "learning_starts": lambda: config.learning_starts,
            "action_noise": lambda: self.algorithm.action_noise,
            "num_collected_steps": lambda: self.algorithm.counters.collected,
            "num_collected_episodes": lambda: self.algorithm.counters.ended,
        }
        return {
            "actions": lambda: self.step.env_action,
            "buffer_actions": lambda: self.step.action.cpu().numpy(),
        }

    def _of_rollout(self) -> dict[str, Reader]:
        if "rollout_buffer" in self._readers:
            self._readers |= {
                "iteration": lambda: self.algorithm.counters.iteration,
                "n_rollout_steps": lambda: self.algorithm.config.n_steps,
                "n_steps": lambda: getattr(self["rollout_buffer"], "filled", 0),
            }
        return {
            "actions": lambda: self.step.action.cpu().numpy(),
            "clipped_actions": lambda: self.step.env_action,
            "values": self._values,
            "log_probs": self._log_probs,
        }

    def _new_obs(self) -> Obs:
        """Copy what the step led to and the agent acts on next, since environments write into theirs."""
        obs = copy_obs(self.result.obs)
        collector = self.algorithm.collector
        if collector.obs is self.result.obs:
            collector.obs = obs
        return obs

    def _values(self) -> torch.Tensor:
        if "values" in self.step.extra:
            return self.step.extra["values"].reshape(-1, 1)  # type: ignore[no-any-return]
        with torch.no_grad():
            return self.algorithm.policy.predict_values(self.obs).reshape(-1, 1)  # type: ignore[no-any-return]

    def _log_probs(self) -> torch.Tensor:
        extra = self.step.extra
        if "log_probs" in extra:
            return extra["log_probs"]  # type: ignore[no-any-return]
        context = {name: extra[name] for name in ("action_masks", "gaussian_actions") if name in extra}
        with torch.no_grad():
            _, log_probs, _ = self.algorithm.policy.evaluate_actions(self.obs, self.step.action, **context)
        return log_probs  # type: ignore[no-any-return]

    def _present(self) -> dict[str, Reader]:
        return self._readers if self.result is None else {**self._readers, **self._step_readers}

    def __getitem__(self, name: str) -> object:
        if name in self._readers:
            return self._readers[name]()
        if self.result is None:
            raise KeyError(name)
        if self._read_at != self.algorithm.counters.num_timesteps:
            self._read, self._read_at = {}, self.algorithm.counters.num_timesteps
        if name not in self._read:
            self._read[name] = self._step_readers[name]()
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._present())

    def __len__(self) -> int:
        return len(self._present())

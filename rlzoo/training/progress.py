"""What every training loop reports: statistics of episodes, metrics, and the locals that callbacks see."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from rlzoo.envs.obs_arrays import copy_obs
from rlzoo.envs.vec_env import infos_of_step


def record_episodes(algorithm: Any, infos: Any) -> None:
    """Keep the statistics of episodes that have just ended for `rollout/ep_rew_mean` and its like."""
    for info in infos:
        if "episode" in info:
            algorithm.ep_info_buffer.append(info["episode"])
            if "is_success" in info:
                algorithm.ep_success_buffer.append(bool(info["is_success"]))


def log_progress(algorithm: Any, metrics: Mapping[str, Any]) -> None:
    """Record and dump metrics under the names that users know.

    :param metrics: of the last update
    """
    logger, clock = algorithm.logger, algorithm.clock
    elapsed = max(time.time() - algorithm.start_time, 1e-9)
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
    logger.record("time/fps", int((clock.num_timesteps - algorithm._start_timesteps) / elapsed))
    counted = "iterations" if clock.iteration else "episodes"
    logger.record(f"time/{counted}", clock.iteration or clock.episodes, exclude="tensorboard")
    logger.record("time/time_elapsed", int(elapsed), exclude="tensorboard")
    logger.record("time/total_timesteps", clock.num_timesteps, exclude="tensorboard")
    for name, value in metrics.items():
        logger.record(f"train/{name}", value)
    if clock.n_updates:
        logger.record("train/n_updates", clock.n_updates, exclude="tensorboard")
    logger.dump(step=clock.num_timesteps)


class LoopLocals(Mapping[str, Any]):
    """What callbacks see as `locals`: looked up when read, so that it costs nothing when nobody looks.

    `actions` are the policy's where it learns from a rollout, and what the environments executed where it
    replays experience; the others are `clipped_actions` and `buffer_actions`.

    :param buffers: `rollout_buffer` or `replay_buffer`
    """

    def __init__(self, algorithm: Any, **buffers: Any) -> None:
        self.algorithm = algorithm
        self.obs: Any = None  # what was acted on
        self.step: Any = None
        self.result: Any = None
        self._readers: dict[str, Callable[[], Any]] = {
            "self": lambda: algorithm,
            **{name: partial(buffers.get, name) for name in buffers},
            "env": lambda: algorithm.env,
            "total_timesteps": lambda: algorithm.clock.total_timesteps,
        }
        self._step_readers: dict[str, Callable[[], Any]] = {
            "infos": lambda: infos_of_step(self.result),
            "rewards": lambda: self.result.rewards.copy(),  # the environments write into theirs again
            "dones": lambda: self.result.terminated | self.result.truncated,
            "new_obs": lambda: copy_obs(self.result.obs),
        }
        of_loop = self._of_replay if "replay_buffer" in buffers else self._of_rollout
        self._step_readers |= of_loop()

    def _of_replay(self) -> dict[str, Callable[[], Any]]:
        return {
            "actions": lambda: self.step.env_action,
            "buffer_actions": lambda: self.step.action.cpu().numpy(),
            "num_collected_steps": lambda: self.algorithm.clock.collected,
            "num_collected_episodes": lambda: self.algorithm.clock.ended,
        }

    def _of_rollout(self) -> dict[str, Callable[[], Any]]:
        return {
            "actions": lambda: self.step.action.cpu().numpy(),
            "clipped_actions": lambda: self.step.env_action,
            "values": self._values,
        }

    def _values(self) -> torch.Tensor:
        if "values" in self.step.extra:
            return self.step.extra["values"]  # type: ignore[no-any-return]
        with torch.no_grad():
            return self.algorithm.policy.predict_values(self.obs).flatten()  # type: ignore[no-any-return]

    def _present(self) -> dict[str, Callable[[], Any]]:
        return self._readers if self.result is None else {**self._readers, **self._step_readers}

    def __getitem__(self, name: str) -> Any:
        return self._present()[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._present())

    def __len__(self) -> int:
        return len(self._present())

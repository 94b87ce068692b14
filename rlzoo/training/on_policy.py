"""The on-policy loop: collect a rollout with the present policy, learn from it, forget it.

It drives every algorithm that learns from the experience it has just made. The loop steps the
environments and owns the clock; the algorithm acts, and learns from the whole rollout at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from rlzoo.buffers.rollout import RolloutBuffer, map_obs
from rlzoo.core.interaction import Inputs
from rlzoo.core.returns import following_values
from rlzoo.envs.obs_arrays import copy_obs
from rlzoo.envs.vec_env import VecEnv
from rlzoo.training.base_callback import BaseCallback


def on_policy(algorithm: Any, env: VecEnv, callback: BaseCallback, log_interval: int) -> None:
    """Train until `clock.total_timesteps`, or until a callback says stop.

    :param log_interval: iterations between two dumps of metrics
    """
    clock = algorithm.clock
    rollout = RolloutBuffer(algorithm.config.n_steps, env.num_envs, env.observation_space, env.action_space)
    algorithm.rollout_buffer = rollout
    locals_ = LoopLocals(algorithm, rollout)
    try:
        callback.on_training_start(locals_, globals())
        while clock.num_timesteps < clock.total_timesteps:
            if not collect(algorithm, env, rollout, callback, locals_):
                break
            rollout.check_finite(clock.num_timesteps // env.num_envs - rollout.n_steps)
            metrics = algorithm.update(rollout, clock)
            clock.iteration += 1
            if clock.iteration % log_interval == 0:
                log_iteration(algorithm, metrics)
    finally:  # also after Ctrl-C: a progress bar gives the terminal back
        callback.on_training_end()


def collect(
    algorithm: Any, env: VecEnv, rollout: RolloutBuffer, callback: BaseCallback, locals_: LoopLocals
) -> bool:
    """Fill one rollout; False when a callback ended the training."""
    clock = algorithm.clock
    algorithm.set_training_mode(False)
    rollout.start(algorithm._last_obs)
    episode_start = algorithm._last_episode_starts
    on_device = algorithm.device.type != "cpu"
    callback.on_rollout_start()
    callback.update_locals(locals_)
    with torch.inference_mode():
        algorithm.begin_rollout()
        for t in range(rollout.n_steps):
            obs = rollout.obs_rows[t]
            if on_device:
                obs = map_obs(lambda rows: rows.to(algorithm.device, non_blocking=True), obs)
            step = algorithm.act(Inputs(obs, episode_start, t, clock))
            result = env.step_arrays(step.env_action)
            rollout.add(t, step, result, episode_start)
            clock.num_timesteps += env.num_envs
            episode_start = result.terminated | result.truncated
            if len(result.ended):
                algorithm.end_episodes(result.ended)
                record_episodes(algorithm, result.infos)
            algorithm._last_obs, algorithm._last_episode_starts = result.obs, episode_start
            locals_.obs, locals_.step, locals_.result = obs, step, result
            if not callback.on_step():
                return False
    algorithm._last_obs = rollout.last_obs()
    callback.on_rollout_end()
    return True


def record_episodes(algorithm: Any, infos: Any) -> None:
    """Keep the statistics of episodes that have just ended for `rollout/ep_rew_mean` and its like."""
    for info in infos:
        if "episode" in info:
            algorithm.ep_info_buffer.append(info["episode"])
            if "is_success" in info:
                algorithm.ep_success_buffer.append(bool(info["is_success"]))


def rollout_values(
    policy: Any, rollout: RolloutBuffer, device: torch.device
) -> tuple[Any, torch.Tensor, torch.Tensor, np.ndarray, np.ndarray]:
    """Values and log-probabilities of a rollout under the policy that collected it, in one batched pass.

    :return: `obs`, `actions` [n_steps * n_envs, ...] and `log_probs` [n_steps * n_envs] as tensors on the
        device; `values` and `next_values` as arrays [n_steps, n_envs]
    """
    obs, actions = rollout.flat_obs(device), rollout.flat_actions(device)
    if "values" in rollout.extra:
        values, log_probs = rollout.extra["values"], rollout.extra["log_probs"].flatten()
    else:
        with torch.no_grad():
            values, log_probs, _ = policy.evaluate_actions(obs, actions)
    columns = values.reshape(rollout.n_steps, rollout.n_envs).cpu().numpy()
    return obs, actions, log_probs, columns, next_values(policy, rollout, columns, device)


def next_values(policy: Any, rollout: RolloutBuffer, values: np.ndarray, device: torch.device) -> np.ndarray:
    """The value of what each step led to, [n_steps, n_envs]: of the final observation where an episode was
    truncated."""

    def evaluate(obs: Any) -> np.ndarray:
        tensors = map_obs(lambda array: torch.from_numpy(array).to(device), obs)
        with torch.no_grad():
            result: np.ndarray = policy.predict_values(tensors).flatten().cpu().numpy()
        return result

    last_values = evaluate(rollout.last_obs())
    finals = rollout.finals()
    if finals is None:
        return following_values(values, last_values)
    final_obs, index = finals
    return following_values(values, last_values, evaluate(final_obs), index)


def log_iteration(algorithm: Any, metrics: dict[str, Any]) -> None:
    """Record and dump the metrics of an iteration under the names that users know."""
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
    logger.record("time/fps", int((clock.num_timesteps - algorithm._start_timesteps) / elapsed))
    logger.record("time/iterations", clock.iteration, exclude="tensorboard")
    logger.record("time/time_elapsed", int(elapsed), exclude="tensorboard")
    logger.record("time/total_timesteps", clock.num_timesteps, exclude="tensorboard")
    for name, value in metrics.items():
        logger.record(f"train/{name}", value)
    logger.record("train/n_updates", clock.n_updates, exclude="tensorboard")
    logger.dump(step=clock.num_timesteps)


class LoopLocals(Mapping[str, Any]):
    """What callbacks see as `locals`: looked up when read, so that it costs nothing when nobody looks."""

    def __init__(self, algorithm: Any, rollout: RolloutBuffer) -> None:
        self.algorithm, self.rollout = algorithm, rollout
        self.obs: Any = None  # what was acted on
        self.step: Any = None
        self.result: Any = None
        self._readers: dict[str, Callable[[], Any]] = {
            "self": lambda: self.algorithm,
            "rollout_buffer": lambda: self.rollout,
            "env": lambda: self.algorithm.env,
            "total_timesteps": lambda: self.algorithm.clock.total_timesteps,
        }
        self._step_readers: dict[str, Callable[[], Any]] = {
            "infos": lambda: self.result.infos,
            "rewards": lambda: self.result.rewards.copy(),  # the environments write into theirs again
            "dones": lambda: self.result.terminated | self.result.truncated,
            "new_obs": lambda: copy_obs(self.result.obs),
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

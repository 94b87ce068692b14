"""Loops of subclasses that override how experience is collected, with the methods of stable-baselines3.

They call `collect_rollouts`, which a subclass overrides as a whole or in part (`_sample_action`,
`_store_transition`, `_on_step`), and learn from what it leaves in the buffer. The loops of other agents,
which are faster, are in `rlzoo.training.on_policy_loop` and `rlzoo.training.off_policy_loop`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch

from rlzoo.buffers.base_buffer import map_obs
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.buffers.rollout_buffer import RolloutBuffer
from rlzoo.callbacks.base_callback import BaseCallback, LoopLocals
from rlzoo.callbacks.progress import last_metrics, log_progress, record_metrics
from rlzoo.core.errors import UserError
from rlzoo.core.observations import Info, Obs
from rlzoo.core.types import Metrics, TensorObs
from rlzoo.envs.action_masks import mask_reader
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.training.learner import OffPolicyLearner, OnPolicyLearner
from rlzoo.training.off_policy_loop import learn
from rlzoo.training.training_state import record_episodes


class ActorCritic(Protocol):
    """A policy with a value function."""

    def __call__(self, obs: TensorObs, **context: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return actions, values and log-probabilities."""

    def predict_values(self, obs: TensorObs) -> torch.Tensor:
        """Return the values of observations, [n_envs, 1]."""


class OnPolicyCollector(OnPolicyLearner, Protocol):
    """An on-policy algorithm with `collect_rollouts`."""

    policy: ActorCritic
    gamma: float

    def refresh_noise(self, step: int) -> None:
        """Draw new gSDE noise, if that is due."""

    def to_env_action(self, actions: torch.Tensor) -> np.ndarray:
        """Return actions as environments execute them."""

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Fill the rollout buffer; return False when a callback ends the training."""


class Collected(Protocol):
    """What `collect_rollouts` of an off-policy algorithm returns."""

    @property
    def episode_timesteps(self) -> int:
        """Steps over all environments."""

    @property
    def continue_training(self) -> bool:
        """False when a callback ended the training."""


class OffPolicyCollector(OffPolicyLearner, Protocol):
    """An off-policy algorithm with `collect_rollouts`."""

    train_freq: object
    action_noise: object

    def prepare_collection(self) -> None:
        """Note the observations that the first transition begins with."""

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, train_freq: object, replay_buffer: ReplayBuffer,
        action_noise: object, learning_starts: int, log_interval: int,
    ) -> Collected:  # fmt: skip
        """Fill the replay buffer until the next round of updates."""


def on_policy(algorithm: OnPolicyCollector, env: VecEnv, callback: BaseCallback, log_interval: int) -> None:
    """Train until `counters.total_timesteps`, or until `collect_rollouts` returns False.

    :raises UserError: `collect_rollouts` leaves a rollout that is not full
    """
    check_collection(algorithm, env)
    counters = algorithm.counters
    algorithm.collector.take_rollout()  # a part of one in a checkpoint
    rollout = algorithm.make_rollout_buffer(env).in_place_of(algorithm.last_rollout)
    algorithm.last_rollout = rollout
    locals_ = LoopLocals(algorithm, callback, log_interval, rollout_buffer=rollout)
    metrics: Metrics = {}
    try:
        callback.on_training_start(locals_, globals())
        while counters.num_timesteps < counters.total_timesteps:
            if not algorithm.collect_rollouts(env, callback, rollout, n_rollout_steps=rollout.n_steps):
                break
            if not rollout.full:
                raise UserError(
                    f"{type(algorithm).__name__}.collect_rollouts() has added {rollout.pos} of the"
                    f" {rollout.n_steps} steps of a rollout"
                )
            if algorithm.overrides_train:
                algorithm.threads.call("update", algorithm.train)
            else:
                metrics = algorithm.threads.call("update", algorithm.update, rollout, counters)
            rollout.filled = 0
            counters.iteration += 1
            if counters.iteration % log_interval == 0:
                log_progress(algorithm, metrics)
        record_metrics(algorithm, metrics)
    finally:
        callback.on_training_end()


def collect_by_add(
    algorithm: OnPolicyCollector, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer
) -> bool:
    """Fill a buffer by its own `add` and `compute_returns_and_advantage`, as stable-baselines3 does.

    Where an episode is truncated, the discounted value of its final observation is added to the reward.

    :return: False when a callback ends the training
    """
    collector, policy, device = algorithm.collector, algorithm.policy, algorithm.device
    use_masking = algorithm.wants_action_masks
    ask_masks = mask_reader(env) if use_masking else None
    algorithm.set_training_mode(False)
    rollout_buffer.prepare_to_be_filled()
    callback.on_rollout_start()
    with torch.no_grad():
        algorithm.begin_rollout()
    for step in range(rollout_buffer.n_steps):
        action_masks = None if ask_masks is None else ask_masks()
        masks = {} if action_masks is None else {"action_masks": action_masks}
        obs, starts = collector.current_obs(), collector.episode_starts
        with torch.no_grad():
            algorithm.refresh_noise(step)
            context = {name: torch.as_tensor(rows, device=device) for name, rows in masks.items()}
            obs_tensor = _on_device(obs, device)
            actions, values, log_probs = policy(obs_tensor, **context)
            clipped_actions = algorithm.to_env_action(actions)
        new_obs, rewards, dones, infos = env.step(clipped_actions)
        algorithm.counters.num_timesteps += env.num_envs
        callback.update_locals({**locals(), "self": algorithm, "n_steps": step})
        if not callback.on_step():
            return False
        record_episodes(algorithm, infos)
        rewards = rewards + algorithm.gamma * _values_of_truncated(algorithm, dones, infos)
        taken = actions.cpu().numpy()
        if taken.ndim == 1:
            taken = taken.reshape(-1, 1)
        rollout_buffer.add(obs, taken, rewards, starts, values, log_probs, **masks)
        collector.obs, collector.episode_starts = new_obs, dones
        if dones.any():
            algorithm.end_episodes(np.flatnonzero(dones))
    with torch.no_grad():
        last_values = policy.predict_values(_on_device(collector.current_obs(), device))
    rollout_buffer.compute_returns_and_advantage(last_values=last_values, dones=collector.episode_starts)
    callback.update_locals({**locals(), "self": algorithm, "n_steps": rollout_buffer.n_steps})
    callback.on_rollout_end()
    return True


def _on_device(obs: Obs, device: torch.device) -> TensorObs:
    tensors: TensorObs = map_obs(lambda rows: torch.as_tensor(rows, device=device), obs)
    return tensors


def _values_of_truncated(
    algorithm: OnPolicyCollector, dones: np.ndarray, infos: Sequence[Info]
) -> np.ndarray:
    """Return the values of final observations where episodes were truncated, elsewhere 0, [n_envs]."""
    values = np.zeros(len(dones), np.float32)
    for index in np.flatnonzero(dones).tolist():
        if infos[index].get("TimeLimit.truncated", False):
            final = map_obs(lambda row: np.asarray(row)[None], infos[index]["terminal_observation"])
            with torch.no_grad():
                values[index] = float(algorithm.policy.predict_values(_on_device(final, algorithm.device)))
    return values


def off_policy(algorithm: OffPolicyCollector, env: VecEnv, callback: BaseCallback, log_interval: int) -> None:
    """Train until `counters.total_timesteps`, or until `collect_rollouts` says not to continue."""
    check_collection(algorithm, env)
    counters, config = algorithm.counters, algorithm.config
    locals_ = LoopLocals(algorithm, callback, log_interval, replay_buffer=algorithm.replay_buffer)
    algorithm.prepare_collection()
    try:
        callback.on_training_start(locals_, globals())
        while counters.num_timesteps < counters.total_timesteps:
            collected = algorithm.collect_rollouts(
                env,
                callback,
                train_freq=algorithm.train_freq,
                replay_buffer=algorithm.replay_buffer,
                action_noise=algorithm.action_noise,
                learning_starts=config.learning_starts,
                log_interval=log_interval,
            )
            if not collected.continue_training:
                break
            counters.collected = collected.episode_timesteps // env.num_envs
            locals_.history = learn(algorithm, env.num_envs)
            counters.collected = 0
            if locals_.history:
                record_metrics(algorithm, last_metrics(algorithm, locals_.history))
    finally:
        callback.on_training_end()


def check_collection(algorithm: OnPolicyLearner | OffPolicyLearner, env: VecEnv) -> None:
    """Check that overridden methods can collect experience for this agent from these environments.

    :raises UserError: they cannot
    """
    reason = None
    if env.on_device:
        reason = "in environments on tensors"
    elif algorithm.ranks is not None:
        reason = "in several processes"
    elif getattr(algorithm, "recurrent", False):
        reason = "with a recurrent policy"
    if reason is not None:
        name, what = type(algorithm).__name__, "how experience is collected"
        if getattr(algorithm, "fills_by_add", False):
            name, what = "the rollout buffer", "how it is filled"
        raise UserError(f"{name} overrides {what}, which is not possible {reason}")

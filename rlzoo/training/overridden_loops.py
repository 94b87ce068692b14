"""Loops of subclasses that override how experience is collected, with the methods of stable-baselines3.

They call `collect_rollouts`, which a subclass overrides as a whole or in part (`_sample_action`,
`_store_transition`, `_on_step`), and learn from what it leaves in the buffer. The loops of other agents,
which are faster, are in `rlzoo.training.on_policy_loop` and `rlzoo.training.off_policy_loop`.
"""

from __future__ import annotations

from typing import Protocol

from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.buffers.rollout_buffer import RawRollout, RolloutBuffer
from rlzoo.callbacks.base_callback import BaseCallback, LoopLocals
from rlzoo.callbacks.progress import last_metrics, log_progress, record_metrics
from rlzoo.core.errors import UserError
from rlzoo.core.types import Metrics
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.experience_normalizer import ExperienceNormalizer
from rlzoo.training.learner import OffPolicyLearner, OnPolicyLearner
from rlzoo.training.off_policy_loop import learn


class OnPolicyCollector(OnPolicyLearner, Protocol):
    """An on-policy algorithm with `collect_rollouts`."""

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
    algorithm.rollout_buffer = rollout = algorithm.make_rollout_buffer(env)
    if algorithm.keeps_raw_rollouts and (normalizer := ExperienceNormalizer.of(env)) is not None:
        rollout.raw = RawRollout(rollout.n_steps, normalizer)
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
    """:raises UserError: the agent or its environments cannot be collected from by an overridden method"""
    reason = None
    if env.on_device:
        reason = "in environments on tensors"
    elif algorithm.ranks is not None:
        reason = "in several processes"
    elif getattr(algorithm, "recurrent", False):
        reason = "with a recurrent policy"
    if reason is not None:
        name = type(algorithm).__name__
        raise UserError(f"{name} overrides how experience is collected, which is not possible {reason}")

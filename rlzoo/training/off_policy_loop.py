"""The off-policy loop: collect transitions, store them, and train on sampled batches.

The loop steps the environments, fills the replay buffer and advances the counters; the algorithm
selects actions in `act` and takes one gradient step per batch in `update`.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import cast

import numpy as np
import torch

from rlzoo.accel.fast_mlp import acting_mode
from rlzoo.accel.threads import denormals_as_zero
from rlzoo.buffers.base_buffer import map_obs
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.callbacks.base_callback import BaseCallback, LoopLocals
from rlzoo.callbacks.progress import last_metrics, log_progress, record_metrics
from rlzoo.core.observations import copy_obs
from rlzoo.core.types import Metrics, PolicyInput
from rlzoo.envs.vec_env.finite import check_finite, check_finite_obs
from rlzoo.envs.vec_env.vec_env import VecEnv, VecStep, infos_of_step
from rlzoo.envs.vec_wrappers.experience_normalizer import ExperienceNormalizer
from rlzoo.training.learner import OffPolicyLearner, PrioritizedBuffer
from rlzoo.training.training_state import record_episodes


def off_policy(algorithm: OffPolicyLearner, env: VecEnv, callback: BaseCallback, log_interval: int) -> None:
    """Train until `counters.total_timesteps`, or until a callback stops training.

    :param log_interval: episodes between two dumps of metrics
    """
    counters, ranks = algorithm.counters, algorithm.ranks
    n_envs = env.num_envs * algorithm.n_ranks
    locals_ = LoopLocals(algorithm, callback, log_interval, replay_buffer=algorithm.replay_buffer)
    try:
        callback.on_training_start(locals_, globals())
        start_replay(algorithm)
        algorithm.prepare_actions()
        algorithm.collector.acting = acting_mode(algorithm, callback)
        # episodes of an unfinished round (in a resumed training) are not logged yet
        logged = (counters.episodes - counters.ended) // log_interval
        while counters.num_timesteps < counters.total_timesteps or counters.collected:
            go_on = collect(algorithm, env, callback, locals_)
            if not (go_on if ranks is None else ranks.agree_on_round(algorithm, counters, go_on)):
                break
            locals_.history = learn(algorithm, n_envs) or locals_.history
            counters.collected = counters.ended = 0
            if counters.episodes // log_interval > logged:
                logged = counters.episodes // log_interval
                if ranks is not None:
                    locals_.history = ranks.average_metrics(locals_.history)
                log_progress(algorithm, last_metrics(algorithm, locals_.history))
        else:
            if ranks is not None:  # they have all come here; after a break only rank 0 has
                locals_.history = ranks.average_metrics(locals_.history)
        record_metrics(algorithm, last_metrics(algorithm, locals_.history))
        replay = algorithm.replay_buffer
        if counters.num_timesteps > algorithm.config.learning_starts and not replay.can_sample():
            warnings.warn(
                f"nothing was learned in {counters.num_timesteps:,} steps: {type(replay).__name__} draws from"
                " finished episodes, and none is; a TimeLimit around the environment ends them",
                stacklevel=3,
            )
    finally:  # also after Ctrl-C: the progress bar restores the terminal
        algorithm.collector.detach_obs()
        callback.on_training_end()


def normalizer_of(replay: ReplayBuffer) -> ExperienceNormalizer | None:
    """Return the normaliser whose raw observations and rewards are stored; None without VecNormalize."""
    return cast("ExperienceNormalizer | None", replay.normalizer)


def start_replay(algorithm: OffPolicyLearner) -> None:
    """Begin new episodes in the replay buffer, unless it already continues those of the environments.

    Observations are stored unnormalised; the buffer normalises them when it samples.
    """
    if not algorithm.buffer_in_sync:
        replay, counters = algorithm.replay_buffer, algorithm.counters
        n_envs = replay.n_envs
        obs = algorithm.collector.current_obs()
        check_finite_obs(obs, range(n_envs), counters.num_timesteps // n_envs)
        normalizer = normalizer_of(replay)
        replay.start(obs if normalizer is None else normalizer.raw_obs(obs))
        algorithm.buffer_in_sync = True


def collect(algorithm: OffPolicyLearner, env: VecEnv, callback: BaseCallback, locals_: LoopLocals) -> bool:
    """Collect transitions until the next round of updates; return False when a callback stops training."""
    counters, config, replay = algorithm.counters, algorithm.config, algorithm.replay_buffer
    collector = algorithm.collector
    count, in_episodes = algorithm.update_period()
    on_device = algorithm.device.type != "cpu"
    own_add = replay.overrides_add or "add" in vars(replay)  # of its class, or assigned to the object
    record = partial(add_transition, replay) if own_add else replay.add_step
    algorithm.set_training_mode(False)
    callback.on_rollout_start()
    callback.update_locals(locals_)
    act, acting = algorithm.threads.stepping("act", algorithm.act), collector.acting()
    as_tensor = torch.as_tensor if env.on_device else torch.from_numpy  # the faster one
    n_envs, normalizer = env.num_envs * algorithm.n_ranks, normalizer_of(replay)
    if counters.collected == 0:  # else the resumed training had stopped between two rounds of updates
        with acting:
            algorithm.begin_rollout()
    while counters.ended < count if in_episodes else counters.collected < count:
        if in_episodes and counters.num_timesteps >= counters.total_timesteps:
            break  # an episode may never end
        obs = map_obs(as_tensor, collector.current_obs())
        if on_device:
            obs = map_obs(lambda rows: rows.to(algorithm.device, non_blocking=True), obs)
        counters.warm_up = counters.num_timesteps < config.learning_starts
        inputs = PolicyInput(obs, collector.episode_starts, counters.collected, counters)
        with acting:
            step = act(inputs)
        result = env.step_arrays(step.env_action)
        if not replay.on_device:  # else the environments check their tensors
            check_finite(result, counters.num_timesteps // n_envs + 1)
        record(step.action, result if normalizer is None else normalizer.raw_step(result))
        counters.num_timesteps += n_envs
        counters.collected += 1
        if len(result.ended):
            counters.ended += len(result.ended)
            counters.episodes += len(result.ended)
            record_episodes(algorithm, result.infos)
        ended = result.ended
        if replay.on_device and algorithm.noise_follows_episodes:  # tensors name ends some steps later
            ended = np.flatnonzero(torch.as_tensor(result.terminated | result.truncated).cpu().numpy())
        if len(ended):
            algorithm.end_episodes(ended)
        collector.advance(result)
        locals_.inputs, locals_.step, locals_.result = inputs, step, result
        if not callback.on_step():
            return False
    callback.on_rollout_end()
    return True


def add_transition(replay: ReplayBuffer, actions: torch.Tensor, result: VecStep) -> None:
    """Store a step through the `add` of a replay buffer that overrides it, as stable-baselines3 calls it.

    Where an episode ended, `next_obs` is its final observation; the buffer's current observation is then the
    first one of the next episode.
    """
    obs, next_obs = map_obs(np.array, replay.obs.current(replay.head)), copy_obs(result.obs)
    infos = infos_of_step(result)
    for index in result.ended:
        final = infos[index]["terminal_observation"]
        if isinstance(next_obs, dict):
            for key, rows in next_obs.items():
                rows[index] = final[key]
        elif isinstance(next_obs, np.ndarray):
            next_obs[index] = final
    dones = result.terminated | result.truncated
    replay.add(obs, next_obs, actions.cpu().numpy(), result.rewards.copy(), dones, infos)
    replay.obs.write(replay.head, result.obs)
    if len(result.ended):
        replay.obs.begin(replay.head, result.obs, result.ended)


def can_learn(algorithm: OffPolicyLearner, n_envs: int) -> bool:
    """Return whether the warm-up is over and the buffer can be sampled.

    :param n_envs: environments of all ranks

    A training that is resumed without its replay buffer fills a new one first.
    """
    replay, learning_starts = algorithm.replay_buffer, algorithm.config.learning_starts
    enough = min(learning_starts, replay.buffer_size * n_envs)
    filled = len(replay) * algorithm.n_ranks
    warm = algorithm.counters.num_timesteps > learning_starts and filled >= enough
    return warm and bool(replay.can_sample())


def learn(algorithm: OffPolicyLearner, n_envs: int) -> list[Metrics]:
    """Take a round of gradient steps and return the metrics of each; none during the warm-up."""
    counters, config = algorithm.counters, algorithm.config
    if algorithm.trained_externally or not can_learn(algorithm, n_envs):
        return []
    steps = config.gradient_steps if config.gradient_steps >= 0 else counters.collected * n_envs
    algorithm.replay_buffer.progress = 1 - counters.progress_remaining
    if algorithm.overrides_train:
        train_as_overridden(algorithm, steps)
        return []
    return take_gradient_steps(algorithm, steps, config.batch_size)


def train_as_overridden(algorithm: OffPolicyLearner, steps: int) -> None:
    """Let the `train` of a user's subclass take the gradient steps."""
    if not algorithm.replay_buffer.own_gamma:
        algorithm.replay_buffer.gamma = algorithm.config.gamma
    algorithm.prepare_train()
    train = partial(algorithm.train, gradient_steps=steps, batch_size=algorithm.config.batch_size)
    if steps:
        algorithm.threads.call("update", train)


def take_gradient_steps(algorithm: OffPolicyLearner, steps: int, batch_size: int) -> list[Metrics]:
    """Take gradient steps on batches of the replay buffer; return the metrics of each."""
    counters, replay = algorithm.counters, algorithm.replay_buffer
    if not replay.own_gamma:
        replay.gamma = algorithm.config.gamma
    algorithm.set_training_mode(True)
    history = []
    with denormals_as_zero():
        batches = replay.batches(steps, batch_size)
        if algorithm.ranks is not None:
            batches = algorithm.ranks.transitions(replay, steps, batch_size)
        for batch in algorithm.threads.timed(batches):
            history.append(algorithm.update(batch, counters))
            if batch.priorities is not None:
                cast(PrioritizedBuffer, replay).update_priorities(batch.indices, batch.priorities)
    if history and algorithm.device.type == "cpu":  # elsewhere, reading a loss would wait for the device
        algorithm.check_losses(history[-1])
    return history

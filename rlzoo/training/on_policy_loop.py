"""The on-policy loop: collect a rollout with the current policy, update on it, discard it.

The loop steps the environments and advances the counters; the algorithm selects actions in `act`
and trains on the whole rollout in `update`.
"""

from __future__ import annotations

from rlzoo.accel.fast_mlp import acting_mode
from rlzoo.buffers.base_buffer import map_obs
from rlzoo.buffers.rollout_buffer import RolloutBuffer
from rlzoo.callbacks.base_callback import BaseCallback, LoopLocals
from rlzoo.callbacks.progress import log_progress, record_metrics
from rlzoo.core.types import Metrics, PolicyInput
from rlzoo.envs.action_masks import mask_reader
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.training.learner import OnPolicyLearner
from rlzoo.training.training_state import record_episodes


def on_policy(algorithm: OnPolicyLearner, env: VecEnv, callback: BaseCallback, log_interval: int) -> None:
    """Train until `counters.total_timesteps`, or until a callback stops training.

    :param log_interval: iterations between two dumps of metrics
    """
    counters, ranks = algorithm.counters, algorithm.ranks
    rollout = algorithm.make_rollout_buffer(env).in_place_of(algorithm.last_rollout)
    algorithm.last_rollout = rollout
    if algorithm.collector.saved_rollout:
        resume_rollout(algorithm, rollout)
    locals_ = LoopLocals(algorithm, callback, log_interval, rollout_buffer=rollout)
    metrics: Metrics = {}
    try:
        callback.on_training_start(locals_, globals())
        algorithm.collector.acting = acting_mode(algorithm, callback)
        # `or rollout.filled`: a resumed rollout is completed and trained on, also after the last step
        while counters.num_timesteps < counters.total_timesteps or rollout.filled:
            go_on = collect(algorithm, env, rollout, callback, locals_)
            if not (go_on if ranks is None else ranks.agree(algorithm, go_on)):
                break
            steps_of_each = counters.num_timesteps // (env.num_envs * algorithm.n_ranks)
            rollout.check_finite(steps_of_each - rollout.n_steps)
            if algorithm.overrides_train:
                algorithm.threads.call("update", algorithm.train)
            else:
                metrics = algorithm.threads.call("update", algorithm.update, rollout, counters)
            if ranks is not None:
                metrics = ranks.finish_update(metrics, rollout)
            locals_.history = [metrics]
            rollout.filled = 0
            counters.iteration += 1
            if counters.iteration % log_interval == 0:
                log_progress(algorithm, metrics)
        record_metrics(algorithm, metrics)
    finally:  # also after Ctrl-C: the progress bar restores the terminal
        callback.on_training_end()


def resume_rollout(algorithm: OnPolicyLearner, rollout: RolloutBuffer) -> None:
    """Load the rollout of a checkpoint; if its episodes were not restored, they are truncated there."""
    collector = algorithm.collector
    rollout.load_state_dict(dict(collector.take_rollout()), algorithm.device)
    if not collector.episodes_restored:
        rollout.restart(collector.current_obs())


def collect(
    algorithm: OnPolicyLearner,
    env: VecEnv,
    rollout: RolloutBuffer,
    callback: BaseCallback,
    locals_: LoopLocals,
) -> bool:
    """Collect one rollout, or the rest of a resumed one; return False when a callback stops training."""
    counters, collector = algorithm.counters, algorithm.collector
    algorithm.set_training_mode(False)
    first = rollout.filled
    if not first:
        rollout.start(collector.current_obs())
    on_device = algorithm.device.type != "cpu"
    ask_masks = mask_reader(env) if algorithm.wants_action_masks else None
    callback.on_rollout_start()
    callback.update_locals(locals_)
    act, acting = algorithm.threads.stepping("act", algorithm.act), collector.acting()
    n_envs = env.num_envs * algorithm.n_ranks
    if not first or not collector.episodes_restored:
        with acting:
            algorithm.begin_rollout()
    for t in range(first, rollout.n_steps):
        obs = rollout.obs_rows[t]
        if on_device:
            obs = map_obs(lambda rows: rows.to(algorithm.device, non_blocking=True), obs)
        masks = None if ask_masks is None else ask_masks()
        inputs = PolicyInput(obs, collector.episode_starts, t, counters, masks)
        with acting:
            step = act(inputs)
        result = env.step_arrays(step.env_action)
        rollout.add_step(t, step, result, inputs.episode_start)
        counters.num_timesteps += n_envs
        collector.advance(result)
        if len(result.ended):
            algorithm.end_episodes(result.ended)
            record_episodes(algorithm, result.infos)
        locals_.inputs, locals_.step, locals_.result = inputs, step, result
        if not callback.on_step():
            return False
    if first < rollout.n_steps:  # the environments overwrite their arrays: keep the buffer's copy
        collector.obs = rollout.last_obs()
    locals_.end_rollout()
    callback.on_rollout_end()
    return True

"""Former names of modules: saved files name classes by the module that defined them."""

from __future__ import annotations

_MOVED = {
    "algorithms.a2c": "algorithms.on_policy.a2c",
    "algorithms.acer": "algorithms.off_policy.acer",
    "algorithms.acktr": "algorithms.on_policy.acktr",
    "algorithms.actor_critic": "algorithms.off_policy.actor_critic",
    "algorithms.bc": "algorithms.imitation.bc",
    "algorithms.crossq": "algorithms.off_policy.crossq",
    "algorithms.ddpg": "algorithms.off_policy.ddpg",
    "algorithms.dqn": "algorithms.off_policy.dqn",
    "algorithms.entropy_coefficient": "algorithms.off_policy.entropy_coefficient",
    "algorithms.gail": "algorithms.imitation.gail",
    "algorithms.her": "algorithms.off_policy.her",
    "algorithms.off_policy": "algorithms.off_policy.off_policy_algorithm",
    "algorithms.older_ppo": "algorithms.on_policy.older_ppo",
    "algorithms.on_policy": "algorithms.on_policy.on_policy_algorithm",
    "algorithms.ppo": "algorithms.on_policy.ppo",
    "algorithms.ppo_lstm": "algorithms.on_policy.ppo_lstm",
    "algorithms.ppo_mask": "algorithms.on_policy.ppo_mask",
    "algorithms.qrdqn": "algorithms.off_policy.qrdqn",
    "algorithms.sac": "algorithms.off_policy.sac",
    "algorithms.td3": "algorithms.off_policy.td3",
    "algorithms.tqc": "algorithms.off_policy.tqc",
    "algorithms.trpo": "algorithms.on_policy.trpo",
    "buffers.aside": "buffers.replay.final_obs_store",
    "buffers.goal_rewards": "buffers.replay.goal_rewards",
    "buffers.her": "buffers.replay.her_replay_buffer",
    "buffers.prioritized": "buffers.replay.prioritized",
    "buffers.replay": "buffers.replay.replay_buffer",
    "buffers.replay_arrays": "buffers.replay.replay_arrays",
    "buffers.replay_batch": "buffers.replay.replay_batch",
    "buffers.replay_file": "buffers.replay.replay_file",
    "buffers.replay_observations": "buffers.replay.replay_observations",
    "buffers.rollout": "buffers.rollout_buffer",
    "buffers.stacks": "buffers.frame_stacked_array",
    "buffers.sum_tree": "buffers.replay.sum_tree",
    "cli.parser": "cli.flags.parser",
    "core.logger": "metrics.logger",
    "core.noise": "core.action_noise",
    "core.quantiles": "algorithms.off_policy.quantile_regression",
    "core.system_info": "processes.system_info",
    "core.train_frequency": "algorithms.train_frequency",
    "distributions.base": "distributions.distribution",
    "envs.atari": "envs.atari.atari_wrappers",
    "envs.check": "envs.single_env.check_env",
    "envs.dummy": "envs.vec_env.dummy",
    "envs.goal_env": "envs.single_env.goal_env",
    "envs.gym_vector": "envs.vec_env.gym_vector",
    "envs.make": "envs.make_vec_env",
    "envs.monitor": "envs.single_env.monitor",
    "envs.obs_arrays": "core.observations",
    "envs.stacked_observations": "envs.vec_wrappers.stacked_observations",
    "envs.subproc": "envs.vec_env.subproc",
    "envs.tile_images": "envs.vec_env.tile_images",
    "envs.toy": "envs.examples.toy",
    "envs.toy_invalid_actions": "envs.examples.toy_invalid_actions",
    "envs.vec_check_nan": "envs.vec_wrappers.vec_check_nan",
    "envs.vec_env": "envs.vec_env.vec_env",
    "envs.vec_extract_dict_obs": "envs.vec_wrappers.vec_extract_dict_obs",
    "envs.vec_frame_stack": "envs.vec_wrappers.vec_frame_stack",
    "envs.vec_monitor": "envs.vec_wrappers.vec_monitor",
    "envs.vec_normalize": "envs.vec_wrappers.vec_normalize",
    "envs.vec_transpose": "envs.vec_wrappers.vec_transpose",
    "envs.vec_video_recorder": "envs.vec_wrappers.vec_video_recorder",
    "envs.velocity_mask": "envs.examples.velocity_mask",
    "envs.wrappers": "envs.single_env.wrappers",
    "experiment.algos": "runs.algos",
    "experiment.record_video": "playback.video_recording",
    "experiment.saved_agents": "runs.saved_agents",
    "experiment.show": "playback.inline_video",
    "export.export": "export.exporter",
    "hub.pull": "hub.download",
    "hub.push": "hub.upload",
    "networks.actors": "policies.actors",
    "networks.base_policy": "policies.base_policy",
    "networks.continuous": "policies.continuous_policies",
    "networks.keywords": "policies.policy_kwargs",
    "networks.linear": "policies.linear_policy",
    "networks.masked": "policies.masked_policies",
    "networks.policies": "policies.actor_critic_policies",
    "networks.policy_file": "policies.policy_file",
    "networks.q_networks": "policies.value_based",
    "networks.q_valued": "policies.q_valued",
    "networks.recurrent": "policies.recurrent_policies",
    "networks.registry": "policies.policy_registry",
    "networks.savable": "policies.savable",
    "training.base_callback": "callbacks.base_callback",
    "training.callbacks": "callbacks.callbacks",
    "training.evaluate": "evaluation.evaluate",
    "training.trial_eval_callback": "callbacks.trial_eval_callback",
    "tuning.own_samplers": "tuning.space.own_samplers",
}
"""Former module -> current module, both below `rlzoo.`."""


def current_name(name: str) -> str:
    """Return the current dotted name of a class; a name that was never moved is returned as it is.

    >>> current_name("rlzoo.envs.wrappers.HistoryWrapper")
    'rlzoo.envs.single_env.wrappers.HistoryWrapper'
    >>> current_name("torch.nn.ReLU")
    'torch.nn.ReLU'
    """
    root, _, rest = name.partition(".")
    if root != "rlzoo":
        return name
    module, _, attribute = rest.rpartition(".")
    return f"rlzoo.{_MOVED.get(module, module)}.{attribute}" if module else name

"""Raise an error where a subclass overrides a method of stable-baselines3 that rlzoo never calls.

rlzoo's loops call other methods than stable-baselines3's. A subclass written for that library would train
as if it overrode nothing; so its construction fails, naming the method to override instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlzoo.core.errors import UserError

OF_ALGORITHMS: Mapping[str, str] = {
    "train": "update(batch, counters), which learns from one batch and returns metrics",
    "collect_rollouts": "act(inputs), which chooses the actions of a step; begin_rollout() and"
    " end_episodes(indices), or a callback; or set the class attribute `loop` to a function of one's own",
    "_on_step": "a callback's _on_step(), or update(batch, counters)",
    "_sample_action": "act(inputs), or explore(obs) of off-policy algorithms",
    "_store_transition": "add_step() of a class for replay_buffer_class",
    "_setup_learn": "learn(), which calls super().learn()",
    "_get_torch_save_params": "state(), which names the modules, optimisers and tensors of a file",
    "_create_aliases": "setup_optimizers(), which is called when the policy is there",
    "_update_learning_rate": "set_learning_rate(optimizer, counters)",
    "_update_info_buffer": "a callback, which sees the infos of each step",
    "_dump_logs": "rollout_metrics(), which adds to what is logged",
    "dump_logs": "rollout_metrics(), which adds to what is logged",
    "_wrap_env": "a wrapper around the environment that is handed over",
}
OF_POLICIES: Mapping[str, str] = {
    "make_critic": "make_critics(features_extractor, train_extractor), which makes all critics at once",
}
OF_ROLLOUT_BUFFERS: Mapping[str, str] = {
    "add": "a callback, which sees each step, or update(rollout, counters) of the algorithm",
    "get": "minibatches(batch, batch_size, rollout) of the algorithm",
    "compute_returns_and_advantage": "update(rollout, counters) of the algorithm, which computes advantages",
    "_get_samples": "read_rollout(rollout) of the algorithm",
}


def refuse_overrides(cls: type, replaced: Mapping[str, str]) -> None:
    """Check that a user's subclass overrides no method that is never called.

    :param replaced: names of such methods, with what to override instead
    :raises UserError: naming the class, the method and what replaces it
    """
    for base in cls.__mro__:
        if base.__module__.startswith("rlzoo."):
            continue
        for name in replaced.keys() & vars(base).keys():
            raise UserError(
                f"{base.__name__} overrides {name}(), which rlzoo never calls; override {replaced[name]}"
            )

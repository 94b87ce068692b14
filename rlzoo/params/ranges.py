"""Ranges of a search that several algorithms share (see `rlzoo.params.search_parameters`).

A table says what each hyperparameter may be; the shipped tuned values lie within it, and so do the defaults.
What only a configuration decides is in no table: how long an agent trains and where, the number of
environments, how they are wrapped and normalised.
"""

from __future__ import annotations

from rlzoo.params.search_parameters import (
    Choice,
    Conditional,
    Float,
    FractionOf,
    Int,
    OneMinusLogUniform,
    OneOrSampled,
    SearchSpace,
)


def without(table: SearchSpace, *keys: str) -> SearchSpace:
    """Return a table without some hyperparameters."""
    return {key: row for key, row in table.items() if key not in keys}


# ---------------------------------------------------------------------- single hyperparameters

GAMMA = OneMinusLogUniform(5e-5, 0.2)
GAE_LAMBDA = Float(0.75, 1.0)
ENT_COEF = OneOrSampled(0.0, Float(1e-8, 0.3, log=True))
NET_ARCH = Choice([16], [64], [64, 64], [256], [256, 256], [400, 300])
ACTIVATION_FN = Choice("nn.Tanh", "nn.ReLU", "nn.GELU", "nn.ELU", "nn.SiLU")
# ---------------------------------------------------------------------- parts of tables

ACTOR_CRITIC_NETWORKS: SearchSpace = {
    "policy_kwargs.net_arch": NET_ARCH,
    "policy_kwargs.activation_fn": ACTIVATION_FN,
    "policy_kwargs.ortho_init": Choice(True, False),
    "policy_kwargs.log_std_init": Float(-4.0, 1.0),
}
OFF_POLICY_NETWORKS: SearchSpace = {
    "policy_kwargs.net_arch": Choice(
        [64, 64], [256, 256], [400, 300], [256, 256, 256], [512, 512], [512, 512, 512]
    ),
    "policy_kwargs.activation_fn": ACTIVATION_FN,
}
STATE_DEPENDENT_NOISE: SearchSpace = {
    "use_sde": Choice(False, True),
    "sde_sample_freq": Conditional("use_sde", (True,), OneOrSampled(-1, Int(1, 256, log=True))),
}
REPLAY: SearchSpace = {
    "buffer_size": Int(5_000, 2_000_000, log=True),
    "learning_starts": OneOrSampled(0, Int(100, 100_000, log=True)),
    "gamma": GAMMA,
}
UPDATES: SearchSpace = {
    "train_freq": OneOrSampled((1, "episode"), Int(1, 1024, log=True)),
    "gradient_steps": FractionOf(
        ("train_freq", "n_envs"), 1 / 16, 1.0, otherwise=OneOrSampled(-1, Int(1, 1024, log=True))
    ),
}
PRIORITIES = ("prioritized_replay_alpha", "prioritized_replay_beta0")
ACTION_NOISE: SearchSpace = {
    "noise_type": Choice("none", "normal", "ornstein-uhlenbeck"),
    "noise_std": Conditional(
        "noise_type", ("normal", "ornstein-uhlenbeck", "adaptive-param"), Float(0.01, 1.0)
    ),
}
HINDSIGHT: SearchSpace = {
    "n_sampled_goal": Int(1, 8),
    "goal_selection_strategy": Choice("future", "final", "episode"),
}
"""Of a HerReplayBuffer, beside the table of the algorithm that learns."""

LARGE_BATCHES: SearchSpace = {"batch_size": Int(16, 2048, log=True)}
"""With hindsight replay: relabelled goals make larger batches useful."""

"""What `rlzoo optimize` searches, algorithm by algorithm.

A table says what each hyperparameter may be; the tuned values that come with rlzoo lie in it, and so do the
defaults. What a configuration alone decides stands in no table: how long and where an agent trains, how many
environments it has, how these are wrapped and normalised. Rows that do not suit a configuration or the
actions of its environment are left out by `search_space`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from gymnasium import spaces as gym_spaces

from rlzoo.config import catalog
from rlzoo.config.her_entries import HER, expand_her
from rlzoo.config.legacy.sb2_translation import translate_sb2_entry
from rlzoo.config.literals import interpret, merge, plain
from rlzoo.config.raw import RawConfig
from rlzoo.core.errors import UserError
from rlzoo.params.search_parameters import (
    Choice,
    Float,
    If,
    Int,
    Near1,
    Or,
    Parameter,
    Power,
    Ratio,
    Scheduled,
)
from rlzoo.tuning.space.constraints import fitted
from rlzoo.tuning.space.search_space import Space, flat
from rlzoo.tuning.space.space_file import space_from_file

__all__ = ["TABLES", "Space", "complete", "learner_of", "overrides", "search_space", "space_from_file"]

Table = dict[str, Parameter]


def _without(table: Table, *keys: str) -> Table:
    return {key: row for key, row in table.items() if key not in keys}


# ---------------------------------------------------------------------- rows that several tables have

GAMMA = Near1(5e-5, 0.2)
GAE_LAMBDA = Float(0.75, 1.0)
ENT_COEF = Or(0.0, Float(1e-8, 0.3, log=True))
NET_ARCH = Choice([16], [64], [64, 64], [256], [256, 256], [400, 300])
ACTIVATION_FN = Choice("nn.Tanh", "nn.ReLU", "nn.GELU", "nn.ELU", "nn.SiLU")

ACTOR_CRITIC_NETWORKS: Table = {
    "policy_kwargs.net_arch": NET_ARCH,
    "policy_kwargs.activation_fn": ACTIVATION_FN,
    "policy_kwargs.ortho_init": Choice(True, False),
    "policy_kwargs.log_std_init": Float(-4.0, 1.0),
}
OFF_POLICY_NETWORKS: Table = {
    "policy_kwargs.net_arch": Choice(
        [64, 64], [256, 256], [400, 300], [256, 256, 256], [512, 512], [512, 512, 512]
    ),
    "policy_kwargs.activation_fn": ACTIVATION_FN,
}
STATE_DEPENDENT_NOISE: Table = {
    "use_sde": Choice(False, True),
    "sde_sample_freq": If("use_sde", (True,), Or(-1, Int(1, 256, log=True))),
}
REPLAY: Table = {
    "buffer_size": Int(5_000, 2_000_000, log=True),
    "learning_starts": Or(0, Int(100, 100_000, log=True)),
    "gamma": GAMMA,
}
ROUNDS: Table = {
    "train_freq": Or((1, "episode"), Int(1, 1024, log=True)),
    "gradient_steps": Ratio(("train_freq", "n_envs"), 1 / 16, 1.0, otherwise=Or(-1, Int(1, 1024, log=True))),
}
PRIORITIES = ("prioritized_replay_alpha", "prioritized_replay_beta0")
ACTION_NOISE: Table = {
    "noise_type": Choice("none", "normal", "ornstein-uhlenbeck"),
    "noise_std": If("noise_type", ("normal", "ornstein-uhlenbeck", "adaptive-param"), Float(0.01, 1.0)),
}

# ---------------------------------------------------------------------- algorithms that learn from rollouts

PPO: Table = {
    "learning_rate": Scheduled(Float(5e-6, 1e-2, log=True)),
    "n_steps": Power(8, 4096),
    "batch_size": Power(8, 1024),
    "n_epochs": Int(1, 20, log=True),
    "gamma": GAMMA,
    "gae_lambda": GAE_LAMBDA,
    "clip_range": Scheduled(Float(0.05, 0.5)),
    "clip_range_vf": Or(None, Scheduled(Float(0.05, 1.0, log=True))),
    "ent_coef": ENT_COEF,
    "vf_coef": Float(0.1, 1.0),
    "max_grad_norm": Float(0.3, 5.0, log=True),
    **STATE_DEPENDENT_NOISE,
    **ACTOR_CRITIC_NETWORKS,
}
PPO_LSTM: Table = {
    **PPO,
    "policy_kwargs.net_arch": Choice([], [16], [64], [64, 64], [256], [256, 256]),
    "policy_kwargs.lstm_hidden_size": Power(16, 512),
    "policy_kwargs.enable_critic_lstm": Choice(True, False),
}
PPO_MASK: Table = {
    **_without(PPO, *STATE_DEPENDENT_NOISE),
    "n_steps": Int(16, 4096, log=True),
    "batch_size": Int(8, 1024, log=True),
    "gamma": Near1(5e-5, 1.0),
}
A2C: Table = {
    "learning_rate": Scheduled(Float(1e-5, 1e-2, log=True)),
    "n_steps": Int(2, 256, log=True),
    "gamma": GAMMA,
    "gae_lambda": GAE_LAMBDA,
    "normalize_advantage": Choice(False, True),
    "ent_coef": ENT_COEF,
    "vf_coef": Float(0.1, 1.0),
    "max_grad_norm": Float(0.3, 5.0, log=True),
    "use_rms_prop": Choice(True, False),
    **STATE_DEPENDENT_NOISE,
    **ACTOR_CRITIC_NETWORKS,
}
TRPO: Table = {
    "learning_rate": Scheduled(Float(1e-5, 1e-1, log=True)),
    "n_steps": Power(8, 4096),
    "batch_size": Power(32, 1024),
    "n_critic_updates": Int(1, 40, log=True),
    "gamma": GAMMA,
    "gae_lambda": GAE_LAMBDA,
    "target_kl": Float(1e-6, 1e-1, log=True),
    "cg_max_steps": Int(5, 30),
    "cg_damping": Float(1e-5, 0.5, log=True),
    "line_search_shrinking_factor": Float(0.5, 0.9),
    "ent_coef": ENT_COEF,
    **STATE_DEPENDENT_NOISE,
    **ACTOR_CRITIC_NETWORKS,
}
ACKTR: Table = {
    "learning_rate": Float(1e-3, 1.0, log=True),
    "lr_schedule": Choice("constant", "linear"),
    "n_steps": Int(4, 2048, log=True),
    "gamma": GAMMA,
    "gae_lambda": Or(None, GAE_LAMBDA),
    "ent_coef": ENT_COEF,
    "vf_coef": Float(0.1, 1.0),
    "max_grad_norm": Float(0.3, 10.0, log=True),
    "kfac_clip": Float(1e-4, 1e-2, log=True),
    "damping": Float(1e-3, 1e-1, log=True),
    **ACTOR_CRITIC_NETWORKS,
}
ACER: Table = {
    "learning_rate": Float(1e-5, 1e-2, log=True),
    "lr_schedule": Choice("constant", "linear"),
    "n_steps": Int(4, 128, log=True),
    "gamma": GAMMA,
    "q_coef": Float(0.1, 1.0),
    "ent_coef": ENT_COEF,
    "max_grad_norm": Float(0.3, 20.0, log=True),
    "replay_ratio": Float(0.0, 8.0),
    "replay_start": Int(100, 5_000, log=True),
    "buffer_size": Int(1_000, 50_000, log=True),
    "correction_term": Float(1.0, 20.0, log=True),
    "alpha": Near1(1e-3, 0.1),
    "delta": Float(0.1, 10.0, log=True),
    "policy_kwargs.net_arch": NET_ARCH,
    "policy_kwargs.activation_fn": ACTIVATION_FN,
}

# ---------------------------------------------------------------------- algorithms that replay experience

DQN: Table = {
    "learning_rate": Scheduled(Float(1e-5, 1e-2, log=True)),
    "batch_size": Int(16, 256, log=True),
    **REPLAY,
    "train_freq": Int(1, 512, log=True),
    "gradient_steps": Ratio(("train_freq", "n_envs"), 1 / 16, 1.0),
    "n_steps": Int(1, 5),
    "target_update_interval": Int(1, 20_000, log=True),
    "exploration_fraction": Float(2e-3, 0.5, log=True),
    "exploration_final_eps": Float(5e-3, 0.3, log=True),
    "max_grad_norm": Or(None, Float(0.5, 20.0, log=True)),
    "double_q": Choice(False, True),
    "prioritized_replay": Choice(False, True),
    "prioritized_replay_alpha": If("prioritized_replay", (True,), Float(0.2, 1.0)),
    "prioritized_replay_beta0": If("prioritized_replay", (True,), Float(0.2, 1.0)),
    "policy_kwargs.net_arch": NET_ARCH,
    "policy_kwargs.activation_fn": ACTIVATION_FN,
    "policy_kwargs.dueling": Choice(False, True),
    "policy_kwargs.layer_norm": Choice(False, True),
}
QRDQN: Table = {
    **_without(DQN, *PRIORITIES, "prioritized_replay", "double_q"),
    "policy_kwargs.n_quantiles": Int(5, 250, log=True),
}
DDPG: Table = {
    "learning_rate": Scheduled(Float(1e-5, 1e-2, log=True)),
    "actor_lr": Scheduled(Float(1e-5, 1e-2, log=True)),
    "critic_lr": Scheduled(Float(1e-5, 1e-2, log=True)),
    "batch_size": Int(16, 512, log=True),
    **REPLAY,
    "tau": Float(5e-4, 0.1, log=True),
    **ROUNDS,
    "gradient_steps": Ratio(("train_freq", "n_envs"), 1 / 16, 2.0, otherwise=Or(-1, Int(1, 1024, log=True))),
    **ACTION_NOISE,
    "noise_type": Choice("none", "normal", "ornstein-uhlenbeck", "adaptive-param"),
    **OFF_POLICY_NETWORKS,
}
TD3: Table = {
    "learning_rate": Scheduled(Float(1e-5, 1e-2, log=True)),
    "batch_size": Int(16, 512, log=True),
    **REPLAY,
    "tau": Float(5e-4, 0.1, log=True),
    **ROUNDS,
    "policy_delay": Int(1, 4),
    "target_policy_noise": Float(0.0, 0.5),
    "target_noise_clip": Float(0.1, 1.0),
    **ACTION_NOISE,
    **OFF_POLICY_NETWORKS,
}
SAC: Table = {
    "learning_rate": Scheduled(Float(1e-5, 1e-2, log=True)),
    "batch_size": Int(16, 512, log=True),
    **REPLAY,
    "tau": Float(5e-4, 0.1, log=True),
    **ROUNDS,
    "ent_coef": Or("auto", Float(1e-4, 1.0, log=True)),
    **STATE_DEPENDENT_NOISE,
    "policy_kwargs.log_std_init": If("use_sde", (True,), Float(-4.0, 1.0)),
    **OFF_POLICY_NETWORKS,
}
TQC: Table = {
    **SAC,
    "top_quantiles_to_drop_per_net": Int(0, 8),
    "policy_kwargs.n_critics": Int(1, 5),
}
CROSSQ: Table = {
    **_without(SAC, "tau"),
    "policy_delay": Int(1, 4),
    "policy_kwargs.net_arch": Choice(
        [64, 64],
        [256, 256],
        {"pi": [256, 256], "qf": [512, 512]},
        {"pi": [256, 256], "qf": [1024, 1024]},
        {"pi": [256, 256], "qf": [2048, 2048]},
    ),
}
HINDSIGHT: Table = {
    "n_sampled_goal": Int(1, 8),
    "goal_selection_strategy": Choice("future", "final", "episode"),
}
LARGE_BATCHES: Table = {"batch_size": Int(16, 2048, log=True)}  # relabelled goals make steps worth more

# ---------------------------------------------------------------------- random search, and imitation

ARS: Table = {
    "learning_rate": Scheduled(Float(2e-3, 0.5, log=True)),
    "delta_std": Float(2e-3, 0.5, log=True),
    "n_delta": Int(1, 256, log=True),
    "n_top": Ratio(("n_delta",), 0.05, 1.0),
    "alive_bonus_offset": Or(0.0, Float(-5.0, -0.05)),
    "policy_kwargs.net_arch": Choice([16], [32], [64], [64, 64], [128, 64]),
    "policy_kwargs.activation_fn": ACTIVATION_FN,
}
BC: Table = {
    "learning_rate": Scheduled(Float(1e-5, 1e-2, log=True)),
    "batch_size": Int(16, 512, log=True),
    "ent_coef": ENT_COEF,
    "max_grad_norm": Or(None, Float(0.1, 10.0, log=True)),
    "policy_kwargs.net_arch": NET_ARCH,
    "policy_kwargs.activation_fn": ACTIVATION_FN,
    "policy_kwargs.ortho_init": Choice(True, False),
}
GAIL: Table = {
    "learning_rate": Scheduled(Float(1e-5, 1e-2, log=True)),
    "n_steps": Power(64, 4096),
    "batch_size": Power(32, 1024),
    "gamma": GAMMA,
    "gae_lambda": GAE_LAMBDA,
    "ent_coef": ENT_COEF,
    "g_step": Int(1, 5),
    "d_step": Int(1, 5),
    "d_stepsize": Float(1e-5, 1e-2, log=True),
    "hidden_size_adversary": Int(16, 512, log=True),
    "adversary_entcoeff": Float(1e-5, 1e-1, log=True),
    **{key: If("learner", ("trpo",), TRPO[key]) for key in ("target_kl", "cg_damping", "n_critic_updates")},
    **{
        key: If("learner", ("ppo",), PPO[key])
        for key in ("n_epochs", "clip_range", "vf_coef", "max_grad_norm")
    },
    **STATE_DEPENDENT_NOISE,
    **ACTOR_CRITIC_NETWORKS,
}

TABLES: dict[str, Table] = {
    "a2c": A2C,
    "acer": ACER,
    "acktr": ACKTR,
    "ars": ARS,
    "bc": BC,
    "crossq": CROSSQ,
    "ddpg": DDPG,
    "dqn": DQN,
    "gail": GAIL,
    "ppo": PPO,
    "ppo_lstm": PPO_LSTM,
    "ppo_mask": PPO_MASK,
    "qrdqn": QRDQN,
    "sac": SAC,
    "td3": TD3,
    "tqc": TQC,
    "trpo": TRPO,
}


# ---------------------------------------------------------------------- the space of one configuration


def search_space(algo: str, values: Mapping[str, Any], action_space: gym_spaces.Space[Any]) -> Space:
    """The rows of an algorithm's table that suit a configuration.

    :param values: resolved hyperparameters: the policy, the number of environments, the noise, ...
    :param action_space: of the environment
    :raises UserError: no space is shipped for the algorithm, which is the user's own
    """
    learner, entry = learner_of(algo, values)
    if learner not in TABLES:
        raise UserError(f"no search space is shipped for {algo}; give one with --space FILE")
    known = complete(algo, values)
    table = TABLES[learner]
    if catalog.canonical(algo) == HER:
        table = {**table, **LARGE_BATCHES, **HINDSIGHT}
    elif "Her" in str(entry.get("replay_buffer_class")):
        below = {f"replay_buffer_kwargs.{key}": row for key, row in HINDSIGHT.items()}
        table = {**table, **LARGE_BATCHES, **below}
    unsuited = _unsuited(entry, known, action_space)
    rows = {key: row for key, row in table.items() if not unsuited & {key, key.partition(".")[0]}}
    if known.get("n_envs", 1) > 1 and isinstance(whole_episodes := rows.get("train_freq"), Or):
        rows["train_freq"] = whole_episodes.other  # one environment has episodes that all may wait for
    needed = {key for row in rows.values() for key in row.needs()}
    return Space(rows, {key: plain(known[key]) for key in sorted(needed & known.keys())})


def _unsuited(
    entry: Mapping[str, Any], known: Mapping[str, Any], action_space: gym_spaces.Space[Any]
) -> set[str]:
    """Keys without effect, or in conflict with what the configuration says; `policy_kwargs` means all."""
    policy, given = entry.get("policy"), flat(entry)
    unsuited = {key for key, value in given.items() if isinstance(value, float) and math.isinf(value)}
    if not isinstance(action_space, gym_spaces.Box):
        unsuited |= {*STATE_DEPENDENT_NOISE, *ACTION_NOISE, "policy_kwargs.log_std_init"}
    if not isinstance(policy, str) or "." in policy:
        unsuited |= {"policy_kwargs"}  # a policy of the user's own has keywords of its own
    elif policy.startswith(("Cnn", "Linear")):
        layers = {"policy_kwargs.net_arch", "policy_kwargs.activation_fn"}
        unsuited |= layers - given.keys()  # none, unless the configuration puts some behind the images
        unsuited |= {"buffer_size"}  # how many images fit is a question of memory
    elif policy.startswith("Ln"):
        unsuited |= {"policy_kwargs.layer_norm"}
    rates = {"actor_lr", "critic_lr"}
    unsuited |= {"learning_rate"} if rates & given.keys() else rates
    if {"action_noise", "param_noise"} & given.keys():
        unsuited |= {"noise_type", "noise_std"}
    if "noise_std_final" in given:
        unsuited |= {"noise_type"}
    if "replay_buffer_class" in given:
        unsuited |= {"prioritized_replay", *PRIORITIES}
        unsuited |= {"n_steps"} if "train_freq" in known else set()
    if any(key.startswith("prioritized_replay_") for key in given):
        unsuited |= {"prioritized_replay"}
    if "policy_kwargs.optimizer_class" in given:
        unsuited |= {"use_rms_prop"}
    return unsuited


def overrides(algo: str, values: Mapping[str, Any], sampled: Mapping[str, Any]) -> dict[str, Any]:
    """What a trial changes in a configuration, nested, to be merged into it.

    Sampled values are made to fit each other and the configuration; see `fitting`.

    :param values: resolved hyperparameters
    :param sampled: what `Space.sample` returned
    """
    nested: dict[str, Any] = {}
    for key, value in fitted({**complete(algo, values), **sampled}, set(sampled)).items():
        for part in reversed(key.split(".")):
            value = {part: value}
        nested = merge(nested, value)
    return interpret(nested)


def complete(algo: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration by key path, under today's names, with the defaults of what it leaves unsaid."""
    learner, entry = learner_of(algo, values)
    config = getattr(catalog.load(learner), "Config", None)
    defaults = {
        field.name: field.default
        for field in (fields(config) if config else ())
        if field.default is not MISSING
    }
    return {"n_envs": 1, "noise_type": "none", **defaults, **flat(entry)}


def learner_of(algo: str, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The algorithm that learns, and a configuration under the names that it has for things."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever checks the configuration says what is old about it
        raw = expand_her(translate_sb2_entry(RawConfig(algo, dict(values))))
    return catalog.canonical(raw.algo), interpret(raw.values)

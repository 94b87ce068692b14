"""Options of Stable Baselines: what each is called now, and how its value is converted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rlzoo.config.legacy.her_keys import HER_KEYS
from rlzoo.core.errors import UserError
from rlzoo.core.schedules import lr_schedule, schedule_text

Values = Mapping[str, object]
"""Options by name."""


@dataclass(frozen=True)
class Conversion:
    """An old option whose value must be converted.

    :param sets: what it sets, to find options that are given twice; dots lead into dictionaries
    :param convert: from its value, and the values of all options under current names with `n_envs`, to those
        of current options
    :param adjusts: options that it changes and that may be given beside it
    """

    sets: str
    convert: Callable[[object, Values], dict[str, object]]
    adjusts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Removed:
    """An old option without a successor.

    :param why: what to do instead
    :param harmless: leaving it out changes nothing; otherwise only None and False are accepted
    """

    why: str
    harmless: bool = False


Rule = str | Conversion | Removed
"""What becomes of an old option; a string is its current name."""


@dataclass(frozen=True)
class SB2Class:
    """A class of Stable Baselines that another one replaces.

    :param new: the catalogue's name of the replacement
    :param defaults: its arguments in their order, under their old names
    :param implicit: values that were hard-coded in it
    """

    new: str
    defaults: dict[str, object]
    implicit: dict[str, object] = field(default_factory=dict)


# ---------------------------------------------------------------------- conversions


def is_number(value: object) -> bool:
    """Return whether a value is an int or a float."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(name: str, value: object) -> int:
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 1 or value % 1:
        raise UserError(f"{name} must be an integer of at least 1, not {value!r}")
    return int(value)


def _batch_size(value: object, known: Values) -> dict[str, object]:
    count = _count("nminibatches", value)
    n_steps, n_envs = _count("n_steps", known["n_steps"]), _count("n_envs", known["n_envs"])
    rows = n_steps * n_envs
    if rows % count:
        raise UserError(
            f"nminibatches {count} does not divide n_steps * n_envs = {n_steps} * {n_envs} = {rows}"
        )
    return {"batch_size": rows // count}


def _clip_range_vf(value: object, known: Values) -> dict[str, object]:
    if value is None:
        return {"clip_range_vf": known["clip_range"]}
    is_off = isinstance(value, int | float) and not isinstance(value, bool) and value < 0
    return {"clip_range_vf": None if is_off else value}


def _schedule(option: str, *names: str) -> Conversion:
    """Return the rule of an option that names a schedule for the values of `names`."""

    def convert(value: object, known: Values) -> dict[str, object]:
        if value is None:
            return {}
        texts: dict[str, object] = {}
        for name in names:
            initial = known[name]
            if not isinstance(initial, int | float) or isinstance(initial, bool):
                raise UserError(f"{option} {value!r} needs a {name} that is a number, not {initial!r}")
            texts[name] = schedule_text(lr_schedule(str(value), initial))
        return texts

    return Conversion(option, convert, adjusts=names)


def _net_arch(value: object, known: Values) -> dict[str, object]:
    widths = list(value) if isinstance(value, list | tuple) else [value, value]
    return {"policy_kwargs.net_arch": widths}


def _target_kl(value: object, known: Values) -> dict[str, object]:
    return {"target_kl": value, "sum_kl": True}


# ---------------------------------------------------------------------- tables

_THREADS = Removed("PyTorch's threads are set by --num-threads or torch.set_num_threads", harmless=True)
_COMMON: dict[str, Rule] = {
    "n_cpu_tf_sess": _THREADS,
    "full_tensorboard_log": Removed("a callback can record histograms with logger.record", harmless=True),
}
_EVALUATION = "an EvalCallback evaluates while training"
_PPO: dict[str, Rule] = {
    "noptepochs": "n_epochs",
    "cliprange": "clip_range",
    "lam": "gae_lambda",
    "nminibatches": Conversion("batch_size", _batch_size),
    "timesteps_per_actorbatch": "n_steps",
    "clip_param": "clip_range",
    "entcoeff": "ent_coef",
    "optim_epochs": "n_epochs",
    "optim_stepsize": "learning_rate",
    "optim_batchsize": "batch_size",
    "adam_epsilon": "policy_kwargs.optimizer_kwargs.eps",
    "schedule": _schedule("schedule", "learning_rate", "clip_range"),
    "cliprange_vf": Conversion("clip_range_vf", _clip_range_vf),
}
_TRPO: dict[str, Rule] = {
    "timesteps_per_batch": "n_steps",
    "max_kl": Conversion("target_kl", _target_kl),
    "cg_iters": "cg_max_steps",
    "lam": "gae_lambda",
    "entcoeff": "ent_coef",
    "vf_stepsize": "learning_rate",
    "vf_iters": "n_critic_updates",
}
OPTIONS: dict[str, dict[str, Rule]] = {
    "A2C": {
        "alpha": "policy_kwargs.optimizer_kwargs.alpha",
        "epsilon": "rms_prop_eps",
        "lr_schedule": _schedule("lr_schedule", "learning_rate"),
        **_COMMON,
    },
    "ACER": {"num_procs": _THREADS, **_COMMON},
    "ACKTR": {"nprocs": _THREADS, **_COMMON},
    "DDPG": {
        "nb_train_steps": "gradient_steps",
        "nb_rollout_steps": "train_freq",
        "memory_limit": "buffer_size",
        "memory_policy": Removed("replay_buffer_class takes a class derived from ReplayBuffer"),
        "eval_env": Removed(_EVALUATION),
        "nb_eval_steps": Removed(_EVALUATION, harmless=True),
        "render": Removed("`rlzoo enjoy` shows an agent"),
        "render_eval": Removed("`rlzoo enjoy` shows an agent"),
        **_COMMON,
    },
    "DQN": {"target_network_update_freq": "target_update_interval", **_COMMON},
    "GAIL": {**_TRPO, "hidden_size": Conversion("policy_kwargs.net_arch", _net_arch), **_COMMON},
    "PPO": {**_PPO, **_COMMON},
    "SAC": _COMMON,
    "TD3": _COMMON,
    "TRPO": {**_TRPO, **_COMMON},
}
"""Class -> old name -> rule. Conversions are made in the order of the table."""

OLD_NAMES = frozenset({*HER_KEYS, *(name for options in OPTIONS.values() for name in options)})
"""Every old name of an option; without any of them there is nothing to translate."""

ASSUMED: dict[str, dict[str, object]] = {
    "A2C": {"learning_rate": 7e-4},
    "PPO": {"n_steps": 2048, "clip_range": 0.2, "learning_rate": 3e-4},
}
"""Defaults that conversions start from where nothing is given."""

SB2_CLASSES: dict[str, SB2Class] = {
    "PPO1": SB2Class(
        "ppo",
        {
            "gamma": 0.99,
            "timesteps_per_actorbatch": 256,
            "clip_param": 0.2,
            "entcoeff": 0.01,
            "optim_epochs": 4,
            "optim_stepsize": 1e-3,
            "optim_batchsize": 64,
            "lam": 0.95,
            "adam_epsilon": 1e-5,
            "schedule": "linear",
        },
        {"vf_coef": 1.0, "max_grad_norm": float("inf")},
    ),
    "PPO2": SB2Class(
        "ppo",
        {
            "gamma": 0.99,
            "n_steps": 128,
            "ent_coef": 0.01,
            "learning_rate": 2.5e-4,
            "vf_coef": 0.5,
            "max_grad_norm": 0.5,
            "lam": 0.95,
            "nminibatches": 4,
            "noptepochs": 4,
            "cliprange": 0.2,
            "cliprange_vf": None,
        },
    ),
}
"""Class of Stable Baselines -> its successor and its defaults."""

UNSET_IF_NONE = ("memory_limit",)
"""Old options for which None is the same as leaving them out."""

POLICIES: dict[str, dict[str, object]] = {
    "CustomDQNPolicy": {"net_arch": [64], "layer_norm": True, "dueling": True},
    "CustomMlpPolicy": {"net_arch": [16]},
    "CustomSACPolicy": {"net_arch": [256, 256]},
}
"""Policies of RL Baselines Zoo -> `policy_kwargs` that make an MlpPolicy the same network."""

ATARI: dict[str, object] = {
    "env_wrapper": "rlzoo.AtariWrapper",
    "env_kwargs": {"frameskip": 1},
    "frame_stack": 4,
}
"""Keys that RL Baselines Zoo applied to every Atari game although its files lack them."""

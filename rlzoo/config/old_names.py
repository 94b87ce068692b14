"""Options under the names that they had in Stable Baselines, and its two classes for PPO.

One table per algorithm says what an old option is called today and how its value is said. Constructors,
`load`, hyperparameter files and `-params` all read it; whoever gives an old name gets one line that says the
new ones. A name that is neither old nor today's is left as it is, for the algorithm to refuse.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlzoo.config import catalog
from rlzoo.config.her_entries import HER, OLD_KEYS, learner_name
from rlzoo.config.literals import Name, parse_value
from rlzoo.core.errors import UserError
from rlzoo.core.schedules import lr_schedule, schedule_text

Known = Mapping[str, Any]
"""All other values, under today's names; also `n_envs`."""


@dataclass(frozen=True)
class Conversion:
    """An old option whose value is said in another way today.

    :param sets: what it sets, for finding out what is given twice; dots lead into dictionaries
    :param convert: from its value, and the values of the other options, to those of today's
    :param adjusts: options that it changes and that are given beside it
    """

    sets: str
    convert: Callable[[Any, Known], dict[str, Any]]
    adjusts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gone:
    """An old option that there is no use for.

    :param why: what to do instead
    :param harmless: to leave it out changes nothing; otherwise only its being off is let through
    """

    why: str
    harmless: bool = False


Rule = str | Conversion | Gone
"""What becomes of an old option; a text is the name that it has today."""


@dataclass(frozen=True)
class OldClass:
    """A class of Stable Baselines that is another one today.

    :param new: its name in the catalogue
    :param defaults: its arguments in their order, under their old names
    :param unsaid: values that it had built in
    """

    new: str
    defaults: dict[str, Any]
    unsaid: dict[str, Any] = field(default_factory=dict)


@dataclass
class Translation:
    """Values under today's names."""

    values: dict[str, Any]
    origins: dict[str, list[str]] = field(default_factory=dict)  # today's name -> the old ones it comes from
    notices: dict[str, str] = field(default_factory=dict)  # old name -> "lam is now gae_lambda"


# ---------------------------------------------------------------------- how values are converted


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _batch_size(value: Any, known: Known) -> dict[str, Any]:
    numbers = {"nminibatches": value, **{name: known[name] for name in ("n_steps", "n_envs")}}
    for name, number in numbers.items():
        if not _is_number(number) or number < 1 or number % 1:
            raise UserError(f"{name} must be a whole number of at least 1, not {number!r}")
    count, n_steps, n_envs = (int(number) for number in numbers.values())
    rows = n_steps * n_envs
    if rows % count:
        raise UserError(
            f"nminibatches {count} does not divide n_steps * n_envs = {n_steps} * {n_envs} = {rows}"
        )
    return {"batch_size": rows // count}


def _clip_range_vf(value: Any, known: Known) -> dict[str, Any]:
    if value is None:
        return {"clip_range_vf": known["clip_range"]}
    return {"clip_range_vf": None if _is_number(value) and value < 0 else value}


def _scheduled(option: str, *names: str) -> Conversion:
    """The name of a schedule, which scales the values of `names`."""

    def convert(value: Any, known: Known) -> dict[str, Any]:
        if value is None:
            return {}
        for name in names:
            if not _is_number(known[name]):
                raise UserError(f"{option} {value!r} needs a {name} that is a number, not {known[name]!r}")
        return {name: schedule_text(lr_schedule(str(value), known[name])) for name in names}

    return Conversion(option, convert, adjusts=names)


def _hidden_size(value: Any, known: Known) -> dict[str, Any]:
    widths = list(value) if isinstance(value, list | tuple) else [value, value]
    return {"policy_kwargs.net_arch": widths}


def _max_kl(value: Any, known: Known) -> dict[str, Any]:
    return {"target_kl": value, "sum_kl": True}


# ---------------------------------------------------------------------- the tables

_THREADS = Gone("PyTorch's threads are set by --num-threads or torch.set_num_threads", harmless=True)
_EVERYWHERE: dict[str, Rule] = {
    "n_cpu_tf_sess": _THREADS,
    "full_tensorboard_log": Gone("a callback can record histograms with logger.record", harmless=True),
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
    "schedule": _scheduled("schedule", "learning_rate", "clip_range"),
    "cliprange_vf": Conversion("clip_range_vf", _clip_range_vf),
}
_TRPO: dict[str, Rule] = {
    "timesteps_per_batch": "n_steps",
    "max_kl": Conversion("target_kl", _max_kl),
    "cg_iters": "cg_max_steps",
    "lam": "gae_lambda",
    "entcoeff": "ent_coef",
    "vf_stepsize": "learning_rate",
    "vf_iters": "n_critic_updates",
}
_OPTIONS: dict[str, dict[str, Rule]] = {
    "A2C": {
        "alpha": "policy_kwargs.optimizer_kwargs.alpha",
        "epsilon": "rms_prop_eps",
        "lr_schedule": _scheduled("lr_schedule", "learning_rate"),
    },
    "ACER": {"num_procs": _THREADS},
    "ACKTR": {"nprocs": _THREADS},
    "DDPG": {
        "nb_train_steps": "gradient_steps",
        "nb_rollout_steps": "train_freq",
        "memory_limit": "buffer_size",
        "memory_policy": Gone("replay_buffer_class takes a class derived from ReplayBuffer"),
        "eval_env": Gone(_EVALUATION),
        "nb_eval_steps": Gone(_EVALUATION, harmless=True),
        "render": Gone("`rlzoo enjoy` shows an agent"),
        "render_eval": Gone("`rlzoo enjoy` shows an agent"),
    },
    "DQN": {"target_network_update_freq": "target_update_interval"},
    "GAIL": {**_TRPO, "hidden_size": Conversion("policy_kwargs.net_arch", _hidden_size)},
    "PPO": _PPO,
    "SAC": {},
    "TD3": {},
    "TRPO": _TRPO,
}
"""Class -> old name -> rule. Conversions are made in the order of the table."""

ASSUMED: dict[str, dict[str, Any]] = {
    "A2C": {"learning_rate": 7e-4},
    "PPO": {"n_steps": 2048, "clip_range": 0.2, "learning_rate": 3e-4},
}
"""Defaults that conversions start from where nothing is given."""

OLD_CLASSES: dict[str, OldClass] = {
    "PPO1": OldClass(
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
    "PPO2": OldClass(
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

_UNSAID_BY_NONE = ("memory_limit",)
"""Old options that nobody gave if they are None."""

_POLICIES: dict[str, dict[str, Any]] = {
    "CustomDQNPolicy": {"net_arch": [64], "layer_norm": True, "dueling": True},
    "CustomMlpPolicy": {"net_arch": [16]},
    "CustomSACPolicy": {"net_arch": [256, 256]},
}
"""Policies of the older zoo, and what an MlpPolicy needs to be one."""

_ATARI = {"env_wrapper": "rlzoo.AtariWrapper", "env_kwargs": {"frameskip": 1}, "frame_stack": 4}
"""What the older zoo did to every Atari game, without a key in its files."""


# ---------------------------------------------------------------------- arguments and entries


def todays_arguments(algorithm: type, arguments: Mapping[str, Any], known: Known) -> dict[str, Any]:
    """Arguments of a constructor under today's names; one warning lists the old ones.

    :param known: what old options may depend on and `arguments` lack, such as `n_envs`
    :raises UserError: an option is given under two names, or its value means nothing
    """
    table = next((base.__name__ for base in algorithm.__mro__ if base.__name__ in _OPTIONS), None)
    if table is None:
        return dict(arguments)
    own = getattr(getattr(algorithm, "Config", None), "__dataclass_fields__", {})  # today's names come first
    translated = _translate(table, arguments, known, own)
    _warn("", translated.notices.values())
    return translated.values


def old_class_arguments(name: str, arguments: Mapping[str, Any], n_envs: int) -> dict[str, Any]:
    """Arguments of PPO for those of PPO1 or PPO2, with the defaults that these had.

    :raises UserError: see `todays_arguments`
    """
    translated = _translate_old_class(name, arguments, {"n_envs": n_envs})
    _warn(f"{name} is now {_class_name(OLD_CLASSES[name].new)}", translated.notices.values())
    return translated.values


def todays_entry(algo: str, values: Mapping[str, Any]) -> Translation:
    """An entry of a hyperparameter file under today's names; one warning lists the old ones.

    An entry for `ppo1` or `ppo2` gets the defaults that these had.

    :raises UserError: see `todays_arguments`
    """
    name, given = _table_of(algo, values), dict(values)
    notices: list[str] = []
    origins: dict[str, list[str]] = {}
    if (policy := _text(given.get("policy"))) in _POLICIES:
        given["policy"] = "MlpPolicy"
        extra = _POLICIES[str(policy)]
        given["policy_kwargs"] = {**extra, **_mapping(given.get("policy_kwargs"))}
        shown = ", ".join(f"{key}={value!r}" for key, value in extra.items())
        notices.append(f"{policy} is now MlpPolicy with {shown}")
        origins["policy_kwargs"] = ["policy"]
    if catalog.canonical(algo) == HER:
        for key, reason in OLD_KEYS.items():
            if given.pop(key, None) is not None:
                notices.append(f"{key} is no longer needed: {reason}")
    known = {"n_envs": given.get("n_envs", 1)}
    if name in OLD_CLASSES:
        translated = _translate_old_class(name, given, known)
        prefix = f"{algo} is now {OLD_CLASSES[name].new}"
    else:
        translated = _translate(name, given, known)
        prefix = ""
    _warn(prefix, [*notices, *translated.notices.values()])
    for key, names in origins.items():
        translated.origins[key] = [*names, *translated.origins.get(key, [])]
    return translated


def is_old_class(algo: str) -> bool:
    """Whether a name of the catalogue stands for a class of Stable Baselines that is another one today."""
    return _class_name(algo) in OLD_CLASSES


def todays_algorithm(algo: str) -> str:
    """`ppo` for `ppo1` and `ppo2`; any other name is returned as it is."""
    old = OLD_CLASSES.get(_class_name(algo))
    return algo if old is None else old.new


def as_the_older_zoo_played_atari(values: Mapping[str, Any]) -> dict[str, Any]:
    """What an entry for Atari games lacks, since the older zoo wrapped and stacked these by itself."""
    return (
        {} if "env_wrapper" in values else {key: value for key, value in _ATARI.items() if key not in values}
    )


def without_replaced(algo: str, values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The values but for those that overrides say anew under another, older or newer, name."""
    options = _options(_table_of(algo, {**values, **overrides}))
    said = {_target(options, name): name for name in overrides}
    return {name: value for name, value in values.items() if said.get(_target(options, name), name) == name}


# ---------------------------------------------------------------------- translating


def _translate(
    table: str, given: Mapping[str, Any], known: Known, todays: Collection[str] = ()
) -> Translation:
    """Values of one algorithm under today's names.

    :param todays: names that are today's although the table has them
    """
    options = {name: rule for name, rule in _options(table).items() if name not in todays}
    unsaid = [name for name in _UNSAID_BY_NONE if name in options and given.get(name, 0) is None]
    given = {name: value for name, value in given.items() if name not in unsaid}
    result = Translation({name: value for name, value in given.items() if name not in options})
    old = [name for name in options if name in given]
    _refuse_twice(options, given, old)
    for name in old:
        rule, value = options[name], given[name]
        if isinstance(rule, str):
            _put(result, rule, value, name)
            result.notices[name] = f"{name} is now {rule}"
        elif isinstance(rule, Gone):
            if not (rule.harmless or value is None or value is False):
                raise UserError(f"{name} is no longer an option: {rule.why}")
            result.notices[name] = f"{name} is no longer needed: {rule.why}"
    for name in old:  # they read what the others have become
        rule = options[name]
        if isinstance(rule, Conversion):
            made = rule.convert(given[name], {**ASSUMED.get(table, {}), **known, **result.values})
            for new, value in made.items():
                _put(result, new, value, name)
            shown = " and ".join(f"{new}={_shown(value)}" for new, value in made.items())
            result.notices[name] = f"{name}={_shown(given[name])} is now {shown or 'nothing'}"
    return result


def _translate_old_class(name: str, given: Mapping[str, Any], known: Known) -> Translation:
    """Values of PPO1 or PPO2 under the names of PPO; what is not given has its old default."""
    old = OLD_CLASSES[name]
    options = _options(name)
    said = {_target(options, key): value for key, value in given.items()}
    said |= {target.partition(".")[0]: value for target, value in said.items() if "." in target}
    defaults = {}
    for key, value in {**old.defaults, **old.unsaid}.items():
        rule, target = options.get(key), _target(options, key)
        adjusted = rule.adjusts if isinstance(rule, Conversion) else ()
        has_schedule = any(not _is_number(said.get(name, 0)) for name in adjusted)
        if not {target, target.partition(".")[0]} & said.keys() and not has_schedule:
            defaults[key] = value
    translated = _translate(_class_name(old.new), {**given, **defaults}, known)
    translated.notices = {key: notice for key, notice in translated.notices.items() if key in given}
    return translated


def _refuse_twice(options: Mapping[str, Rule], given: Mapping[str, Any], old: list[str]) -> None:
    for name in old:
        for other in given:
            if other != name and _target(options, other) == _target(options, name):
                raise UserError(f"the options {name!r} (old) and {other!r} say the same: give one")


def _put(result: Translation, path: str, value: Any, name: str) -> None:
    """Set a value, inside copies of the dictionaries that the path leads through."""
    values = result.values
    *outer, last = path.split(".")
    for key in outer:
        values[key] = _mapping(values.get(key))
        values = values[key]
    if outer and last in values:
        raise UserError(f"the options {name!r} (old) and {path!r} say the same: give one")
    values[last] = value
    result.origins.setdefault(path.partition(".")[0], []).append(name)


def _options(table: str) -> dict[str, Rule]:
    own = _OPTIONS.get(_class_name(OLD_CLASSES[table].new) if table in OLD_CLASSES else table)
    return {} if own is None else {**own, **_EVERYWHERE}


def _target(options: Mapping[str, Rule], name: str) -> str:
    """What is set by an option, be its name old or today's."""
    rule = options.get(name)
    if isinstance(rule, Conversion):
        return name if rule.adjusts else rule.sets
    return rule if isinstance(rule, str) else name


def _table_of(algo: str, values: Mapping[str, Any]) -> str:
    """The class whose options an entry has."""
    if catalog.canonical(algo) == HER and values.get("model_class"):
        algo = learner_name(values["model_class"])
    return _class_name(algo)


def _class_name(algo: str) -> str:
    return catalog.resolve(algo).partition(":")[2]


def _text(policy: Any) -> str:
    """The last part of the name of a policy."""
    path = policy.path if isinstance(policy, Name) else policy
    return path.rpartition(".")[2] if isinstance(path, str) else ""


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        value = parse_value(value)
    return dict(value) if isinstance(value, Mapping) else {}


def _shown(value: Any) -> str:
    return getattr(value, "__name__", None) or repr(value)


def _warn(prefix: str, notices: Iterable[str]) -> None:
    if text := "; ".join(filter(None, [prefix, *notices])):
        warnings.warn(text, stacklevel=4)

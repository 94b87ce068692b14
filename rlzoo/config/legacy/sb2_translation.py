"""Translate options of Stable Baselines to current ones.

Constructors, `load`, hyperparameter files and `-params` accept old options. One warning lists their current
names. A name that is neither old nor current is left unchanged, for the algorithm to refuse.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rlzoo.config import catalog
from rlzoo.config.her_entries import learner_name
from rlzoo.config.legacy.her_keys import pop_her_keys
from rlzoo.config.legacy.sb2_options import (
    ASSUMED,
    ATARI,
    OPTIONS,
    POLICIES,
    SB2_CLASSES,
    UNSET_IF_NONE,
    Conversion,
    Removed,
    Rule,
    Values,
    is_number,
)
from rlzoo.config.raw import RawConfig
from rlzoo.config.values_as_text import Name, parse_value
from rlzoo.core.errors import UserError


@dataclass
class _Translation:
    """Values under current names."""

    values: dict[str, object]
    origins: dict[str, list[str]] = field(default_factory=dict)  # current name -> the old ones it comes from
    notices: dict[str, str] = field(default_factory=dict)  # old name -> "lam is now gae_lambda"


# ---------------------------------------------------------------------- constructors


def translate_sb2_kwargs(algorithm: type, kwargs: Values, known: Values) -> dict[str, Any]:
    """Return keyword arguments of a constructor under current names; one warning lists the old ones.

    :param known: what conversions may depend on and `kwargs` lack, such as `n_envs`
    :raises UserError: an option is given under two names, or its value is invalid
    """
    table = next((base.__name__ for base in algorithm.__mro__ if base.__name__ in OPTIONS), None)
    if table is None or kwargs.keys().isdisjoint(OPTIONS[table]):
        return dict(kwargs)
    fields = getattr(getattr(algorithm, "Config", None), "__dataclass_fields__", {})
    translated = _translate(table, kwargs, known, current=fields)
    _warn("", translated.notices.values())
    return translated.values


def translate_sb2_class_kwargs(name: str, kwargs: Values, n_envs: int) -> dict[str, object]:
    """Return keyword arguments of PPO for those of PPO1 or PPO2, with the defaults of these classes.

    :raises UserError: see `translate_sb2_kwargs`
    """
    translated = _translate_class(name, kwargs, {"n_envs": n_envs})
    _warn(f"{name} is now {catalog.class_name(SB2_CLASSES[name].new)}", translated.notices.values())
    return translated.values


# ---------------------------------------------------------------------- configurations


def translate_sb2_entry(raw: RawConfig) -> RawConfig:
    """Return a configuration under current names; one warning lists the old ones.

    An entry of `ppo1` or `ppo2` becomes one of `ppo` with the defaults that these classes had.

    :raises UserError: see `translate_sb2_kwargs`
    """
    table, given = _table_of(raw.algo, raw.values), dict(raw.values)
    origins, notices = _translate_policy(given)
    if catalog.class_name(raw.algo) == "HER":
        notices += pop_her_keys(given)
    known: Values = {"n_envs": given.get("n_envs", 1)}
    if table in SB2_CLASSES:
        algo = SB2_CLASSES[table].new
        translated = _translate_class(table, given, known)
        _warn(f"{raw.algo} is now {algo}", [*notices, *translated.notices.values()])
    else:
        algo = raw.algo
        translated = _translate(table, given, known)
        _warn("", [*notices, *translated.notices.values()])
    sources = {}
    for key in translated.values:
        names = [key, *origins.get(key, []), *translated.origins.get(key, [])]
        found = dict.fromkeys(raw.sources[name] for name in names if name in raw.sources)
        sources[key] = "; ".join(found) or f"default of {raw.algo}"
    return replace(raw, algo=algo, values=translated.values, sources=sources)


def apply_sb2_atari_defaults(raw: RawConfig) -> RawConfig:
    """Add what RL Baselines Zoo did to every Atari game, to an entry of `ppo1` or `ppo2` for one."""
    if catalog.class_name(raw.algo) not in SB2_CLASSES or "env_wrapper" in raw.values:
        return raw
    added = {key: value for key, value in ATARI.items() if key not in raw.values}
    sources = dict.fromkeys(added, "default of RL Baselines Zoo for Atari games")
    return replace(raw, values={**raw.values, **added}, sources={**raw.sources, **sources})


def current_algorithm(algo: str) -> str:
    """Return `ppo` for `ppo1` and `ppo2`; any other name is returned unchanged."""
    old = SB2_CLASSES.get(catalog.class_name(algo))
    return algo if old is None else old.new


def drop_replaced(algo: str, values: Values, overrides: Values) -> dict[str, object]:
    """Return the values without those that overrides set under another, older or newer, name."""
    options = _options(_table_of(algo, {**values, **overrides}))
    new_names = {_target(options, name): name for name in overrides}
    return {
        name: value for name, value in values.items() if new_names.get(_target(options, name), name) == name
    }


# ---------------------------------------------------------------------- translation


def _translate(table: str, given: Values, known: Values, current: Collection[str] = ()) -> _Translation:
    """Translate the values of one algorithm.

    :param current: names that are current although the table has them
    """
    options = {name: rule for name, rule in _options(table).items() if name not in current}
    unset = [name for name in UNSET_IF_NONE if name in options and given.get(name, 0) is None]
    given = {name: value for name, value in given.items() if name not in unset}
    result = _Translation({name: value for name, value in given.items() if name not in options})
    old = [name for name in options if name in given]
    _refuse_duplicates(options, given, old)
    for name in old:
        rule, value = options[name], given[name]
        if isinstance(rule, str):
            _put(result, rule, value, name)
            result.notices[name] = f"{name} is now {rule}"
        elif isinstance(rule, Removed):
            if not (rule.harmless or value is None or value is False):
                raise UserError(f"{name} is no longer an option: {rule.why}")
            result.notices[name] = f"{name} is no longer needed: {rule.why}"
    for name in old:  # conversions read what the others have become
        rule = options[name]
        if isinstance(rule, Conversion):
            converted = rule.convert(given[name], {**ASSUMED.get(table, {}), **known, **result.values})
            for new, value in converted.items():
                _put(result, new, value, name)
            shown = " and ".join(f"{new}={_shown(value)}" for new, value in converted.items())
            result.notices[name] = f"{name}={_shown(given[name])} is now {shown or 'nothing'}"
    return result


def _translate_class(name: str, given: Values, known: Values) -> _Translation:
    """Translate the values of PPO1 or PPO2 to those of PPO; what is not given has its old default."""
    old, options = SB2_CLASSES[name], _options(name)
    targets = {_target(options, key): value for key, value in given.items()}
    targets |= {target.partition(".")[0]: value for target, value in targets.items() if "." in target}
    defaults = {}
    for key, value in {**old.defaults, **old.implicit}.items():
        rule, target = options.get(key), _target(options, key)
        adjusted = rule.adjusts if isinstance(rule, Conversion) else ()
        has_schedule = any(not is_number(targets.get(option, 0)) for option in adjusted)
        if not {target, target.partition(".")[0]} & targets.keys() and not has_schedule:
            defaults[key] = value
    translated = _translate(catalog.class_name(old.new), {**given, **defaults}, known)
    translated.notices = {key: notice for key, notice in translated.notices.items() if key in given}
    return translated


def _translate_policy(values: dict[str, object]) -> tuple[dict[str, list[str]], list[str]]:
    """Replace a policy of RL Baselines Zoo in `values`; return origins and notices."""
    policy = values.get("policy")
    path = policy.path if isinstance(policy, Name) else policy
    name = path.rpartition(".")[2] if isinstance(path, str) else ""
    if name not in POLICIES:
        return {}, []
    extra = POLICIES[name]
    values["policy"] = "MlpPolicy"
    values["policy_kwargs"] = {**extra, **_mapping(values.get("policy_kwargs"))}
    shown = ", ".join(f"{key}={value!r}" for key, value in extra.items())
    return {"policy_kwargs": ["policy"]}, [f"{name} is now MlpPolicy with {shown}"]


def _refuse_duplicates(options: Mapping[str, Rule], given: Values, old: list[str]) -> None:
    for name in old:
        for other in given:
            if other != name and _target(options, other) == _target(options, name):
                raise UserError(f"the options {name!r} (old) and {other!r} say the same: give one")


def _put(result: _Translation, path: str, value: object, name: str) -> None:
    """Set a value, inside copies of the dictionaries that the path leads through."""
    values = result.values
    *outer, last = path.split(".")
    for key in outer:
        inner = _mapping(values.get(key))
        values[key] = inner
        values = inner
    if outer and last in values:
        raise UserError(f"the options {name!r} (old) and {path!r} say the same: give one")
    values[last] = value
    result.origins.setdefault(path.partition(".")[0], []).append(name)


def _options(table: str) -> dict[str, Rule]:
    name = catalog.class_name(SB2_CLASSES[table].new) if table in SB2_CLASSES else table
    return OPTIONS.get(name, {})


def _target(options: Mapping[str, Rule], name: str) -> str:
    """Return what an option sets, under its current name."""
    rule = options.get(name)
    if isinstance(rule, Conversion):
        return name if rule.adjusts else rule.sets
    return rule if isinstance(rule, str) else name


def _table_of(algo: str, values: Values) -> str:
    """Return the class whose options an entry has."""
    name = catalog.class_name(algo)
    if name == "HER" and values.get("model_class"):
        return catalog.class_name(learner_name(values["model_class"]))
    return name


def _mapping(value: object) -> dict[str, object]:
    if isinstance(value, str):
        value = parse_value(value)
    return dict(value) if isinstance(value, Mapping) else {}


def _shown(value: object) -> str:
    return getattr(value, "__name__", None) or repr(value)


def _warn(prefix: str, notices: Iterable[str]) -> None:
    if text := "; ".join(filter(None, [prefix, *notices])):
        warnings.warn(text, stacklevel=4)

"""Resolve a configuration: keys checked, names turned into classes, values typed.

    RawConfig   what file and command line say
      -> config.legacy       names of older packages
      -> config.her_entries  `her` is an algorithm with a HerReplayBuffer
      -> ResolvedConfig      classes, checked values, a Config

This happens before a run folder is claimed or an environment is made, so a mistake costs nothing.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from rlzoo.algorithms.base import Algorithm
from rlzoo.algorithms.hyperparameters import build_config, check_arguments, check_constructor
from rlzoo.buffers.demonstrations import as_dataset, is_given
from rlzoo.config import catalog
from rlzoo.config.class_names import class_path
from rlzoo.config.her_entries import HER, expand_her
from rlzoo.config.hyperparams import ZOO_KEYS, has_old_names, lookup, merge, with_overrides
from rlzoo.config.legacy.sb2_translation import translate_sb2_entry
from rlzoo.config.raw import RawConfig
from rlzoo.config.run import PRECISIONS, RunConfig
from rlzoo.config.values_as_text import WRAPPER_KEYS, Name, parse_value, plain
from rlzoo.core.errors import UserError, unknown
from rlzoo.experiment.named_classes import load_class, require_kind
from rlzoo.experiment.noise_config import NOISE_KEYS, plan_noise
from rlzoo.experiment.resolved_config import Class, ResolvedConfig
from rlzoo.io.trust import is_trusted
from rlzoo.policies.policy_kwargs import policy_keywords
from rlzoo.policies.policy_registry import get_policy_class

CONSTRUCTOR_KEYS = ("policy", "policy_kwargs", "stats_window_size")
WRAPPERS = ("env_wrapper", "vec_env_wrapper")
MAPPING_KEYS = ("policy_kwargs", "env_kwargs", "eval_env_kwargs", "monitor_kwargs")
PLACE = re.compile("(^|_)(path|folder|dir|directory|file|filename)$")
"""Names of arguments that say where something is written, or read."""


def resolve_run(run: RunConfig, read_demonstrations: bool = True, trusted: bool = True) -> ResolvedConfig:
    """Resolve the configuration of a run: its file, with the overrides of its command line on top.

    :param read_demonstrations: False: they may not exist yet
    :param trusted: the user wrote the configuration; False: it comes from a file that may be somebody else's
    :raises UserError: before anything is made or claimed
    """
    resolved = resolve(read_config(run), trusted)
    if not resolved.n_timesteps:
        raise UserError(
            f"n_timesteps is not set in the hyperparameters of {run.algo} for {run.env_id}; give -n"
        )
    return _with_demonstrations(resolved) if read_demonstrations else resolved


def read_config(run: RunConfig) -> RawConfig:
    """Return what the hyperparameter file and the command line of a run say."""
    raw = with_overrides(lookup(run.algo, run.env_id, run.conf_file), run.hyperparams)
    flags: dict[str, object] = {}
    if run.expert:
        _require_imitation(run.algo)
        flags["expert_dataset"] = {"expert_path": run.expert}
    flags |= {key: dict(getattr(run, key)) for key in ("env_kwargs", "eval_env_kwargs") if getattr(run, key)}
    if run.n_timesteps > 0:
        flags["n_timesteps"] = run.n_timesteps
    return replace(raw, values=merge(raw.values, flags)) if flags else raw


def warn_if_untrained(resolved: ResolvedConfig) -> None:
    """Warn if a training ends before its algorithm begins to learn, as smoke tests do."""
    learning_starts = getattr(resolved.config, "learning_starts", 0)
    if learning_starts >= resolved.n_timesteps:
        warnings.warn(
            f"nothing is learned: learning_starts ({learning_starts:,}) is not below"
            f" n_timesteps ({resolved.n_timesteps:,}), so that all actions are random",
            stacklevel=2,
        )


def _require_imitation(algo: str) -> None:
    """Raise UserError if an algorithm does not learn from demonstrations."""
    if not _imitates(catalog.load(algo)):
        algos = [name for name in catalog.names() if _imitates(catalog.load(name))]
        raise UserError(f"--expert is for algorithms that imitate ({', '.join(algos)}); {algo} does not")


def _imitates(algorithm: type) -> bool:
    return hasattr(getattr(algorithm, "Config", None), "expert_dataset")


def _with_demonstrations(resolved: ResolvedConfig) -> ResolvedConfig:
    """Return the configuration with its demonstrations loaded, if its algorithm learns from any.

    :raises UserError: there are none, or their file is no use
    """
    if not _imitates(resolved.algorithm):
        return resolved
    source = resolved.hyperparams.get("expert_dataset")
    if not is_given(source):
        raise UserError(
            f"{resolved.algo} learns from demonstrations: give --expert FILE, made by `rlzoo record-expert`;"
            " in the row of a list, `expert: {algo: ppo, seed: 100, episodes: 25}`"
        )
    return replace(resolved, hyperparams={**resolved.hyperparams, "expert_dataset": as_dataset(source)})


def resolve_config(algo: str, values: Mapping[str, object], trusted: bool = True) -> ResolvedConfig:
    """Resolve an entry of a hyperparameter file; see `resolve`.

    :param values: the entry, with overrides merged
    :param trusted: the user wrote the configuration; False: it comes from a file that may be somebody else's
    """
    return resolve(RawConfig(algo, dict(values)), trusted)


def resolve(raw: RawConfig, trusted: bool = True) -> ResolvedConfig:
    """Check every key and type of a configuration, and import the classes that it names.

    :param trusted: the user wrote the configuration; False: it comes from a file that may be somebody else's
        (it may then name classes of trusted modules only, see `rlzoo.experiment.named_classes`)
    :raises UserError: one line that names the key and, where there is one, the nearest valid name
    """
    current = translate_sb2_entry(raw) if has_old_names(raw.algo, raw.values) else raw
    learner = expand_her(current) if catalog.canonical(current.algo) == HER else current
    algorithm: type[Algorithm] = catalog.load(learner.algo)
    values = resolve_entry(_parse_mappings(learner.values), trusted)
    hyperparams = {key: value for key, value in values.items() if key not in (*ZOO_KEYS, *CONSTRUCTOR_KEYS)}
    also_known = (*ZOO_KEYS, *CONSTRUCTOR_KEYS, *learner.translated_keys)
    checked = build_config(algorithm.Config, hyperparams, also_known)
    if "policy" not in values:
        raise UserError(f"the hyperparameters of {raw.algo} lack a policy, such as MlpPolicy")
    resolved = ResolvedConfig(
        algo=raw.algo,
        algorithm=algorithm,
        values=current.values,
        hyperparams={
            field.name: getattr(checked, field.name) for field in fields(checked) if field.name in hyperparams
        },
        config=checked,
        policy=values["policy"],
        policy_kwargs=values["policy_kwargs"] or None,
        stats_window_size=_count(values, "stats_window_size", 100),
        n_timesteps=_count(values, "n_timesteps", 0),
        matmul_precision=_precision(values),
        n_envs=_count(values, "n_envs", 1),
        frame_stack=_count(values, "frame_stack", 1),
        noise=None if values.keys().isdisjoint(NOISE_KEYS) else plan_noise(values, algorithm),
        normalize=normalisation(values),
        env_kwargs=values["env_kwargs"],
        eval_env_kwargs=values["eval_env_kwargs"],
        monitor_kwargs=values["monitor_kwargs"],
        env_wrappers=values.get("env_wrapper", ()),
        vec_env_wrappers=values.get("vec_env_wrapper", ()),
        callbacks=values.get("callback", ()),
    )
    _check_policy(resolved)
    if problem := algorithm.n_envs_problem(checked, resolved.n_envs):
        raise UserError(problem)
    return resolved


def resolve_names(value: object, trusted: bool, key: str = "name") -> Any:
    """Return the value with every `Name` in it replaced by its class.

    :param key: the key of the value
    """
    if isinstance(value, Name):
        return load_class(value.path, key, trusted)
    if isinstance(value, Mapping):
        return {name: resolve_names(item, trusted, str(name)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(resolve_names(item, trusted, key) for item in value)
    return value


def resolve_entry(values: Mapping[str, object], trusted: bool) -> dict[str, Any]:
    """Return an entry of a hyperparameter file with classes in place of their names.

    Wrappers and callbacks become tuples of (class, keyword arguments).

    :param trusted: the user wrote the configuration; False: it comes from a file that may be somebody else's
    :raises UserError: see `load_class`
    """
    resolved: dict[str, Any] = {}
    for key, value in values.items():
        if key in WRAPPER_KEYS:
            resolved[key] = classes(key, value, trusted)
        elif key == "policy":
            resolved[key] = _policy(value, trusted)
        else:
            resolved[key] = resolve_names(value, trusted, key)
    check_places("monitor_kwargs", resolved.get("monitor_kwargs", {}), trusted)
    return resolved


def _policy(value: object, trusted: bool) -> str | type:
    """Return a registered name as it is, and the class of a dotted one."""
    if isinstance(value, Name):
        return load_class(value.path, "policy", trusted)
    if isinstance(value, type):
        return require_kind(value, "policy")
    if not isinstance(value, str):
        raise UserError(f"policy must be a name such as MlpPolicy, not {value!r}")
    return load_class(value, "policy", trusted) if "." in value else value


def check_places(where: str, kwargs: Mapping[str, object], trusted: bool, path: str = "") -> None:
    """Check that arguments from a file do not say where something is written.

    :param where: what takes the arguments, for the error
    :param path: the dotted name of the class that takes them; trusted by its name, it takes any
    :raises UserError: names the argument
    """
    if trusted or (path and is_trusted(class_path(path))):
        return
    for name, value in kwargs.items():
        if PLACE.search(name) and value is not None:
            hint = f"; if you trust it, add --trust {class_path(path)}" if path else ""
            raise UserError(f"{where}: {name} says where to write, which a file may not decide{hint}")


def classes(key: str, value: object, trusted: bool = True) -> tuple[Class, ...]:
    """Return classes with their arguments, from a name, a class, `{class: {kwargs}}` or a list of these."""
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return tuple(item for entry in value for item in classes(key, entry, trusted))
    if isinstance(value, Name):
        value = value.path
    if isinstance(value, str | type):
        value = {value: {}}
    if isinstance(value, Mapping) and len(value) == 1:
        ((path, kwargs),) = value.items()
        if isinstance(path, str | type) and (kwargs is None or isinstance(kwargs, Mapping)):
            found = require_kind(path, key) if isinstance(path, type) else load_class(path, key, trusted)
            path = str(plain(path))
            kwargs = resolve_names(dict(kwargs or {}), trusted)
            check_constructor(f"{key} {path}", found, kwargs, wraps=key in WRAPPERS)
            check_places(f"{key} {path}", kwargs, trusted, path)
            return ((found, kwargs),)
    raise UserError(
        f"{key} must be a dotted name, {{name: {{argument: value}}}} or a list of those, not {value!r}"
    )


def _check_policy(resolved: ResolvedConfig) -> None:
    """Check the name and the keywords of the policy; warnings of old ones come when it is made."""
    policy_class = get_policy_class(resolved.algorithm.policy_family, resolved.policy)
    if not resolved.policy_kwargs:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            keywords = policy_keywords(policy_class, resolved.policy_kwargs)
        except UserError as error:
            raise UserError(f"policy_kwargs: {error}") from None
    check_arguments("policy_kwargs", policy_class, keywords, also_known=keywords)


def normalisation(values: Mapping[str, object]) -> dict[str, Any] | None:
    """Return arguments of VecNormalize; the discount of its returns is the algorithm's unless given."""
    from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize

    value = values.get("normalize", False)
    if isinstance(value, str):
        value = parse_value(value)
    if not isinstance(value, bool | Mapping):
        raise UserError(f"normalize must be true, false or arguments of VecNormalize, not {value!r}")
    if value is False:
        return None
    kwargs = {**(value if isinstance(value, Mapping) else {}), **_mapping(values, "normalize_kwargs")}
    if "gamma" in values:
        kwargs.setdefault("gamma", values["gamma"])
    check_arguments("normalize", VecNormalize, kwargs)
    return kwargs


def _parse_mappings(values: Mapping[str, object]) -> dict[str, object]:
    """Return an entry in which every key of MAPPING_KEYS is a dictionary."""
    return {**values, **{key: _mapping(values, key) for key in MAPPING_KEYS}}


def _mapping(values: Mapping[str, object], key: str) -> dict[str, object]:
    value = values.get(key)
    if isinstance(value, str):
        value = parse_value(value)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UserError(f"{key} must be a mapping such as {{name: value}}, not {value!r}")
    return dict(value)


def _count(values: Mapping[str, object], key: str, default: int) -> int:
    value = values.get(key, default)
    if isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0:
        if value >= 1 or key not in values:
            return int(value)
    raise UserError(f"{key} must be an integer of at least 1, not {value!r}")


def _precision(values: Mapping[str, object]) -> str:
    precision = str(values.get("matmul_precision", "highest"))
    if precision not in PRECISIONS:
        raise unknown("matmul_precision", precision, PRECISIONS)
    return precision

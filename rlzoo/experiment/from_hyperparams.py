"""Build single entries of a hyperparameter file: wrappers, callbacks, environments."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym

from rlzoo.callbacks.base_callback import BaseCallback, as_callback
from rlzoo.config.class_names import class_path
from rlzoo.config.values_as_text import interpret
from rlzoo.core.errors import UserError
from rlzoo.envs.single_env.registration import ensure_registered
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize, unwrap_vec_normalize
from rlzoo.experiment.factories import WrapperChain, build_evaluation_env
from rlzoo.experiment.named_classes import construct
from rlzoo.experiment.resolve import classes, normalisation
from rlzoo.experiment.resolved_config import EnvironmentConfig

STATISTICS = ("vecnormalize.npz", "vecnormalize.pkl")
"""Files of normalisation statistics: of rlzoo, and of RL Baselines3 Zoo."""


def get_class_by_name(name: str) -> type:
    """Return the class with a dotted name, old paths included.

    >>> get_class_by_name("rl_zoo3.wrappers.FrameSkip").__name__
    'FrameSkip'

    :raises UserError: there is no such class; names the nearest
    """
    module, _, attribute = class_path(name).rpartition(".")
    if not module:
        raise UserError(f"{name!r} is not the dotted name of a class, such as 'package.module.Class'")
    try:
        found: object = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{name!r}: {error}") from None
    if not isinstance(found, type):
        raise UserError(f"{name!r} is a {type(found).__name__}, not a class")
    return found


def get_wrapper_class(
    hyperparams: Mapping[str, object], key: str = "env_wrapper"
) -> Callable[[gym.Env], gym.Env] | None:
    """Return the wrappers of an entry as one function, the first innermost; None where there are none.

    >>> get_wrapper_class({"env_wrapper": {"rlzoo.FrameSkip": {"skip": 2}}})(env)  # doctest: +SKIP

    :param hyperparams: its `key` is a class or its dotted name, `{class: {keyword: value}}`, or a list
    :param key: `env_wrapper` or `vec_env_wrapper`
    :raises UserError: there is no such class, it is no wrapper, or it does not take the keywords
    """
    found = classes(key, interpret({key: hyperparams.get(key)})[key])
    return WrapperChain(found) if found else None


def get_callback_list(hyperparams: Mapping[str, object]) -> list[BaseCallback]:
    """Return the callbacks of an entry; classes are instantiated, objects returned as they are.

    >>> get_callback_list({"callback": "rlzoo.RawStatisticsCallback"})  # doctest: +ELLIPSIS
    [<rlzoo...RawStatisticsCallback object at ...>]

    :param hyperparams: its `callback` is a class or its dotted name, `{class: {keyword: value}}`, a callback,
        or a list of those
    :raises UserError: there is no such class, it is no callback, or it does not take the keywords
    """
    given = hyperparams.get("callback")
    entries = given if isinstance(given, list | tuple) else [given]
    callbacks = []
    for entry in entries:
        if isinstance(entry, BaseCallback):
            callbacks.append(entry)
            continue
        for build, kwargs in classes("callback", interpret({"callback": entry})["callback"]):
            callbacks.append(as_callback(construct("callback", build, **kwargs)))
    return callbacks


def flatten_dict_observations(env: gym.Env) -> gym.Env:
    """Return an environment whose Dict observations are one vector.

    :raises UserError: its observations are none
    """
    if not isinstance(env.observation_space, gym.spaces.Dict):
        raise UserError(f"flatten_dict_observations needs Dict observations, not {env.observation_space}")
    return gym.wrappers.FlattenObservation(env)


def create_test_env(
    env_id: str,
    n_envs: int = 1,
    stats_path: str | None = None,
    seed: int = 0,
    log_dir: str | None = None,
    should_render: bool = True,
    hyperparams: Mapping[str, Any] | None = None,
    env_kwargs: Mapping[str, object] | None = None,
    vec_env_cls: type[VecEnv] | None = None,
    vec_env_kwargs: Mapping[str, object] | None = None,
) -> VecEnv:
    """Return environments to play a trained agent in: wrapped, normalised and stacked as for its training.

    :param stats_path: folder with normalisation statistics, of `get_saved_hyperparams`; None: none are loaded
    :param log_dir: monitor files go here
    :param should_render: open a window (`render_mode="human"`)
    :param hyperparams: of the training; what is none of the environment's is left out
    :param env_kwargs: arguments of the environment
    :param vec_env_cls: DummyVecEnv or SubprocVecEnv; None: the fastest with identical dynamics
    :raises UserError: the environment or a wrapper is unknown, or the statistics are missing
    """
    if vec_env_kwargs:
        raise UserError(
            f"create_test_env takes no vec_env_kwargs: make_vec_env does; given: {vec_env_kwargs}"
        )
    values = interpret(hyperparams or {})
    resolved = resolve_environment(values)
    arguments = {**resolved.env_kwargs, **(env_kwargs or {})}
    if should_render:
        arguments.setdefault("render_mode", "human")
    ensure_registered(env_id)
    backend = {"DummyVecEnv": "dummy", "SubprocVecEnv": "subproc"}.get(
        getattr(vec_env_cls, "__name__", ""), "auto"
    )
    venv = build_evaluation_env(
        replace(resolved, env_kwargs=arguments),
        env_id,
        n_envs,
        seed,
        "dummy" if should_render and backend == "auto" else backend,
        monitor_dir=Path(log_dir) if log_dir else None,
        norm_reward=bool(values.get("normalize_kwargs", {}).get("norm_reward", False)),
    )
    if resolved.normalize is not None and stats_path is not None:
        _load_statistics(venv, Path(stats_path))
    return venv


def resolve_environment(values: Mapping[str, Any]) -> EnvironmentConfig:
    """Return the part of hyperparameters that is about environments."""
    return EnvironmentConfig(
        frame_stack=int(values.get("frame_stack") or 1),
        normalize=normalisation(values),
        env_kwargs=dict(values.get("env_kwargs") or {}),
        env_wrappers=classes("env_wrapper", values.get("env_wrapper")),
        vec_env_wrappers=classes("vec_env_wrapper", values.get("vec_env_wrapper")),
    )


def _load_statistics(venv: VecEnv, folder: Path) -> None:
    """Load the statistics of a folder into the VecNormalize of environments."""
    paths = [path for name in STATISTICS if (path := folder / name).is_file()]
    if not paths:
        raise UserError(f"there are no normalisation statistics ({' or '.join(STATISTICS)}) in {folder}")
    normalize = unwrap_vec_normalize(venv)
    assert normalize is not None
    normalize.load_state_dict(VecNormalize.load(paths[0], normalize.venv).state_dict())

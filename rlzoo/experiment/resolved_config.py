"""What a set of hyperparameters means: keys checked, names turned into classes, sorted by who reads them.

Everything here happens before a run folder is claimed or an environment is made, so a mistake costs nothing.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlzoo.algorithms.hyperparameters import build_config, check_value, field_names
from rlzoo.algorithms.off_policy.her import check_learner
from rlzoo.config import catalog
from rlzoo.config.her_entries import BUFFER_KEYS, HER, learner_entry
from rlzoo.config.hyperparams import ZOO_KEYS
from rlzoo.config.literals import Name, parse_value, plain
from rlzoo.config.old_names import todays_algorithm, todays_entry
from rlzoo.core.errors import RunFailed, UserError, unknown
from rlzoo.core.signatures import constructor_parameters
from rlzoo.envs.single_env.registration import package_of, require_packages
from rlzoo.experiment.named_classes import (
    check_places,
    load_class,
    require_kind,
    resolve,
    search_working_directory,
)
from rlzoo.experiment.noise_config import NoisePlan, plan_noise
from rlzoo.io.trust import trust
from rlzoo.policies.policy_kwargs import policy_keywords
from rlzoo.policies.policy_registry import get_policy_class

PLAIN = {"bool", "int", "float", "str", "None"}  # annotations that values are checked against
CONSTRUCTOR_KEYS = ("policy", "policy_kwargs", "stats_window_size")

Class = tuple[Callable[..., Any], dict[str, Any]]
"""Something to call, and the keyword arguments that the hyperparameters give it."""


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """Hyperparameters of one algorithm, ready to build from."""

    algo: str
    algorithm: type
    values: dict[str, Any]  # as they were resolved: plain values, for config.yml
    hyperparams: dict[str, Any]  # fields of the algorithm's Config
    policy: Any  # a name, or a class
    policy_kwargs: dict[str, Any] | None = None
    stats_window_size: int = 100
    noise: NoisePlan | None = None  # becomes a hyperparameter when the action space is known
    n_timesteps: int = 0
    n_envs: int = 1
    frame_stack: int = 1
    normalize: dict[str, Any] | None = None  # arguments of VecNormalize; None: no normalisation
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    eval_env_kwargs: dict[str, Any] = field(default_factory=dict)  # on top of env_kwargs
    monitor_kwargs: dict[str, Any] = field(default_factory=dict)
    env_wrappers: tuple[Class, ...] = ()
    vec_env_wrappers: tuple[Class, ...] = ()
    callbacks: tuple[Class, ...] = ()


def check_hyperparams(algo: str, values: Mapping[str, Any], own: bool = True) -> Blueprint:
    """Check every key and type of an entry of a hyperparameter file.

    :param values: the entry, with overrides merged
    :param own: the user wrote them, and they may name classes of installed packages; False: they come from
        a file that may be somebody else's (see `rlzoo.experiment.named_classes`)
    :raises UserError: one line that names the key and, where there is one, the nearest valid name
    """
    given = todays_entry(algo, values).values
    learner, values = learner_entry(todays_algorithm(algo), given)
    algorithm: Any = catalog.load(learner)
    known: tuple[str, ...] = (*ZOO_KEYS, *CONSTRUCTOR_KEYS)
    if catalog.canonical(algo) == HER:
        check_learner(algorithm)
        known += ("model_class", *BUFFER_KEYS)
    hyperparams = {key: value for key, value in values.items() if key not in (*ZOO_KEYS, *CONSTRUCTOR_KEYS)}
    hyperparams = {key: resolve(value, own, key) for key, value in hyperparams.items()}
    checked = build_config(algorithm.Config, hyperparams, known)
    if "policy" not in values:
        raise UserError(f"the hyperparameters of {algo} lack a policy, such as MlpPolicy")
    blueprint = Blueprint(
        algo=algo,
        algorithm=algorithm,
        values=given,
        hyperparams={
            key: getattr(checked, key) for key in field_names(algorithm.Config) if key in hyperparams
        },
        policy=_policy(values["policy"], own),
        policy_kwargs=resolve(_mapping(values, "policy_kwargs"), own) or None,
        stats_window_size=_count(values, "stats_window_size", 100),
        noise=plan_noise(values, algorithm),
        n_timesteps=_count(values, "n_timesteps", 0),
        n_envs=_count(values, "n_envs", 1),
        frame_stack=_count(values, "frame_stack", 1),
        normalize=normalisation(values),
        env_kwargs=resolve(_mapping(values, "env_kwargs"), own),
        eval_env_kwargs=resolve(_mapping(values, "eval_env_kwargs"), own),
        monitor_kwargs=_monitor_kwargs(values, own),
        env_wrappers=classes("env_wrapper", values.get("env_wrapper"), own),
        vec_env_wrappers=classes("vec_env_wrapper", values.get("vec_env_wrapper"), own),
        callbacks=classes("callback", values.get("callback"), own),
    )
    _check_policy(blueprint)
    if problem := algorithm.setup_problem(checked, blueprint.n_envs):
        raise UserError(problem)
    return blueprint


def import_packages(modules: Iterable[str], env_id: str = "") -> None:
    """Import the modules of `--gym-packages`: they register environments and may define classes.

    An environment id may name a module, too: "package:Name-v0".

    The user named them, so they are trusted. The working directory is searched last, so that a module beside
    the user is found and shadows nothing.

    :raises UserError: there is no such module
    """
    modules = _with_package_of(modules, env_id)
    trust(modules)
    _import_packages(modules)


def import_packages_of(where: str, modules: Iterable[str], env_id: str) -> None:
    """Import the modules that a file names with an environment, as `import_packages`, if they are trusted.

    That a file names a package of environments makes nothing of it trusted that was not before.

    :param where: the file, for the error
    :raises UserError: it names one that is not trusted, or there is no such module
    """
    modules = _with_package_of(modules, env_id)
    require_packages(where, modules)
    _import_packages(modules)


def _import_packages(modules: Iterable[str]) -> None:
    for module in modules:
        search_working_directory()
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise UserError(f"--gym-packages {module}: {error}") from None
        except Exception as error:
            raise UserError(f"--gym-packages {module}: {type(error).__name__}: {error}") from error


def _with_package_of(modules: Iterable[str], env_id: str) -> list[str]:
    return [*modules, *filter(None, [package_of(env_id)])]


def _check_policy(blueprint: Blueprint) -> None:
    """The policy is known and has its keywords; the notices about old ones come when it is made."""
    algorithm: Any = blueprint.algorithm
    policy_class = get_policy_class(algorithm.policy_family, blueprint.policy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            keywords = policy_keywords(policy_class, blueprint.policy_kwargs)
        except UserError as error:
            raise UserError(f"policy_kwargs: {error}") from None
    check_arguments("policy_kwargs", policy_class, keywords, also_known=keywords)


def _policy(value: Any, own: bool) -> Any:
    """A registered name stays a name; a dotted one is a class of the user."""
    if isinstance(value, Name):
        return load_class(value.path, "policy", own)
    if isinstance(value, type):
        return require_kind(value, "policy")
    if not isinstance(value, str):
        raise UserError(f"policy must be a text such as MlpPolicy, not {value!r}")
    return load_class(value, "policy", own) if "." in value else value


def classes(key: str, value: Any, own: bool = True) -> tuple[Class, ...]:
    """A class by its dotted name or itself, `{class: {kwargs}}`, or a list of those."""
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return tuple(item for entry in value for item in classes(key, entry, own))
    if isinstance(value, Name):
        return ((load_class(value.path, key, own), {}),)
    if isinstance(value, str):
        return ((load_class(value, key, own), {}),)
    if isinstance(value, type):
        return ((require_kind(value, key), {}),)
    if isinstance(value, Mapping) and len(value) == 1:
        ((path, kwargs),) = value.items()
        if isinstance(path, str | type) and (kwargs is None or isinstance(kwargs, Mapping)):
            found = require_kind(path, key) if isinstance(path, type) else load_class(path, key, own)
            path = str(plain(path))
            kwargs = resolve(dict(kwargs or {}), own)
            check_arguments(f"{key} {path}", found, kwargs)
            check_places(f"{key} {path}", kwargs, own, path)
            return ((found, kwargs),)
    raise UserError(
        f"{key} must be a dotted name, {{name: {{argument: value}}}} or a list of those, not {value!r}"
    )


def check_arguments(
    where: str, function: Callable[..., Any], kwargs: Mapping[str, Any], also_known: Iterable[str] = ()
) -> None:
    """Check that a function has these keywords, and that plain values are of the types it declares.

    :param also_known: further keywords, which somebody else takes
    :raises UserError: names the nearest keyword, or the value and its type
    """
    parameters = dict(inspect.signature(function).parameters)
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if isinstance(function, type):  # its base classes may declare what it passes on
        parameters = {**constructor_parameters(function), **parameters}
    for key, value in kwargs.items():
        if key in parameters:
            annotation = str(parameters[key].annotation)
            if set(annotation.split(" | ")) <= PLAIN:
                check_value(f"{where}: {key}", value, annotation)
        elif not open_ended and key not in also_known:
            raise unknown(f"argument of {where}", key, {*parameters, *also_known})


def construct(where: str, build: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a class that the hyperparameters name.

    :raises UserError: it raised; its author is the reader
    """
    try:
        return build(*args, **kwargs)
    except (UserError, RunFailed):
        raise
    except Exception as error:
        name = getattr(build, "__qualname__", repr(build))
        raise UserError(f"{where} {name}: {type(error).__name__}: {error}") from error


def normalisation(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Arguments of VecNormalize; the discount of its return estimate is the algorithm's unless given."""
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


def _monitor_kwargs(values: Mapping[str, Any], own: bool) -> dict[str, Any]:
    kwargs = _mapping(values, "monitor_kwargs")
    check_places("monitor_kwargs", kwargs, own)
    return kwargs


def _mapping(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = values.get(key)
    if isinstance(value, str):
        value = parse_value(value)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UserError(f"{key} must be a mapping such as {{name: value}}, not {value!r}")
    return dict(value)


def _count(values: Mapping[str, Any], key: str, default: int) -> int:
    value = values.get(key, default)
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0
    if not whole or (key in values and value < 1):
        raise UserError(f"{key} must be a whole number of at least 1, not {value!r}")
    return int(value)

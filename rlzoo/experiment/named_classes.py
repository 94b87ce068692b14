"""Classes that hyperparameters name, by dotted names: which may be imported, and what each must be.

What the user writes (flags, `-conf`, the Python API) may name classes of rlzoo and of installed packages;
what other files hold (run folders, lists, studies) only those of rlzoo, `gymnasium.wrappers` and packages of
environments. Either may name what the user trusts.

`rlzoo.io.trust` says what is trusted. Everywhere a name must be that of a class of the kind that its key
wants, so that no function is called. Values from files may not say where anything is written.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import gymnasium as gym
from torch import nn
from torch.optim import Optimizer

from rlzoo.algorithms.hyperparameters import check_value
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.callbacks.base_callback import BaseCallback
from rlzoo.config.class_names import class_path
from rlzoo.config.values_as_text import WRAPPER_KEYS, Name, plain
from rlzoo.core.errors import RunFailed, UserError, unknown
from rlzoo.core.signatures import constructor_parameters
from rlzoo.envs.single_env.registration import (
    FAMILIES,
    is_of_environments,
    not_installed,
    package_of,
    require_packages,
)
from rlzoo.envs.vec_env.vec_env import VecEnvWrapper
from rlzoo.experiment.resolved_config import Class
from rlzoo.io.trust import is_in_working_directory, is_trusted, trust

T = TypeVar("T")
TRUSTED_PREFIXES = ("rlzoo.", "torch.nn.", "torch.optim.", "gymnasium.wrappers.")
KINDS: dict[str, tuple[type, ...]] = {  # key -> what a class under it must be derived from
    "env_wrapper": (gym.Wrapper,),
    "vec_env_wrapper": (VecEnvWrapper,),
    "callback": (BaseCallback,),
    "policy": (nn.Module,),
    "activation_fn": (nn.Module,),
    "features_extractor_class": (nn.Module,),
    "optimizer_class": (Optimizer,),
    "replay_buffer_class": (ReplayBuffer,),
}
OTHER = (nn.Module, Optimizer, ReplayBuffer)
CHECKED_TYPES = {"bool", "int", "float", "str", "None"}  # annotations that values are checked against
PLACE = re.compile("(^|_)(path|folder|dir|directory|file|filename)$")
"""Names of arguments that say where something is written, or read."""


def load_class(path: str, key: str, trusted: bool = True) -> type:
    """Import the class with a dotted name (old paths included) or a public name of rlzoo.

    :param key: the key of the name, such as `env_wrapper`
    :param trusted: the user wrote the configuration; False: it comes from a file that may be somebody else's
    :raises UserError: there is no such class, it is none of the kind that `key` wants, or its code is not
        trusted; that is said before anything is imported
    :raises NotInstalled: it is of a package of environments that is missing
    """
    full = class_path(path)
    if not all(part.isidentifier() for part in full.split(".")):
        raise UserError(f"{key} {path!r} is not the dotted name of a class")
    if "." not in full:
        import rlzoo

        if full not in rlzoo.__all__:
            raise unknown(key, path, rlzoo.__all__)
        return require_kind(getattr(rlzoo, full), key, path)
    known = may_be_named(full)
    if not known:
        _require_trust(full, key, path, trusted)
    found = require_kind(_import(full, key, path), key, path)
    if not known:
        trust([full])  # the user named it: workers read it from a file
    return found


def may_be_named(full: str) -> bool:
    """Return whether any file may name this class: its code is of rlzoo, of environments, or trusted."""
    if any(part.startswith("_") for part in full.split(".")):
        return is_trusted(full)
    return full.startswith(TRUSTED_PREFIXES) or is_of_environments(full) or is_trusted(full)


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


def _require_trust(full: str, key: str, path: str, trusted: bool) -> None:
    root = full.split(".")[0]
    if not trusted:
        raise UserError(
            f"{key} {path!r} is code from outside rlzoo, which runs only if you trust it: add --trust {root}"
        )
    if is_in_working_directory(root):
        raise UserError(
            f"{key} {path!r} is code in the working directory, not of an installed package; it runs only if"
            f" you trust it: add --trust {root}"
        )


def _import(full: str, key: str, path: str) -> Any:
    module, _, name = full.rpartition(".")
    search_working_directory()
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name in {family.module for family in FAMILIES}:
            raise not_installed(f"{key} {path!r}", error.name) from None
        raise UserError(f"{key} {path!r}: {error}") from None
    except AttributeError:
        raise unknown(f"{key} in {module}", name, dir(sys.modules[module])) from None


def require_kind(found: object, key: str, path: str = "") -> type:
    """Return a class if it is of the kind that a key wants.

    :param path: what names it, for the error
    :raises UserError: it is of another kind
    """
    path = path or getattr(found, "__qualname__", repr(found))
    kinds = KINDS.get(key, OTHER)
    if isinstance(found, type) and issubclass(found, kinds):
        return found
    wanted = " or ".join(f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in kinds)
    is_what = "a class of another kind" if isinstance(found, type) else f"a {type(found).__name__}"
    raise UserError(f"{key} {path!r} is {is_what}, not a class derived from {wanted}")


def search_working_directory() -> None:
    """Let modules beside the user be found; they shadow nothing, since they come last."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def classes(key: str, value: object, trusted: bool = True) -> tuple[Class, ...]:
    """Return classes with their arguments, from a name, a class, `{class: {kwargs}}` or a list of these."""
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return tuple(item for entry in value for item in classes(key, entry, trusted))
    if isinstance(value, Name):
        return ((load_class(value.path, key, trusted), {}),)
    if isinstance(value, str):
        return ((load_class(value, key, trusted), {}),)
    if isinstance(value, type):
        return ((require_kind(value, key), {}),)
    if isinstance(value, Mapping) and len(value) == 1:
        ((path, kwargs),) = value.items()
        if isinstance(path, str | type) and (kwargs is None or isinstance(kwargs, Mapping)):
            found = require_kind(path, key) if isinstance(path, type) else load_class(path, key, trusted)
            path = str(plain(path))
            kwargs = resolve_names(dict(kwargs or {}), trusted)
            check_arguments(f"{key} {path}", found, kwargs)
            check_places(f"{key} {path}", kwargs, trusted, path)
            return ((found, kwargs),)
    raise UserError(
        f"{key} must be a dotted name, {{name: {{argument: value}}}} or a list of those, not {value!r}"
    )


def check_arguments(
    where: str, function: Callable[..., object], kwargs: Mapping[str, object], also_known: Iterable[str] = ()
) -> None:
    """Check that a function has these keywords, and that plain values are of the types it declares.

    :param also_known: further keywords, which somebody else takes
    :raises UserError: names the nearest keyword, or the value and its type
    """
    if not kwargs:
        return
    parameters = dict(inspect.signature(function).parameters)
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if isinstance(function, type):  # its base classes may declare what it passes on
        parameters = {**constructor_parameters(function), **parameters}
    for key, value in kwargs.items():
        if key in parameters:
            annotation = str(parameters[key].annotation)
            if set(annotation.split(" | ")) <= CHECKED_TYPES:
                check_value(f"{where}: {key}", value, annotation)
        elif not open_ended and key not in also_known:
            raise unknown(f"argument of {where}", key, {*parameters, *also_known})


def construct(where: str, build: Callable[..., T], *args: object, **kwargs: object) -> T:
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


def import_packages(modules: Iterable[str], env_id: str = "") -> None:
    """Import the modules of `--gym-packages`: they register environments and may define classes.

    An environment id may name a module, too: "package:Name-v0".

    The user named them, so they are trusted. The working directory is searched last, so that a module beside
    the user is found and shadows nothing.

    :raises UserError: there is no such module
    """
    if modules := _with_package_of(modules, env_id):
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

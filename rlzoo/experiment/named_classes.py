"""Classes that hyperparameters name, by dotted names: which may be imported, and what each must be.

What the user writes (flags, `-conf`, the Python API) may name classes of rlzoo and of installed packages;
what other files hold (run folders, lists, studies) only those of rlzoo, `gymnasium.wrappers` and packages of
environments. Either may name what the user trusts.

`rlzoo.io.trust` says what is trusted. Everywhere a name must be that of a class of the kind that its key
wants, so that no function is called. Values from files may not say where anything is written.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium as gym
from torch import nn
from torch.optim import Optimizer

from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.callbacks.base_callback import BaseCallback
from rlzoo.config.class_names import class_path
from rlzoo.core.errors import RunFailed, UserError, nearest, unknown
from rlzoo.envs.single_env.env_failures import describe
from rlzoo.envs.single_env.registration import (
    FAMILIES,
    is_of_environments,
    not_installed,
    search_working_directory,
)
from rlzoo.envs.vec_env.vec_env import VecEnvWrapper
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
ABSTRACT = (gym.Wrapper, VecEnvWrapper, BaseCallback, nn.Module, Optimizer)
"""Classes that are only derived from."""


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
            raise unknown(key, path, _classes_of_rlzoo(key))
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
        raise _unknown_class(key, path, module, name) from None


def _unknown_class(key: str, path: str, module: str, name: str) -> UserError:
    """Return the error for a module without a class; it names the public classes that a key may name."""
    if module == "rlzoo":
        return unknown(f"{key} in rlzoo", name, _classes_of_rlzoo(key))
    here = vars(sys.modules[module]).items()
    if found := [attribute for attribute, item in here if _is_public_class(attribute, item, key)]:
        return unknown(f"{key} in {module}", name, found)
    public = _classes_of_rlzoo(key)
    if match := nearest(name, public):
        return UserError(f"unknown {key} {path!r}; did you mean 'rlzoo.{match}'?")
    return unknown(key, name, public)


def _classes_of_rlzoo(key: str) -> list[str]:
    """Return the public classes of rlzoo that a key may name."""
    import rlzoo

    return [name for name in rlzoo.__all__ if _is_public_class(name, getattr(rlzoo, name), key)]


def _is_public_class(name: str, item: object, key: str) -> bool:
    kinds = KINDS.get(key, OTHER)
    is_class = isinstance(item, type) and issubclass(item, kinds) and item not in ABSTRACT
    return is_class and not name.startswith("_")


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
        raise UserError(f"{where} {name}: {describe(error)}") from error

"""Adapter of environments of the old gym package, the predecessor of Gymnasium."""

from __future__ import annotations

import importlib
import inspect
from typing import cast

import gymnasium as gym

from rlzoo.core.errors import NotInstalled


def is_of_old_gym(env: object) -> bool:
    """Return whether an object is an environment of the old gym package."""
    return any(f"{cls.__module__}.".startswith("gym.") and cls.__name__ == "Env" for cls in type(env).__mro__)


def patch_env(env: gym.Env) -> gym.Env:
    """Return an environment; one of the old gym package is wrapped in shimmy's adapter.

    :raises NotInstalled: the adapter is needed, and shimmy is missing
    """
    if isinstance(env, gym.Env) or not is_of_old_gym(env):
        return env
    try:
        shimmy = importlib.import_module("shimmy")
    except ImportError:
        raise NotInstalled(
            f"{type(env).__name__} is an environment of gym, not of gymnasium: derive its class from"
            " gymnasium.Env, or pip install 'shimmy>=2.0' to have it adapted"
        ) from None
    takes_seed = "seed" in inspect.signature(env.unwrapped.reset).parameters  # from gym 0.26 on
    adapter = shimmy.GymV26CompatibilityV0 if takes_seed else shimmy.GymV21CompatibilityV0
    return cast(gym.Env, adapter(env=env))

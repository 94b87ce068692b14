"""Environments of the gym package, which Gymnasium has replaced."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import gymnasium as gym

from rlzoo.core.errors import NotInstalled


def is_of_old_gym(env: Any) -> bool:
    """Whether an object is an environment of the gym package."""
    return any(f"{cls.__module__}.".startswith("gym.") and cls.__name__ == "Env" for cls in type(env).__mro__)


def patch_env(env: Any) -> Any:
    """Return a Gymnasium environment as it is, and one of gym inside shimmy's adapter.

    Anything else is returned as it is.

    :raises NotInstalled: shimmy is missing
    """
    if isinstance(env, gym.Env) or not is_of_old_gym(env):
        return env
    try:
        shimmy: Any = importlib.import_module("shimmy")
    except ImportError:
        raise NotInstalled(
            f"{type(env).__name__} is an environment of gym, not of gymnasium: derive its class from"
            " gymnasium.Env, or pip install 'shimmy>=2.0' to have it adapted"
        ) from None
    takes_seed = "seed" in inspect.signature(env.unwrapped.reset).parameters  # from gym 0.26 on
    return (shimmy.GymV26CompatibilityV0 if takes_seed else shimmy.GymV21CompatibilityV0)(env=env)

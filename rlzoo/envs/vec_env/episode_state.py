"""The episode in progress of one Gymnasium environment, for checkpoints.

An environment can be restored if it has `get_state() -> state` and `set_state(state)`, of plain values and
NumPy arrays, or is one of Gymnasium's classic-control tasks. So can a wrapper, and each of those below, whose
attributes are known.
"""

from __future__ import annotations

import inspect
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from rlzoo.envs.single_env.monitor import Monitor

CLASSIC_CONTROL = "gymnasium.envs.classic_control."
ATTRIBUTES: dict[type, tuple[str, ...]] = {
    Monitor: ("_return", "_length", "_total_steps", "needs_reset", "_reset_values"),
    OrderEnforcing: ("_has_reset",),
    PassiveEnvChecker: ("checked_reset", "checked_step"),
    TimeLimit: ("_elapsed_steps",),
}
"""Of wrappers: what of an episode each holds."""


def episode_state(env: gym.Env[Any, Any]) -> list[Any] | None:
    """Return the state of each wrapper, outermost first, and of the environment.

    None where one of them cannot be restored.
    """
    layers: list[Any] = []
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        layers.append(_layer_state(layer))
        layer = layer.env
    own = _layer_state(layer)
    if own is None or None in layers:
        return None
    generator = getattr(layer, "_np_random", None)
    random = None if generator is None else [generator.bit_generator.state, layer._np_random_seed]
    return [*layers, {"name": type(layer).__name__, "state": own, "random": random}]


def load_episode_state(env: gym.Env[Any, Any], state: list[Any]) -> None:
    """Continue the episode that `episode_state` returned, after a `reset`.

    :raises ValueError: it is that of another environment
    """
    layer: Any = env
    for saved in state[:-1]:
        if not isinstance(layer, gym.Wrapper):
            raise ValueError(f"{type(layer).__name__} is where a wrapper was")
        _load_layer(layer, saved)
        layer = layer.env
    last = state[-1]
    if last["name"] != type(layer).__name__:
        raise ValueError(f"the environment is {type(layer).__name__}, not {last['name']}")
    _load_layer(layer, last["state"])
    if last["random"] is not None:
        layer.np_random.bit_generator.state, layer._np_random_seed = last["random"]


def _layer_state(layer: Any) -> dict[str, Any] | None:
    if (names := _attributes(layer)) is not None:
        state: dict[str, Any] = {"attributes": {name: getattr(layer, name) for name in names}}
        if isinstance(layer, Monitor) and layer.results_writer is not None:
            state["rows"] = layer.results_writer.n_rows
        return state
    return {"own": layer.get_state()} if _has_state(layer) else None


def _load_layer(layer: Any, saved: dict[str, Any]) -> None:
    if "own" in saved:
        layer.set_state(saved["own"])
        return
    for name in _attributes(layer) or ():
        setattr(layer, name, saved["attributes"][name])
    if "rows" in saved and layer.results_writer is not None:
        layer.results_writer.truncate(saved["rows"])


def _attributes(layer: Any) -> tuple[str, ...] | None:
    """The attributes that hold the episode of a known class, else None."""
    if type(layer) in ATTRIBUTES:
        return ATTRIBUTES[type(layer)]
    if type(layer).__module__.startswith(CLASSIC_CONTROL):
        return tuple(name for name in ("state", "steps_beyond_terminated", "last_u") if name in vars(layer))
    return None


def _has_state(layer: Any) -> bool:
    """Whether `set_state` takes what `get_state` returns; MuJoCo's `set_state(qpos, qvel)` does not."""
    getter, setter = (getattr(type(layer), name, None) for name in ("get_state", "set_state"))
    if not callable(getter) or not callable(setter):
        return False
    try:
        inspect.signature(getter).bind(layer)
        inspect.signature(setter).bind(layer, None)
    except (TypeError, ValueError):
        return False
    return True

"""Save and restore the episode in progress of one Gymnasium environment, for checkpoints.

An environment or wrapper can be restored if it defines `get_state() -> state` and `set_state(state)`, where
the state consists of plain values and NumPy arrays. Gymnasium's classic-control tasks and the wrappers in
`ATTRIBUTES` can be restored, too.
"""

from __future__ import annotations

import inspect
from typing import Any, TypeAlias

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
"""Attributes in which a wrapper keeps its state of the episode."""
LayerState: TypeAlias = dict[str, Any]  # of one wrapper or of the environment, as in a checkpoint
EnvState: TypeAlias = list[LayerState]  # of each wrapper, outermost first, and of the environment


def episode_state(env: gym.Env) -> EnvState | None:
    """Return the state of each wrapper, outermost first, and of the environment.

    :return: None if one of them cannot be restored
    """
    layers: EnvState = []
    layer = env
    while isinstance(layer, gym.Wrapper):
        if (state := _layer_state(layer)) is None:
            return None
        layers.append(state)
        layer = layer.env
    if (own := _layer_state(layer)) is None:
        return None
    # The public properties would create a generator.
    generator, seed = getattr(layer, "_np_random", None), getattr(layer, "_np_random_seed", None)
    random = None if generator is None else [generator.bit_generator.state, seed]
    return [*layers, {"name": type(layer).__name__, "state": own, "random": random}]


def load_episode_state(env: gym.Env, state: EnvState) -> None:
    """Restore the episode that `episode_state` returned; call `reset` before.

    :raises ValueError: the state is of another environment
    """
    layer = env
    for saved in state[:-1]:
        if not isinstance(layer, gym.Wrapper):
            raise ValueError(f"the state is of a wrapper, but this is {type(layer).__name__}")
        _load_layer(layer, saved)
        layer = layer.env
    last = state[-1]
    if last["name"] != type(layer).__name__:
        raise ValueError(f"the environment is {type(layer).__name__}, not {last['name']}")
    _load_layer(layer, last["state"])
    if last["random"] is not None:
        layer.np_random.bit_generator.state, seed = last["random"]
        set_np_random_seed(layer, seed)


def set_np_random_seed(env: gym.Env, seed: int | None) -> None:
    """Set the seed that an environment reports; Gymnasium has a public property, but no setter."""
    env._np_random_seed = seed


def _layer_state(layer: gym.Env) -> LayerState | None:
    if (names := _attributes(layer)) is not None:
        state: LayerState = {"attributes": {name: getattr(layer, name) for name in names}}
        if isinstance(layer, Monitor) and layer.results_writer is not None:
            state["rows"] = layer.results_writer.n_rows
        return state
    return {"own": layer.get_state()} if _has_state(layer) else None  # type: ignore[attr-defined]


def _load_layer(layer: Any, saved: LayerState) -> None:
    if "own" in saved:
        layer.set_state(saved["own"])
        return
    for name in _attributes(layer) or ():
        setattr(layer, name, saved["attributes"][name])
    if "rows" in saved and layer.results_writer is not None:
        layer.results_writer.truncate(saved["rows"])


def _attributes(layer: gym.Env) -> tuple[str, ...] | None:
    """Return the attributes that hold the episode's state, if the class is known."""
    if type(layer) in ATTRIBUTES:
        return ATTRIBUTES[type(layer)]
    if type(layer).__module__.startswith(CLASSIC_CONTROL):
        return tuple(name for name in ("state", "steps_beyond_terminated", "last_u") if name in vars(layer))
    return None


def _has_state(layer: gym.Env) -> bool:
    """Return whether `set_state` accepts what `get_state` returns; MuJoCo's takes (qpos, qvel)."""
    getter, setter = (getattr(type(layer), name, None) for name in ("get_state", "set_state"))
    if not callable(getter) or not callable(setter):
        return False
    try:
        inspect.signature(getter).bind(layer)
        inspect.signature(setter).bind(layer, None)
    except (TypeError, ValueError):
        return False
    return True

"""Which actions an environment allows: asked through every wrapper and vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError, unknown
from rlzoo.core.spaces import choice_counts
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.gym_vector import GymVectorEnv
from rlzoo.envs.vec_env.vec_env import VecEnv

METHOD = "action_masks"
"""What environments call the method that tells their masks."""


class ActionMasker(gym.Wrapper[Any, Any, Any, Any]):
    """Gives an environment that knows its masks under another name an `action_masks` method.

    :param action_mask_fn: called with `env`, or the name of a method of it; returns bool [n_choices], where
        True is allowed
    """

    def __init__(self, env: gym.Env[Any, Any], action_mask_fn: str | Callable[[Any], Any]) -> None:
        super().__init__(env)
        if isinstance(action_mask_fn, str):
            if not env.has_wrapper_attr(action_mask_fn):
                raise unknown("method for ActionMasker", action_mask_fn, dir(env.unwrapped))
            method = env.get_wrapper_attr(action_mask_fn)
            if not callable(method):
                raise UserError(f"ActionMasker: {action_mask_fn!r} of the environment is not a method")
            self._ask: Callable[[], Any] = method
        elif callable(action_mask_fn):
            self._ask = lambda: action_mask_fn(self.env)
        else:
            raise UserError(f"ActionMasker needs a function or the name of a method, not {action_mask_fn!r}")

    def action_masks(self) -> np.ndarray:
        """Which choices are allowed now, bool [n_choices]."""
        return np.asarray(self._ask(), bool)


def is_masking_supported(env: Any) -> bool:
    """Whether the environment, or each of a vector of them, can say which actions it allows."""
    if isinstance(env, VecEnv):
        return _whole_vectors_method(env) is not None or env.has_attr(METHOD)
    return bool(env.has_wrapper_attr(METHOD)) and callable(env.get_wrapper_attr(METHOD))


def get_action_masks(env: Any) -> np.ndarray:
    """What is allowed now: bool array [n_choices], for a vector [n_envs, n_choices].

    For MultiDiscrete the choices of all dimensions stand side by side; for MultiBinary each bit has two, no
    and yes.

    :raises UserError: the environment does not say, says something of another shape, or forbids everything
    """
    masks = mask_reader(env)()
    return masks if isinstance(env, VecEnv) else masks[0]


def mask_reader(env: Any) -> Callable[[], np.ndarray]:
    """What answers, each time it is called, with the masks [n_envs, n_choices] of that moment.

    Made once per rollout: what can be looked up beforehand is not looked up at every step.

    :raises UserError: the environment does not say; for errors of the answer see `checked_masks`
    """
    if not is_masking_supported(env):
        raise UserError(
            f"the environment has no {METHOD}() method: add one, wrap the environment in ActionMasker,"
            " or do without masks (use_masking=False)"
        )
    ask: Callable[[], Any]
    if not isinstance(env, VecEnv):
        methods, n_envs = [env.get_wrapper_attr(METHOD)], 1
        ask = lambda: [method() for method in methods]  # noqa: E731
    else:
        n_envs = env.num_envs
        if (whole := _whole_vectors_method(env)) is not None:
            ask = whole
        elif isinstance(env.unwrapped, DummyVecEnv):  # in this process
            methods = env.get_attr(METHOD)
            ask = lambda: [method() for method in methods]  # noqa: E731
        else:
            ask = lambda: env.env_method(METHOD)  # noqa: E731
    return lambda: checked_masks(ask(), env.action_space, n_envs)


def _whole_vectors_method(env: VecEnv) -> Callable[[], Any] | None:
    """The method of a vector that answers for all its environments at once, where it has one."""
    method = getattr(env, METHOD, None)
    if method is None and isinstance(env.unwrapped, GymVectorEnv):
        method = getattr(env.unwrapped.env, METHOD, None)
    return method if callable(method) else None


def checked_masks(masks: Any, action_space: spaces.Space[Any], n_rows: int) -> np.ndarray:
    """Masks as an array, bool [n_rows, n_choices].

    :raises UserError: masks of another shape, or one that leaves nothing to choose
    """
    counts = choice_counts(action_space)
    try:
        array = np.array(masks, bool)
    except ValueError:  # rows of different lengths
        array = np.empty(0, bool)
    expected = (n_rows, sum(counts))
    if array.shape != expected:
        raise UserError(
            f"action masks must have the shape {expected}, one entry for each choice of "
            f"{action_space}, not {array.shape}"
        )
    if len(counts) == 1:
        left = array.any(axis=1)
    else:
        left = np.logical_or.reduceat(array, np.cumsum([0, *counts[:-1]]), axis=1)  # [n_rows, n_dimensions]
    if not left.all():
        row, *dimension = (int(index) for index in np.argwhere(~left)[0])
        of = f" of dimension {dimension[0]}" if dimension else ""
        raise UserError(
            f"the action mask of environment {row} forbids every choice{of}; at least one must be allowed"
        )
    return array

"""Action masks: which actions an environment allows in its current state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.core import ActType, ObsType

from rlzoo.core.errors import UserError, unknown
from rlzoo.core.preprocessing import choice_counts
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.gym_vector import GymVectorEnv
from rlzoo.envs.vec_env.vec_env import VecEnv

METHOD = "action_masks"
"""Name of the method of environments that returns their mask."""
AnyEnv: TypeAlias = gym.Env | VecEnv


class ActionMasker(gym.Wrapper[ObsType, ActType, ObsType, ActType]):
    """Add the method `action_masks()` to an environment, as MaskablePPO needs it.

    >>> def right_only(env):
    ...     return [False, True]
    >>> env = ActionMasker(gym.make("CartPole-v1"), right_only)
    >>> model = MaskablePPO("MlpPolicy", env)

    :param env: the environment
    :param action_mask_fn: a function that is called with `env`, or the name of a method of `env`; returns
        bool [n_choices], True for allowed actions
    :raises UserError: neither a function nor the name of a method
    """

    def __init__(
        self,
        env: gym.Env[ObsType, ActType],
        action_mask_fn: str | Callable[[gym.Env[ObsType, ActType]], npt.ArrayLike],
    ) -> None:
        super().__init__(env)
        if isinstance(action_mask_fn, str):
            if not env.has_wrapper_attr(action_mask_fn):
                raise unknown("method for ActionMasker", action_mask_fn, dir(env.unwrapped))
            method = env.get_wrapper_attr(action_mask_fn)
            if not callable(method):
                raise UserError(f"ActionMasker: {action_mask_fn!r} of the environment is not a method")
            self._mask: Callable[..., npt.ArrayLike] = method
            self._arguments: tuple[gym.Env[ObsType, ActType], ...] = ()
        elif callable(action_mask_fn):
            self._mask, self._arguments = action_mask_fn, (self.env,)  # a copy has that of its own
        else:
            raise UserError(f"ActionMasker needs a function or the name of a method, not {action_mask_fn!r}")

    def action_masks(self) -> np.ndarray:
        """Return which choices are allowed in the current state, bool [n_choices]."""
        return np.asarray(self._mask(*self._arguments), bool)


def is_masking_supported(env: AnyEnv) -> bool:
    """Return whether an environment (or each of a VecEnv) has the method `action_masks()`."""
    if isinstance(env, VecEnv):
        return _method_of_all_envs(env) is not None or env.has_attr(METHOD)
    return bool(env.has_wrapper_attr(METHOD)) and callable(env.get_wrapper_attr(METHOD))


def get_action_masks(env: AnyEnv) -> np.ndarray:
    """Return the current action mask, bool [n_choices], or [n_envs, n_choices] of a VecEnv.

    The masks of all dimensions of a MultiDiscrete are concatenated; each bit of a MultiBinary has two choices
    (0, 1).

    >>> env = InvalidActionEnvDiscrete()
    >>> model = MaskablePPO("MlpPolicy", env)
    >>> obs, _ = env.reset()
    >>> action, _ = model.predict(obs, action_masks=get_action_masks(env))

    :raises UserError: the environment has no masks, or one of another shape or without an allowed action
    """
    masks = mask_reader(env)()
    return masks if isinstance(env, VecEnv) else masks[0]


def mask_reader(env: AnyEnv) -> Callable[[], np.ndarray]:
    """Return a function that returns the current masks, bool [n_envs, n_choices].

    Methods are looked up once, here, and not at every step.

    :raises UserError: the environment has no masks; the function raises the errors of `checked_masks`
    """
    if not is_masking_supported(env):
        raise UserError(
            f"the environment has no {METHOD}() method: add one, wrap the environment in ActionMasker,"
            " or do without masks (use_masking=False)"
        )
    read: Callable[[], npt.ArrayLike]
    if not isinstance(env, VecEnv):
        methods, n_envs = [env.get_wrapper_attr(METHOD)], 1
        read = lambda: [method() for method in methods]  # noqa: E731
    else:
        n_envs = env.num_envs
        if (of_all := _method_of_all_envs(env)) is not None:
            read = of_all
        elif isinstance(env.unwrapped, DummyVecEnv):  # in this process
            methods = env.get_attr(METHOD)
            read = lambda: [method() for method in methods]  # noqa: E731
        else:
            read = lambda: env.env_method(METHOD)  # noqa: E731
    return lambda: checked_masks(read(), env.action_space, n_envs)


def _method_of_all_envs(env: VecEnv) -> Callable[[], npt.ArrayLike] | None:
    """Return the method of a VecEnv for the masks of all environments at once, if it has one."""
    method = getattr(env, METHOD, None)
    if method is None and isinstance(env.unwrapped, GymVectorEnv):
        method = getattr(env.unwrapped.env, METHOD, None)
    return method if callable(method) else None


def checked_masks(masks: npt.ArrayLike, action_space: spaces.Space, n_rows: int) -> np.ndarray:
    """Return masks as an array, bool [n_rows, n_choices].

    :raises UserError: another shape, or a row without an allowed action
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

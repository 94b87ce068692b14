"""Does an environment keep Gymnasium's rules, and will learning in it suffer from its spaces?"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import env_checker

from rlzoo.core.errors import UserError
from rlzoo.core.spaces import is_channels_first, is_image_space

SUPPORTED = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
SMALLEST_IMAGE = 36  # pixels; what the convolutions of NatureCNN still fit on
TRIAL_STEPS = 100


def check_env(env: gym.Env[Any, Any], warn: bool = True, skip_render_check: bool = True) -> None:
    """Run Gymnasium's checker, play some random steps, and warn of spaces that hurt learning.

    The environment has been reset and stepped afterwards; it is not closed.

    :param warn: whether to give warnings; errors are raised in any case
    :param skip_render_check: leave out the checks of `render()`
    :raises UserError: for what is no Gymnasium environment, and for returned values that the spaces exclude
    :raises AssertionError: what Gymnasium's checker finds
    """
    if not isinstance(env, gym.Env):
        old = any(base.__module__.split(".")[0] == "gym" for base in type(env).__mro__)
        hint = "; it is one of the old package `gym`: derive it from gymnasium.Env" if old else ""
        raise UserError(f"{type(env).__name__} is not a gymnasium.Env{hint}")
    with warnings.catch_warnings():
        if not warn:
            warnings.simplefilter("ignore")
        # A wrapped environment is what an agent sees: check it as it is.
        warnings.filterwarnings("ignore", message=".*different from the unwrapped version.*")
        env_checker.check_env(env, skip_render_check=skip_render_check, skip_close_check=True)
    _play(env)
    if warn:
        for advice in (*_observation_advice(env.observation_space), *_action_advice(env.action_space)):
            warnings.warn(advice, stacklevel=2)


def _play(env: gym.Env[Any, Any]) -> None:
    """Random steps, over several episodes if they are short; what comes back must fit the spaces."""
    observation, _ = env.reset(seed=0)
    env.action_space.seed(0)
    _check_observation(env, observation, "reset()")
    for number in range(1, TRIAL_STEPS + 1):
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        where = f"step() number {number}"
        _check_observation(env, observation, where)
        numbers = np.asarray(reward, dtype=np.float64)
        if numbers.ndim > 0 or not np.isfinite(numbers):
            raise UserError(f"{where} returned the reward {reward!r}: it must be one finite number")
        if hasattr(env.unwrapped, "compute_reward"):
            _check_goal_reward(env, observation, float(reward), info, where)
        if terminated or truncated:
            observation, _ = env.reset()
            _check_observation(env, observation, "reset()")


def _check_observation(env: gym.Env[Any, Any], observation: Any, where: str) -> None:
    for name, part in _leaves(observation):
        if isinstance(part, np.ndarray | float) and not np.isfinite(part).all():
            raise UserError(f"{where} returned an observation{name} with NaN or infinity: {part!r}")
    if not env.observation_space.contains(observation):
        raise UserError(
            f"{where} returned an observation outside of {env.observation_space}: {observation!r}"
        )


def _leaves(observation: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(observation, dict):
        for key, part in observation.items():
            yield from _leaves(part, f"{name}[{key!r}]")
    else:
        yield name, observation


def _check_goal_reward(
    env: gym.Env[Any, Any], observation: Any, reward: float, info: dict[str, Any], where: str
) -> None:
    """The reward must follow from the goals, since hindsight replay computes it anew for other goals."""
    if not isinstance(observation, dict) or not {"achieved_goal", "desired_goal"} <= set(observation):
        raise UserError(
            "an environment with compute_reward() needs Dict observations with achieved_goal and desired_goal"
        )
    goals = observation["achieved_goal"], observation["desired_goal"]
    computed = float(env.unwrapped.compute_reward(*goals, info))  # type: ignore[attr-defined]
    if not np.isclose(computed, reward):
        raise UserError(f"{where} returned the reward {reward}, but compute_reward() says {computed}")


def _observation_advice(space: spaces.Space[Any], name: str = "") -> Iterator[str]:
    subject = f"observation{name}"
    if isinstance(space, spaces.Dict) and not name:
        for key, part in space.spaces.items():
            yield from _observation_advice(part, f"[{key!r}]")
    elif not isinstance(space, SUPPORTED):
        nested = " inside a Dict" if name else ""
        yield (
            f"{subject}: no policy takes {type(space).__name__}{nested}; use one Dict of Box, Discrete,"
            " MultiDiscrete and MultiBinary, or gymnasium.wrappers.FlattenObservation"
        )
    elif isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and np.any(space.start != 0):
        yield f"{subject}: counts from {space.start}; discrete spaces should count from 0"
    elif isinstance(space, spaces.Box):
        yield from _box_advice(space, subject)


def _box_advice(space: spaces.Box, subject: str) -> Iterator[str]:
    if len(space.shape) == 3:
        yield from _image_advice(space, subject)
    elif len(space.shape) > 3 or len(space.shape) == 2:
        yield (
            f"{subject}: shape {space.shape} is neither a vector nor an image with channels; it will be"
            " flattened to a vector"
        )
    elif space.dtype == np.uint8:
        yield f"{subject}: bytes that are no image are not scaled; a float in [-1, 1] is learned faster"


def _image_advice(space: spaces.Box, subject: str) -> Iterator[str]:
    if space.dtype != np.uint8:
        yield f"{subject}: looks like an image but has dtype {space.dtype}; CnnPolicy expects uint8"
    if np.any(space.low != 0) or np.any(space.high != 255):
        yield f"{subject}: looks like an image but has another range than [0, 255], which CnnPolicy expects"
    first = is_channels_first(space)
    height, width = space.shape[1:] if first else space.shape[:2]
    if is_image_space(space) and not is_image_space(space, check_channels=True):
        yield (
            f"{subject}: an image of shape {space.shape} has 1, 3 or 4 channels neither first nor last;"
            " stack frames with VecFrameStack instead"
        )
    elif min(height, width) < SMALLEST_IMAGE:
        yield (
            f"{subject}: an image of {height}x{width} pixels is smaller than the"
            f" {SMALLEST_IMAGE}x{SMALLEST_IMAGE} that NatureCNN needs; use an extractor of your own"
        )


def _action_advice(space: spaces.Space[Any]) -> Iterator[str]:
    if not isinstance(space, SUPPORTED):
        yield (
            f"action: no policy gives {type(space).__name__}; use Box, Discrete, MultiDiscrete or MultiBinary"
        )
    elif isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and np.any(space.start != 0):
        yield f"action: counts from {space.start}; discrete spaces should count from 0"
    elif isinstance(space, spaces.Box):
        if not space.is_bounded():
            yield "action: the Box has no bounds, so actions cannot be clipped or scaled; use [-1, 1]"
        elif np.any(space.low != -space.high):
            yield (
                "action: the Box is not symmetric, but Gaussian actions start around 0; rescale it to [-1, 1]"
            )
        elif np.any(space.high != 1):
            yield (
                "action: the Box is not [-1, 1], the size of a Gaussian policy's first actions; rescale it"
                " (gymnasium.wrappers.RescaleAction)"
            )
        if space.dtype != np.float32:
            yield f"action: the Box has dtype {space.dtype}; policies give float32"

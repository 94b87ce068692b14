"""Check that an environment follows the Gymnasium API and suits training."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import SupportsFloat, TypeAlias, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence

from rlzoo.core.errors import InvalidEnvironment, UnknownArgument
from rlzoo.core.observations import Info
from rlzoo.envs.single_env.check_spaces import action_advice, action_problems, observation_advice
from rlzoo.envs.single_env.check_values import (
    is_fatal,
    observation_problems,
    outcome_problems,
    reset_problems,
    step_problems,
)
from rlzoo.envs.single_env.goal_env import GOAL_KEYS
from rlzoo.envs.single_env.old_gym import is_of_old_gym

TRIAL_STEPS = 100
StepResult: TypeAlias = tuple[object, SupportsFloat, bool, bool, Info]


def check_env(env: gym.Env, warn: bool = True, skip_render_check: bool = True) -> None:
    """Check that an environment follows the Gymnasium API, in 100 random steps; warn of what hurts training.

    Spaces, the first reset and the first step must follow the API; one error lists all violations. Later
    steps raise only for values that training cannot use, and warn of other violations. A reset that ignores
    its seed is a warning. The environment is reset and stepped, but not closed. See also
    `gymnasium.utils.env_checker.check_env`, which is stricter in other ways.

    :param env: a Gymnasium environment
    :param warn: whether to warn; errors are raised in any case
    :param skip_render_check: do not call `render()`
    :raises InvalidEnvironment: not a Gymnasium environment, or one that violates the API (an AssertionError)
    :raises UnknownArgument: `reset()` has no argument `seed` (a TypeError)

    >>> check_env(gym.make("CartPole-v1"))
    """
    _check_kind(env)
    problems = [*action_problems(env.action_space), *_goal_space_problems(env)]
    if warn:
        _warn((*observation_advice(env.observation_space), *action_advice(env.action_space)))
    _check_first_values(env, problems)
    advice = [*_seed_advice(env), *_play(env)]
    if not skip_render_check:
        advice += _render_advice(env)
    if warn:
        _warn(advice)


def _warn(advice: Iterable[str]) -> None:
    for text in dict.fromkeys(advice):
        warnings.warn(text, stacklevel=3)


def _refuse(problems: list[str], cause: Exception | None = None) -> None:
    """Raise InvalidEnvironment with all problems, if there are any."""
    if len(problems) == 1:
        raise InvalidEnvironment(problems[0]) from cause
    if problems:
        listed = "\n".join(f"- {problem}" for problem in problems)
        raise InvalidEnvironment(f"{len(problems)} problems of the environment:\n{listed}") from cause


def _check_kind(env: object) -> None:
    """Raise InvalidEnvironment unless this is a Gymnasium environment with Gymnasium spaces."""
    if not isinstance(env, gym.Env):
        old = "; it is one of the old package `gym`: derive it from gymnasium.Env, or convert it with shimmy"
        hint = old if is_of_old_gym(env) else ""
        kind = f"the class {env.__name__}" if isinstance(env, type) else type(env).__name__
        raise InvalidEnvironment(f"{kind} is not a gymnasium.Env{hint}")
    for name in ("observation_space", "action_space"):
        space = getattr(env, name, None)
        if not isinstance(space, spaces.Space):
            is_old = type(space).__module__.split(".")[0] == "gym"
            given = "a space of the old package `gym`" if is_old else repr(space)
            raise InvalidEnvironment(
                f"{name} must be a space of gymnasium.spaces, set in __init__(); it is {given}"
            )


def _is_goal_env(env: gym.Env) -> bool:
    return hasattr(env.unwrapped, "compute_reward")


def _goal_space_problems(env: gym.Env) -> Iterator[str]:
    space = env.observation_space
    if _is_goal_env(env) and not (isinstance(space, spaces.Dict) and set(GOAL_KEYS) <= space.spaces.keys()):
        yield (
            f"an environment with compute_reward() needs Dict observations with {', '.join(GOAL_KEYS)}, not"
            f" {space}; give that method another name if these are no goals"
        )


def _reset(env: gym.Env) -> object:
    """Reset; raise UnknownArgument if `reset()` has no argument `seed`."""
    try:
        return env.reset(seed=0)
    except TypeError as error:
        if "'seed'" not in str(error):
            raise
        raise UnknownArgument(
            "reset() must take a seed: def reset(self, *, seed=None, options=None)"
        ) from error


def _check_first_values(env: gym.Env, problems: list[str]) -> None:
    """Reset and step once; raise if the returned values violate the API.

    :param problems: errors of the spaces
    :raises InvalidEnvironment: lists these and the errors of the values
    """
    problems = [*problems, *reset_problems(env.observation_space, _reset(env))]
    env.action_space.seed(0)
    try:
        returned = env.step(env.action_space.sample())
    except Exception as error:
        _refuse(problems, error)  # which may have caused the failure
        raise
    problems += step_problems(env.observation_space, returned)
    _refuse(problems)
    _refuse([*_goal_reward_problems(env, returned)])


def _goal_reward_problems(env: gym.Env, returned: StepResult) -> Iterator[str]:
    """Check the reward against `compute_reward`, with which hindsight replay relabels goals."""
    if not _is_goal_env(env):
        return
    observation, reward, _, _, info = returned
    observation = cast("dict[str, np.ndarray]", observation)
    goals = observation["achieved_goal"], observation["desired_goal"]
    computed = np.asarray(env.unwrapped.compute_reward(*goals, info)).item()  # type: ignore[attr-defined]
    if not np.isclose(computed, float(reward)):
        yield f"step() returned the reward {reward}, but compute_reward() says {computed}"


def _seed_advice(env: gym.Env) -> Iterator[str]:
    first, second = env.reset(seed=0)[0], env.reset(seed=0)[0]
    if not data_equivalence(first, second):
        yield (
            "two resets with the same seed returned different observations, so that runs cannot be repeated;"
            " call super().reset(seed=seed) and draw from self.np_random"
        )


def _play(env: gym.Env) -> Iterator[str]:
    """Take random steps, over several episodes if they are short; yield warnings.

    :raises InvalidEnvironment: values that training cannot use
    """
    space = env.observation_space
    for number in range(1, TRIAL_STEPS + 1):
        returned = env.step(env.action_space.sample())
        problems = [*outcome_problems(returned)]
        advice: list[str] = []
        if not problems:
            advice = [*observation_problems(space, returned[0], "step()")]
            if is_fatal(space, returned[0]):
                problems, advice = advice, []
            else:
                problems += _goal_reward_problems(env, returned)
        _refuse([problem.replace("step()", f"step() number {number}") for problem in problems])
        if advice:
            yield advice[0].replace("step()", f"step() number {number}")
            return
        if returned[2] or returned[3]:
            _refuse([*reset_problems(space, env.reset())])


def _render_advice(env: gym.Env) -> Iterator[str]:
    modes = env.metadata.get("render_modes", [])
    if env.render_mode is None:
        return
    if env.render_mode not in modes:
        yield f"render_mode is {env.render_mode!r}, but metadata['render_modes'] has {list(modes)}"
    picture = env.render()
    if env.render_mode == "rgb_array" and not (
        isinstance(picture, np.ndarray) and picture.ndim == 3 and picture.dtype == np.uint8
    ):
        yield "render() with render_mode='rgb_array' must return an array [height, width, 3] of uint8"

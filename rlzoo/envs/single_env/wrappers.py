"""Gymnasium wrappers that hyperparameter files name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsFloat

import cv2
import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError


class TimeFeatureWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Appends the remaining time, from 1 down to 0, to the observation of an environment with a time limit.

    Without it the value of a state depends on something that the agent cannot see: Pardo et al. (2018), "Time
    limits in reinforcement learning".

    :param env: observations are a Box vector, or a Dict with one under "observation" (goal environments)
    :param max_steps: steps of an episode, where no `TimeLimit` around `env` says it
    :param test_mode: the feature is always 0, to see whether the agent only replays a sequence in time
    """

    def __init__(self, env: gym.Env[Any, Any], max_steps: int = 1000, test_mode: bool = False) -> None:
        super().__init__(env)
        space = env.observation_space
        self._in_dict = isinstance(space, spaces.Dict)
        vector = space["observation"] if isinstance(space, spaces.Dict) else space
        if not isinstance(vector, spaces.Box) or len(vector.shape) != 1:
            raise UserError(f"TimeFeatureWrapper needs a Box vector as observation, not {vector}")
        low, high = np.append(vector.low, 0.0), np.append(vector.high, 1.0)
        longer = spaces.Box(low.astype(vector.dtype), high.astype(vector.dtype), dtype=vector.dtype.type)
        self.observation_space = (
            spaces.Dict({**space.spaces, "observation": longer}) if isinstance(space, spaces.Dict) else longer
        )
        self._dtype = vector.dtype
        self._max_steps = _time_limit(env) or max_steps
        self._test_mode = test_mode
        self._step_number = 0

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Reset; the feature is 1."""
        self._step_number = 0
        observation, info = self.env.reset(**kwargs)
        return self._with_time(observation), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; the feature falls by `1 / max_steps`."""
        self._step_number += 1
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._with_time(observation), reward, terminated, truncated, info

    def _with_time(self, observation: Any) -> Any:
        left = 0.0 if self._test_mode else 1.0 - self._step_number / self._max_steps
        if self._in_dict:
            longer = np.append(observation["observation"], left).astype(self._dtype)
            return {**observation, "observation": longer}
        return np.append(observation, left).astype(self._dtype)


def _time_limit(env: gym.Env[Any, Any]) -> int | None:
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, gym.wrappers.TimeLimit):
            return layer._max_episode_steps
        layer = layer.env
    return None


class FrameSkip(gym.Wrapper[Any, Any, Any, Any]):
    """Holds every action for `skip` steps and sums their rewards; returns the last observation."""

    def __init__(self, env: gym.Env[Any, Any], skip: int = 4) -> None:
        super().__init__(env)
        if skip < 1:
            raise UserError(f"FrameSkip: skip must be at least 1, not {skip}")
        self._skip = skip

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step `skip` times, or until the episode ends."""
        total = 0.0
        for _ in range(self._skip):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info


class ResizeObservation(gym.ObservationWrapper[Any, Any, Any]):
    """Images [height, width(, channels)] uint8 get another size, averaged over areas.

    :param shape: new height and width, or one number for both
    """

    def __init__(self, env: gym.Env[Any, Any], shape: int | Sequence[int]) -> None:
        super().__init__(env)
        height, width = (shape, shape) if isinstance(shape, int) else shape
        space = env.observation_space
        if not isinstance(space, spaces.Box) or space.dtype != np.uint8 or len(space.shape) not in (2, 3):
            raise UserError(f"ResizeObservation needs uint8 images as observations, not {space}")
        self._size = (width, height)  # as OpenCV orders it
        self._shape = (height, width, *space.shape[2:])
        self.observation_space = spaces.Box(0, 255, self._shape, np.uint8)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """The image in its new size."""
        resized = cv2.resize(observation, self._size, interpolation=cv2.INTER_AREA)
        return resized.reshape(self._shape)  # OpenCV drops a single channel


class HistoryWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Observes the last `horizon` observations, oldest first, followed by the last `horizon` actions.

    Makes an environment with delays, or without velocities, closer to a Markov decision process. What lies
    before the start of an episode is zero.

    :param env: observations are a Box vector, or a Dict with one under "observation" (goal environments);
        actions are a Box vector
    """

    def __init__(self, env: gym.Env[Any, Any], horizon: int = 2) -> None:
        super().__init__(env)
        space = env.observation_space
        self._in_dict = isinstance(space, spaces.Dict)
        vector = _vector(space["observation"] if isinstance(space, spaces.Dict) else space, "observation")
        actions = _vector(env.action_space, "action")
        if horizon < 1:
            raise UserError(f"HistoryWrapper: horizon must be at least 1, not {horizon}")
        low = np.concatenate([np.tile(vector.low, horizon), np.tile(actions.low, horizon)])
        high = np.concatenate([np.tile(vector.high, horizon), np.tile(actions.high, horizon)])
        longer = spaces.Box(  # zeros stand for what was before the episode
            np.minimum(low, 0).astype(vector.dtype),
            np.maximum(high, 0).astype(vector.dtype),
            dtype=vector.low.dtype.type,
        )
        self.observation_space = (
            spaces.Dict({**space.spaces, "observation": longer}) if isinstance(space, spaces.Dict) else longer
        )
        self._observations = np.zeros((horizon, vector.low.size), vector.dtype)
        self._actions = np.zeros((horizon, actions.low.size), vector.dtype)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Reset; the history is forgotten."""
        observation, info = self.env.reset(**kwargs)
        self._observations[:], self._actions[:] = 0, 0
        return self._with_history(observation), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and remember the action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._actions[:-1] = self._actions[1:]
        self._actions[-1] = action
        return self._with_history(observation), reward, terminated, truncated, info

    def _with_history(self, observation: Any) -> Any:
        self._observations[:-1] = self._observations[1:]
        self._observations[-1] = observation["observation"] if self._in_dict else observation
        history = np.concatenate([self._observations.ravel(), self._actions.ravel()])
        return {**observation, "observation": history} if self._in_dict else history


def _vector(space: spaces.Space[Any], name: str) -> spaces.Box:
    """:raises UserError: the space is no Box of one dimension"""
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise UserError(f"HistoryWrapper needs a Box vector as {name}, not {space}")
    return space


class DelayedRewardWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Pays the rewards of `delay` steps in one sum, at the last of them or where the episode ends."""

    def __init__(self, env: gym.Env[Any, Any], delay: int = 10) -> None:
        super().__init__(env)
        if delay < 1:
            raise UserError(f"DelayedRewardWrapper: delay must be at least 1, not {delay}")
        self._delay = delay
        self._owed = 0.0
        self._steps = 0  # since the last payment

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Reset; nothing is owed."""
        self._owed, self._steps = 0.0, 0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and pay what is owed or nothing."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._owed += float(reward)
        self._steps += 1
        paid = 0.0
        if self._steps == self._delay or terminated or truncated:
            paid, self._owed, self._steps = self._owed, 0.0, 0
        return observation, paid, terminated, truncated, info


class ActionNoiseWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Executes actions with Gaussian noise, clipped to the Box, to see how robust a controller is.

    The noise has a generator of its own, seeded by `reset(seed=...)`: environments with other seeds get
    other noise, and the environment's own random numbers stay what they are.

    :param noise_std: standard deviation, in units of the actions
    """

    def __init__(self, env: gym.Env[Any, Any], noise_std: float = 0.1) -> None:
        super().__init__(env)
        if noise_std < 0:
            raise UserError(f"ActionNoiseWrapper: noise_std must be at least 0, not {noise_std}")
        self._box = _action_box(env, "ActionNoiseWrapper")
        self._noise_std = noise_std
        self._generator = np.random.default_rng()

    def reset(self, *, seed: int | None = None, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Reset; a seed also fixes the noise to come."""
        if seed is not None:
            self._generator = np.random.default_rng(
                [seed, 1]
            )  # the environment has the stream of `seed` alone
        return self.env.reset(seed=seed, **options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step with the action that the noise made of it."""
        box = self._box
        noisy = action + self._generator.normal(0.0, self._noise_std, box.shape)
        return self.env.step(np.clip(noisy, box.low, box.high).astype(box.dtype))


class ActionSmoothingWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Executes a moving average of the actions, which begins at zero.

    :param smoothing_coef: weight of the past, from 0 (none) to below 1
    """

    def __init__(self, env: gym.Env[Any, Any], smoothing_coef: float = 0.0) -> None:
        super().__init__(env)
        if not 0 <= smoothing_coef < 1:
            raise UserError(
                f"ActionSmoothingWrapper: smoothing_coef must be from 0 to below 1, not {smoothing_coef}"
            )
        self._box = _action_box(env, "ActionSmoothingWrapper")
        self._smoothing_coef = smoothing_coef
        self._average = np.zeros(self._box.shape)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Reset; the average is zero."""
        self._average = np.zeros(self._box.shape)
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step with the average."""
        coef = self._smoothing_coef
        self._average = coef * self._average + (1.0 - coef) * np.asarray(action)
        return self.env.step(self._average.astype(self._box.dtype))


def _action_box(env: gym.Env[Any, Any], wrapper: str) -> spaces.Box:
    """:raises UserError: actions are no Box"""
    if not isinstance(env.action_space, spaces.Box):
        raise UserError(f"{wrapper} needs Box actions, not {env.action_space}")
    return env.action_space


class TruncatedOnSuccessWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Truncates an episode after `n_successes` steps in a row whose info says `is_success`.

    :param reward_offset: added to every reward, also to those that hindsight replay computes
    """

    def __init__(self, env: gym.Env[Any, Any], reward_offset: float = 0.0, n_successes: int = 1) -> None:
        super().__init__(env)
        if n_successes < 1:
            raise UserError(f"TruncatedOnSuccessWrapper: n_successes must be at least 1, not {n_successes}")
        self._reward_offset = reward_offset
        self._n_successes = n_successes
        self._successes = 0

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Reset; successes are counted anew."""
        self._successes = 0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and count."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._successes = self._successes + 1 if info.get("is_success", False) else 0
        truncated = truncated or self._successes >= self._n_successes
        return observation, float(reward) + self._reward_offset, terminated, truncated, info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """The reward of goals, with the offset."""
        reward = self.env.get_wrapper_attr("compute_reward")(achieved_goal, desired_goal, info)
        return reward + self._reward_offset

"""Gymnasium wrappers used in hyperparameter files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsFloat, TypeAlias

import cv2
import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.core import ActType, ObsType

from rlzoo.core.errors import UserError
from rlzoo.core.observations import Info

VectorObs: TypeAlias = np.ndarray | dict[str, np.ndarray]
"""A vector, or the dict of a goal-conditioned environment."""


class TimeFeatureWrapper(gym.Wrapper[VectorObs, ActType, VectorObs, ActType]):
    """Append the remaining time, from 1 down to 0, to the observations of an environment with a time limit.

    Without it the value of a state depends on time, which the agent does not observe (Pardo et al. 2018,
    "Time limits in reinforcement learning").

    :param env: observations are a Box vector, or a Dict with one at "observation" (goal environments)
    :param max_steps: length of an episode, if `env` has no `TimeLimit` wrapper
    :param test_mode: make the feature always 0, to test whether the agent relies on it
    :raises UserError: other observations
    """

    def __init__(
        self, env: gym.Env[VectorObs, ActType], max_steps: int = 1000, test_mode: bool = False
    ) -> None:
        super().__init__(env)
        space = env.observation_space
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

    def reset(self, **kwargs: Any) -> tuple[VectorObs, Info]:
        """Reset the environment; the feature is 1."""
        self._step_number = 0
        observation, info = self.env.reset(**kwargs)
        return self._with_time(observation), info

    def step(self, action: ActType) -> tuple[VectorObs, SupportsFloat, bool, bool, Info]:
        """Step the environment; the feature decreases by `1 / max_steps`."""
        self._step_number += 1
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._with_time(observation), reward, terminated, truncated, info

    def _with_time(self, observation: VectorObs) -> VectorObs:
        left = 0.0 if self._test_mode else 1.0 - self._step_number / self._max_steps
        if isinstance(observation, dict):
            longer = np.append(observation["observation"], left).astype(self._dtype)
            return {**observation, "observation": longer}
        return np.append(observation, left).astype(self._dtype)


def _time_limit(env: gym.Env) -> int | None:
    """Return the limit of the outermost TimeLimit wrapper, in steps."""
    layer = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, gym.wrappers.TimeLimit):
            return layer._max_episode_steps  # `spec` has it only for registered environments
        layer = layer.env
    return None


class FrameSkip(gym.Wrapper[ObsType, ActType, ObsType, ActType]):
    """Repeat each action for `skip` steps, and sum the rewards; observations are those of the last step."""

    def __init__(self, env: gym.Env[ObsType, ActType], skip: int = 4) -> None:
        super().__init__(env)
        if skip < 1:
            raise UserError(f"FrameSkip: skip must be at least 1, not {skip}")
        self._skip = skip

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        """Step `skip` times, or until the episode ends."""
        total = 0.0
        for _ in range(self._skip):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info


class ResizeObservation(gym.ObservationWrapper[np.ndarray, ActType, np.ndarray]):
    """Resize images [height, width] or [height, width, channels] uint8 by area averaging.

    :param shape: new height and width, or one number for both
    :raises UserError: observations are no uint8 images
    """

    def __init__(self, env: gym.Env[np.ndarray, ActType], shape: int | Sequence[int]) -> None:
        super().__init__(env)
        height, width = (shape, shape) if isinstance(shape, int) else shape
        space = env.observation_space
        if not isinstance(space, spaces.Box) or space.dtype != np.uint8 or len(space.shape) not in (2, 3):
            raise UserError(f"ResizeObservation needs uint8 images as observations, not {space}")
        self._size = (width, height)  # the order of OpenCV
        self._shape = (height, width, *space.shape[2:])
        self.observation_space = spaces.Box(0, 255, self._shape, np.uint8)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Return the resized image."""
        resized = cv2.resize(observation, self._size, interpolation=cv2.INTER_AREA)
        return resized.reshape(self._shape)  # OpenCV drops the axis of a single channel


class HistoryWrapper(gym.Wrapper[VectorObs, np.ndarray, VectorObs, np.ndarray]):
    """Concatenate the last `horizon` observations, oldest first, and the last `horizon` actions.

    This makes an environment with delays or without velocities closer to a Markov decision process. Entries
    from before the start of an episode are zero.

    :param env: observations are a Box vector, or a Dict with one at "observation" (goal environments);
        actions are a Box vector
    :param horizon: number of steps
    :raises UserError: other observations or actions, or `horizon` < 1
    """

    def __init__(self, env: gym.Env[VectorObs, np.ndarray], horizon: int = 2) -> None:
        super().__init__(env)
        space = env.observation_space
        vector = _vector(space["observation"] if isinstance(space, spaces.Dict) else space, "observation")
        actions = _vector(env.action_space, "action")
        if horizon < 1:
            raise UserError(f"HistoryWrapper: horizon must be at least 1, not {horizon}")
        low = np.concatenate([np.tile(vector.low, horizon), np.tile(actions.low, horizon)])
        high = np.concatenate([np.tile(vector.high, horizon), np.tile(actions.high, horizon)])
        longer = spaces.Box(  # entries from before the episode are zero
            np.minimum(low, 0).astype(vector.dtype),
            np.maximum(high, 0).astype(vector.dtype),
            dtype=vector.low.dtype.type,
        )
        self.observation_space = (
            spaces.Dict({**space.spaces, "observation": longer}) if isinstance(space, spaces.Dict) else longer
        )
        self._observations = np.zeros((horizon, vector.low.size), vector.dtype)
        self._actions = np.zeros((horizon, actions.low.size), vector.dtype)

    def reset(self, **kwargs: Any) -> tuple[VectorObs, Info]:
        """Reset the environment and clear the history."""
        observation, info = self.env.reset(**kwargs)
        self._observations[:], self._actions[:] = 0, 0
        return self._with_history(observation), info

    def step(self, action: np.ndarray) -> tuple[VectorObs, SupportsFloat, bool, bool, Info]:
        """Step the environment; return observation and history."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._actions[:-1] = self._actions[1:]
        self._actions[-1] = action
        return self._with_history(observation), reward, terminated, truncated, info

    def _with_history(self, observation: VectorObs) -> VectorObs:
        self._observations[:-1] = self._observations[1:]
        newest = observation["observation"] if isinstance(observation, dict) else observation
        self._observations[-1] = newest
        history = np.concatenate([self._observations.ravel(), self._actions.ravel()])
        return {**observation, "observation": history} if isinstance(observation, dict) else history


def _vector(space: spaces.Space, name: str) -> spaces.Box:
    """Return the space; raise UserError if it is not a Box vector."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise UserError(f"HistoryWrapper needs a Box vector as {name}, not {space}")
    return space


class DelayedRewardWrapper(gym.Wrapper[ObsType, ActType, ObsType, ActType]):
    """Pay the sum of the rewards of `delay` steps at the last of them, or at the end of the episode."""

    def __init__(self, env: gym.Env[ObsType, ActType], delay: int = 10) -> None:
        super().__init__(env)
        if delay < 1:
            raise UserError(f"DelayedRewardWrapper: delay must be at least 1, not {delay}")
        self._delay = delay
        self._pending_reward = 0.0
        self._steps = 0  # since the last payment

    def reset(self, **kwargs: Any) -> tuple[ObsType, Info]:
        """Reset the environment and the sum."""
        self._pending_reward, self._steps = 0.0, 0
        return self.env.reset(**kwargs)

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        """Step the environment; the reward is the accumulated sum when it is due, else 0."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._pending_reward += float(reward)
        self._steps += 1
        paid = 0.0
        if self._steps == self._delay or terminated or truncated:
            paid, self._pending_reward, self._steps = self._pending_reward, 0.0, 0
        return observation, paid, terminated, truncated, info


class ActionNoiseWrapper(gym.Wrapper[ObsType, np.ndarray, ObsType, np.ndarray]):
    """Add Gaussian noise to actions, clipped to the Box, to test the robustness of a controller.

    The noise has a separate generator, seeded by `reset(seed=...)`, which does not change the random numbers
    of the environment.

    :param noise_std: standard deviation, in units of the actions
    :raises UserError: actions are no Box, or `noise_std` < 0
    """

    def __init__(self, env: gym.Env[ObsType, np.ndarray], noise_std: float = 0.1) -> None:
        super().__init__(env)
        if noise_std < 0:
            raise UserError(f"ActionNoiseWrapper: noise_std must be at least 0, not {noise_std}")
        self._box = _action_box(env, "ActionNoiseWrapper")
        self._noise_std = noise_std
        self._generator = np.random.default_rng()

    def reset(self, *, seed: int | None = None, **options: Any) -> tuple[ObsType, Info]:
        """Reset the environment; a seed also seeds the noise."""
        if seed is not None:
            self._generator = np.random.default_rng([seed, 1])  # `seed` alone is the environment's stream
        return self.env.reset(seed=seed, **options)

    def step(self, action: np.ndarray) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        """Step with the noisy action."""
        box = self._box
        noisy = action + self._generator.normal(0.0, self._noise_std, box.shape)
        return self.env.step(np.clip(noisy, box.low, box.high).astype(box.dtype))


class ActionSmoothingWrapper(gym.Wrapper[ObsType, np.ndarray, ObsType, np.ndarray]):
    """Execute an exponential moving average of the actions, which starts at zero.

    :param smoothing_coef: weight of the previous average, 0 <= smoothing_coef < 1; 0: no smoothing
    :raises UserError: actions are no Box, or `smoothing_coef` is out of range
    """

    def __init__(self, env: gym.Env[ObsType, np.ndarray], smoothing_coef: float = 0.0) -> None:
        super().__init__(env)
        if not 0 <= smoothing_coef < 1:
            raise UserError(
                f"ActionSmoothingWrapper: smoothing_coef must be from 0 to below 1, not {smoothing_coef}"
            )
        self._box = _action_box(env, "ActionSmoothingWrapper")
        self._smoothing_coef = smoothing_coef
        self._average = np.zeros(self._box.shape)

    def reset(self, **kwargs: Any) -> tuple[ObsType, Info]:
        """Reset the environment and the average."""
        self._average = np.zeros(self._box.shape)
        return self.env.reset(**kwargs)

    def step(self, action: np.ndarray) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        """Step with the average of the actions."""
        coef = self._smoothing_coef
        self._average = coef * self._average + (1.0 - coef) * np.asarray(action)
        return self.env.step(self._average.astype(self._box.dtype))


def _action_box(env: gym.Env, wrapper: str) -> spaces.Box:
    """Return the action space; raise UserError if it is not a Box."""
    if not isinstance(env.action_space, spaces.Box):
        raise UserError(f"{wrapper} needs Box actions, not {env.action_space}")
    return env.action_space


class TruncatedOnSuccessWrapper(gym.Wrapper[ObsType, ActType, ObsType, ActType]):
    """Truncate an episode after `n_successes` consecutive steps with `info["is_success"]`.

    :param reward_offset: added to every reward, including those that hindsight replay computes
    :param n_successes: number of successful steps in a row
    :raises UserError: `n_successes` < 1
    """

    def __init__(
        self, env: gym.Env[ObsType, ActType], reward_offset: float = 0.0, n_successes: int = 1
    ) -> None:
        super().__init__(env)
        if n_successes < 1:
            raise UserError(f"TruncatedOnSuccessWrapper: n_successes must be at least 1, not {n_successes}")
        self._reward_offset = reward_offset
        self._n_successes = n_successes
        self._successes = 0

    def reset(self, **kwargs: Any) -> tuple[ObsType, Info]:
        """Reset the environment and the count of successes."""
        self._successes = 0
        return self.env.reset(**kwargs)

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        """Step the environment; truncate the episode if it succeeded."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._successes = self._successes + 1 if info.get("is_success", False) else 0
        truncated = truncated or self._successes >= self._n_successes
        return observation, float(reward) + self._reward_offset, terminated, truncated, info

    def compute_reward(
        self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Info | Sequence[Info]
    ) -> npt.ArrayLike:
        """Return the environment's reward for goals (or batches of them), plus the offset."""
        reward: np.ndarray = self.env.get_wrapper_attr("compute_reward")(achieved_goal, desired_goal, info)
        return reward + self._reward_offset

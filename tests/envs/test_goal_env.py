"""The wrapper that shows the goals of an environment as one vector."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo import BitFlippingEnv, HERGoalEnvWrapper, SimpleMultiObsEnv, UserError
from rlzoo.envs.single_env.goal_env import GOAL_KEYS


class Reach(gym.Env[Any, Any]):
    """Box goals of another width and precision than the observation."""

    def __init__(self, achieved: spaces.Space[Any] | None = None) -> None:
        goal = spaces.Box(-2.0, 2.0, (3,), np.float64)
        self.observation_space = spaces.Dict(
            {
                "desired_goal": goal,
                "achieved_goal": achieved or goal,
                "observation": spaces.Box(-1.0, 1.0, (2, 2), np.float32),
            }
        )
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, False, False, {}

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        return -np.linalg.norm(achieved_goal - desired_goal, axis=-1)


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (BitFlippingEnv(4), spaces.MultiBinary(12)),
        (BitFlippingEnv(4, discrete_obs_space=True), spaces.MultiDiscrete([16, 16, 16])),
        (BitFlippingEnv(4, image_obs_space=True), spaces.Box(0, 255, (3 * 36 * 36,), np.uint8)),
        (
            Reach(),
            spaces.Box(np.array([-1.0] * 4 + [-2.0] * 6), np.array([1.0] * 4 + [2.0] * 6), dtype=np.float64),
        ),
    ],
)
def test_there_and_back(env: gym.Env[Any, Any], expected: spaces.Space[Any]) -> None:
    wrapped = HERGoalEnvWrapper(env)
    assert type(wrapped.observation_space) is type(expected)
    assert wrapped.observation_space.shape == expected.shape
    if isinstance(expected, spaces.Box):
        np.testing.assert_array_equal(wrapped.observation_space.low, expected.low)
        np.testing.assert_array_equal(wrapped.observation_space.high, expected.high)
    obs, _ = wrapped.reset(seed=1)
    assert wrapped.observation_space.contains(obs)
    assert wrapped.observation_space.contains(wrapped.step(1)[0])

    told, _ = env.reset(seed=1)
    vector = wrapped.convert_dict_to_obs(told)
    back = wrapped.convert_obs_to_dict(vector)
    assert tuple(back) == GOAL_KEYS
    for key in GOAL_KEYS:
        np.testing.assert_array_equal(back[key], told[key])
        assert back[key].dtype == env.observation_space[key].dtype
    batch = {key: np.stack([told[key]] * 5) for key in GOAL_KEYS}
    np.testing.assert_array_equal(wrapped.convert_dict_to_obs(batch), np.stack([vector] * 5))
    for key, value in wrapped.convert_obs_to_dict(np.stack([vector] * 5)).items():
        np.testing.assert_array_equal(value, batch[key])


def test_the_order_is_observation_achieved_desired() -> None:
    wrapped = HERGoalEnvWrapper(BitFlippingEnv(2))
    parts = {"desired_goal": [1, 1], "observation": [0, 1], "achieved_goal": [1, 0]}
    assert wrapped.convert_dict_to_obs(parts).tolist() == [0, 1, 1, 0, 1, 1]


def test_rewards_are_those_of_the_environment() -> None:
    wrapped = HERGoalEnvWrapper(gym.wrappers.TimeLimit(Reach(), 10))
    assert wrapped.compute_reward(np.zeros(3), np.array([0.0, 3.0, 4.0]), {}) == -5.0


def test_refusals() -> None:
    with pytest.raises(UserError, match="needs a goal environment"):
        HERGoalEnvWrapper(SimpleMultiObsEnv())
    with pytest.raises(UserError, match="needs a goal environment"):
        HERGoalEnvWrapper(gym.make("CartPole-v1"))
    with pytest.raises(UserError, match=r"one kind .* not Box, MultiBinary, Box"):
        HERGoalEnvWrapper(Reach(achieved=spaces.MultiBinary(3)))
    with pytest.raises(UserError, match="12 numbers was expected, not shape"):
        HERGoalEnvWrapper(BitFlippingEnv(4)).convert_obs_to_dict(np.zeros(11))

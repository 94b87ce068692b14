"""Wrappers that hyperparameter files name."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlzoo.core.errors import UserError
from rlzoo.envs.examples.toy import BitFlippingEnv, FakeImageEnv, IdentityEnv
from rlzoo.envs.single_env.wrappers import FrameSkip, HistoryWrapper, ResizeObservation, TimeFeatureWrapper


class Vector(gym.Env[Any, Any]):
    """Two numbers; never ends."""

    observation_space = gym.spaces.Box(-2.0, 3.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return np.full(2, 3.0, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.full(2, 2.0, np.float32), 1.5, False, False, {}


def test_time_goes_from_one_to_zero() -> None:
    env = TimeFeatureWrapper(Vector(), max_steps=4)
    assert env.observation_space == gym.spaces.Box(
        np.array([-2, -2, 0], np.float32), np.array([3, 3, 1], np.float32)
    )
    for _ in range(2):
        observation, _ = env.reset()
        seen = [observation] + [env.step(0)[0] for _ in range(4)]
        assert [row[-1] for row in seen] == [1.0, 0.75, 0.5, 0.25, 0.0]
        assert all(env.observation_space.contains(row) for row in seen)


def test_time_limit_of_the_environment_counts() -> None:
    env = TimeFeatureWrapper(gym.wrappers.TimeLimit(Vector(), 2), max_steps=1000)
    env.reset()
    assert env.step(0)[0][-1] == 0.5


def test_time_is_zero_in_test_mode() -> None:
    env = TimeFeatureWrapper(Vector(), max_steps=4, test_mode=True)
    assert env.reset()[0][-1] == 0.0
    assert env.step(0)[0][-1] == 0.0


def test_time_in_goal_environments() -> None:
    class Goal(Vector):
        observation_space = gym.spaces.Dict(  # type: ignore[assignment]
            {"observation": Vector.observation_space, "desired_goal": gym.spaces.Discrete(2)}
        )

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            return {"observation": np.zeros(2, np.float32), "desired_goal": 1}, {}

    env = TimeFeatureWrapper(Goal())
    observation, _ = env.reset()
    assert env.observation_space.contains(observation)
    assert observation["observation"].tolist() == [0, 0, 1]


@pytest.mark.parametrize("env", [IdentityEnv(3), FakeImageEnv(), BitFlippingEnv()])
def test_time_needs_a_vector(env: gym.Env[Any, Any]) -> None:
    with pytest.raises(UserError, match="Box vector"):
        TimeFeatureWrapper(env)


class Delayed(gym.Env[Any, Any]):
    """Observations 1, 2, 3, ... with ten times them; a goal environment on request."""

    def __init__(self, in_dict: bool = False) -> None:
        vector = gym.spaces.Box(np.array([1, 2], np.float32), np.array([10, 200], np.float32))
        self.in_dict = in_dict
        self.observation_space = (
            gym.spaces.Dict({"observation": vector, "desired_goal": vector}) if in_dict else vector
        )
        self.action_space = gym.spaces.Box(np.array([-3], np.float32), np.array([4], np.float32))

    def told(self) -> Any:
        vector = np.array([self.count, 10 * self.count], np.float32)
        return {"observation": vector, "desired_goal": vector} if self.in_dict else vector

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.count = 1
        return self.told(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        return self.told(), 0.0, False, False, {}


@pytest.mark.parametrize("in_dict", [False, True])
def test_history_is_oldest_first_and_actions_come_last(in_dict: bool) -> None:
    env = HistoryWrapper(Delayed(in_dict), horizon=2)
    space: Any = env.observation_space
    vector = space["observation"] if in_dict else space
    assert vector.low.tolist() == [0, 0, 0, 0, -3, -3]  # zeros, from before the episode, are inside
    assert vector.high.tolist() == [10, 200, 10, 200, 4, 4]
    for _ in range(2):
        seen = [env.reset()[0], *(env.step(np.array([a], np.float32))[0] for a in (3, -1, 2))]
        assert all(space.contains(observation) for observation in seen)
        rows = [observation["observation"] if in_dict else observation for observation in seen]
        assert [row.tolist() for row in rows] == [
            [0, 0, 1, 10, 0, 0],
            [1, 10, 2, 20, 0, 3],
            [2, 20, 3, 30, 3, -1],
            [3, 30, 4, 40, -1, 2],
        ]
    if in_dict:
        assert seen[-1]["desired_goal"].tolist() == [4, 40]


def test_history_needs_vectors() -> None:
    with pytest.raises(UserError, match="Box vector as observation"):
        HistoryWrapper(IdentityEnv(3))
    with pytest.raises(UserError, match="Box vector as action"):
        HistoryWrapper(Vector())
    with pytest.raises(UserError, match="horizon"):
        HistoryWrapper(Delayed(), horizon=0)


def test_frame_skip_sums_rewards_and_stops_at_the_end() -> None:
    env = FrameSkip(gym.wrappers.TimeLimit(Vector(), 5), skip=3)
    env.reset()
    assert env.step(0)[1:4] == (4.5, False, False)
    assert env.step(0)[1:4] == (3.0, False, True)
    with pytest.raises(UserError):
        FrameSkip(Vector(), skip=0)


@pytest.mark.parametrize("channels", [1, 3])
def test_resize(channels: int) -> None:
    env = ResizeObservation(FakeImageEnv(n_channels=channels), shape=[64, 48])
    assert env.observation_space.shape == (64, 48, channels)
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert ResizeObservation(FakeImageEnv(), shape=32).observation_space.shape == (32, 32, 1)
    with pytest.raises(UserError, match="images"):
        ResizeObservation(Vector(), shape=32)

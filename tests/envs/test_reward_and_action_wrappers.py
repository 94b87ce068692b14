"""Wrappers that change rewards, actions or the ends of episodes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlzoo.core.errors import UserError
from rlzoo.envs.examples.toy import BitFlippingEnv, IdentityEnv
from rlzoo.envs.single_env.wrappers import (
    ActionNoiseWrapper,
    ActionSmoothingWrapper,
    DelayedRewardWrapper,
    TruncatedOnSuccessWrapper,
)
from rlzoo.envs.vec_env.dummy import DummyVecEnv


class Echo(gym.Env[Any, Any]):
    """Pays 1, 2, 3, ...; observes the action that was executed; a draw of its own generator is in the info.

    :param succeeds: the steps that are successes
    """

    observation_space = gym.spaces.Box(-9.0, 9.0, (2,), np.float32)
    action_space = gym.spaces.Box(np.array([-1, -4], np.float32), np.array([2, 4], np.float32))

    def __init__(self, length: int = 100, succeeds: tuple[int, ...] = ()) -> None:
        self.length, self.succeeds = length, succeeds

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.count += 1
        info = {"draw": self.np_random.random(), "is_success": self.count in self.succeeds}
        return action, float(self.count), self.count == self.length, False, info


def rewards(env: gym.Env[Any, Any], n: int) -> list[float]:
    env.reset(seed=0)
    return [float(env.step(np.zeros(2, np.float32))[1]) for _ in range(n)]


def test_delayed_rewards_are_paid_together_and_at_the_end() -> None:
    env = DelayedRewardWrapper(Echo(length=5), delay=3)
    for _ in range(2):
        assert rewards(env, 5) == [0, 0, 6, 0, 9]
    assert rewards(env, 2) == [0, 0]
    assert rewards(env, 3) == [0, 0, 6]  # nothing is owed from an episode that was given up
    assert rewards(DelayedRewardWrapper(gym.wrappers.TimeLimit(Echo(), 2), delay=9), 2) == [0, 3]
    with pytest.raises(UserError, match="delay must be at least 1"):
        DelayedRewardWrapper(Echo(), delay=0)


def executed(env: gym.Env[Any, Any], actions: Any) -> np.ndarray:
    return np.array([env.step(np.asarray(action, np.float32))[0] for action in actions])


def test_action_noise_has_its_size_and_stays_in_the_box() -> None:
    env = ActionNoiseWrapper(Echo(length=10_000), noise_std=0.5)
    env.reset(seed=0)
    seen = executed(env, np.zeros((2000, 2)))
    assert seen[:, 1].std() == pytest.approx(0.5, rel=0.1) and abs(seen[:, 1].mean()) < 0.05
    assert (executed(env, np.full((50, 2), [2, 4])) <= [2, 4]).all()
    quiet = ActionNoiseWrapper(Echo(), noise_std=0.0)
    quiet.reset()
    assert executed(quiet, [[1, 2]]).tolist() == [[1, 2]]


def test_action_noise_is_seeded_per_environment() -> None:
    def noise(seed: int) -> Any:
        venv = DummyVecEnv([lambda: ActionNoiseWrapper(Echo())] * 2)
        venv.seed(seed)
        venv.reset()
        return venv.step(np.zeros((2, 2), np.float32))[0]

    first, again, other = noise(1), noise(1), noise(5)
    np.testing.assert_array_equal(first, again)
    assert (first[0] != first[1]).all() and (first != other).all()
    np.random.seed(0)
    np.testing.assert_array_equal(first, noise(1))  # whatever others draw


def test_action_noise_keeps_the_env_random_stream() -> None:
    draws = []
    for env in (Echo(), ActionNoiseWrapper(Echo())):
        env.reset(seed=3)
        draws.append([env.step(np.zeros(2, np.float32))[4]["draw"] for _ in range(5)])
    assert draws[0] == draws[1]


def test_noise_goes_on_without_a_new_seed() -> None:
    env = ActionNoiseWrapper(Echo())
    seen = []
    for seed in (3, None, 3):
        env.reset(seed=seed)
        seen.append(executed(env, [[0, 0]]).tolist())
    assert seen[0] == seen[2] != seen[1]


def test_smoothed_actions_begin_at_zero_in_each_episode() -> None:
    env = ActionSmoothingWrapper(Echo(), smoothing_coef=0.5)
    for _ in range(2):
        env.reset()
        assert executed(env, [[1, 4], [1, 4], [0, 0]]).tolist() == [[0.5, 2], [0.75, 3], [0.375, 1.5]]
    plain = ActionSmoothingWrapper(Echo())
    plain.reset()
    assert executed(plain, [[1, 4], [0, 1]]).tolist() == [[1, 4], [0, 1]]


def test_actions_must_be_a_box_and_parameters_in_range() -> None:
    for wrapper in (ActionNoiseWrapper, ActionSmoothingWrapper):
        with pytest.raises(UserError, match=f"{wrapper.__name__} needs Box actions"):
            wrapper(IdentityEnv(3))
    with pytest.raises(UserError, match="noise_std"):
        ActionNoiseWrapper(Echo(), -0.1)
    with pytest.raises(UserError, match="smoothing_coef"):
        ActionSmoothingWrapper(Echo(), 1.0)


@pytest.mark.parametrize(("n_successes", "last"), [(1, 2), (2, 6), (3, 7)])
def test_successes_in_a_row_end_the_episode(n_successes: int, last: int) -> None:
    env = TruncatedOnSuccessWrapper(Echo(succeeds=(2, 5, 6, 7)), reward_offset=0.5, n_successes=n_successes)
    for _ in range(2):
        env.reset()
        for step in range(1, last + 1):
            _, reward, terminated, truncated, _ = env.step(np.zeros(2, np.float32))
            assert (reward, terminated, truncated) == (step + 0.5, False, step == last)
    with pytest.raises(UserError, match="n_successes"):
        TruncatedOnSuccessWrapper(Echo(), n_successes=0)


def test_rewards_of_goals_have_the_offset() -> None:
    env = TruncatedOnSuccessWrapper(BitFlippingEnv(3), reward_offset=1.0)
    goals = np.ones((2, 3), np.int8), np.array([[1, 1, 1], [1, 1, 0]], np.int8)
    assert env.compute_reward(*goals, {}).tolist() == [1.0, 0.0]
    assert env.get_wrapper_attr("compute_reward")(goals[0][0], goals[1][0], {}) == 1.0

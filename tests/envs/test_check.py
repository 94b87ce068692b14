"""check_env finds what breaks the rules and warns of what hurts learning."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.envs.check import check_env
from rlzoo.envs.toy import BitFlippingEnv, FakeImageEnv, IdentityEnv


class Sampler(gym.Env[Any, Any]):
    """Observations drawn from a given space."""

    def __init__(
        self, observation: spaces.Space[Any] | None = None, action: spaces.Space[Any] | None = None
    ) -> None:
        self.observation_space = observation or spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = action or spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, False, False, {}


def advice(env: gym.Env[Any, Any]) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env)
    return "\n".join(str(entry.message) for entry in caught)


@pytest.mark.parametrize(
    ("space", "told"),
    [
        (spaces.Box(0, 1, (84, 84, 3), np.float32), "dtype float32"),
        (spaces.Box(0, 1, (84, 84, 3), np.uint8), r"another range than \[0, 255\]"),
        (spaces.Box(0, 255, (84, 84, 7), np.uint8), "channels"),
        (spaces.Box(0, 255, (20, 20, 3), np.uint8), "smaller than the 36x36"),
        (spaces.Box(-1, 1, (4, 4), np.float32), "flattened"),
        (spaces.Box(0, 255, (128,), np.uint8), "not scaled"),
        (spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))), "no policy takes Tuple"),
        (spaces.Dict({"a": spaces.Dict({"b": spaces.Discrete(2)})}), "no policy takes Dict inside a Dict"),
        (spaces.Dict({"a": spaces.Box(0, 1, (84, 84, 3), np.float32)}), r"\['a'\].*float32"),
        (spaces.Discrete(3, start=1), "counts from 1"),
    ],
)
def test_observations_that_hurt(space: spaces.Space[Any], told: str) -> None:
    with pytest.warns(UserWarning, match=told):
        check_env(Sampler(observation=space))


@pytest.mark.parametrize(
    ("space", "told"),
    [
        (spaces.Box(-2, 2, (1,), np.float32), r"not \[-1, 1\]"),
        (spaces.Box(0, 1, (1,), np.float32), "not symmetric"),
        (spaces.Box(-np.inf, np.inf, (1,), np.float32), "no bounds"),
        (spaces.Box(-1, 1, (1,), np.float64), "float64"),
        (spaces.Tuple((spaces.Discrete(2),)), "no policy gives Tuple"),
        (spaces.Discrete(3, start=1), "counts from 1"),
    ],
)
def test_actions_that_hurt(space: spaces.Space[Any], told: str) -> None:
    with pytest.warns(UserWarning, match=told):
        check_env(Sampler(action=space))


def test_good_and_wrapped_environments_get_no_advice() -> None:
    assert advice(Sampler(action=spaces.Box(-1, 1, (2,), np.float32))) == ""
    assert advice(gym.wrappers.TimeLimit(FakeImageEnv(), 5)) == ""


def test_advice_can_be_turned_off() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(Sampler(action=spaces.Box(0, 1, (1,), np.float32)), warn=False)


def test_what_is_no_environment() -> None:
    with pytest.raises(UserError, match=r"not a gymnasium\.Env"):
        check_env(object())  # type: ignore[arg-type]


def test_gymnasiums_findings_are_raised() -> None:
    class Unseeded(IdentityEnv):
        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            return self.observation_space.sample(), {}

    with pytest.raises(AssertionError):
        check_env(Unseeded(1000))


class Late(Sampler):
    """Goes wrong in its fifth step after a reset."""

    wrong: tuple[Any, float] = (None, 0.0)

    def reset(self, **kwargs: Any) -> Any:
        self.count = 0
        return super().reset(**kwargs)

    def step(self, action: Any) -> Any:
        self.count += 1
        if self.count == 5:
            return *self.wrong, False, False, {}
        return super().step(action)


FINE = np.zeros(2, np.float32)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ((np.array([np.nan, 0], np.float32), 0.0), "NaN"),
        ((np.array([5, 0], np.float32), 0.0), "outside"),
        ((np.zeros(3, np.float32), 0.0), "outside"),
        ((FINE, float("nan")), "finite"),
        ((FINE, np.zeros(1)), "one finite number"),
    ],
)
def test_values_that_go_wrong_later(wrong: tuple[Any, Any], told: str) -> None:
    env = Late()
    env.wrong = wrong
    with pytest.raises(UserError, match=f"step.. number 5.*{told}"):
        check_env(env)


def test_goal_rewards_must_follow_from_the_goals() -> None:
    class Cheat(BitFlippingEnv):
        def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
            return 7.0

    with pytest.raises(UserError, match=r"compute_reward\(\) says 7"):
        check_env(Cheat())

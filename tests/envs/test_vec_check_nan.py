from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.core.errors import EnvironmentFailed
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_wrappers.vec_check_nan import VecCheckNan


class Echo(gym.Env[Any, Any]):
    """Observes and is rewarded with what it is told to."""

    def __init__(
        self, obs: float = 0.0, reward: float = 0.0, end: bool = False, in_dict: bool = False
    ) -> None:
        box = spaces.Box(-9, 9, (2,), np.float32)
        self.observation_space = spaces.Dict({"a": box, "n": spaces.Discrete(2)}) if in_dict else box
        self.action_space = spaces.Box(-9, 9, (1,), np.float32)
        self.obs, self.reward, self.end = obs, reward, end

    def observe(self, value: float) -> Any:
        array = np.array([1.0, value], dtype=np.float32)
        return {"a": array, "n": 0} if isinstance(self.observation_space, spaces.Dict) else array

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observe(0.0), {}

    def step(self, action: Any) -> Any:
        return self.observe(self.obs), self.reward, self.end, False, {}


def check(env_kwargs: dict[str, Any], action: float = 0.0, **kwargs: Any) -> None:
    venv = VecCheckNan(DummyVecEnv([Echo, lambda: Echo(**env_kwargs)]), raise_exception=True, **kwargs)
    venv.reset()
    venv.step_arrays(np.array([[0.0], [action]]))


@pytest.mark.parametrize(
    ("env_kwargs", "action", "message"),
    [
        ({}, np.nan, r"the action of environment 1 is NaN at step 1: \[nan\] \(from the policy\)"),
        ({"obs": np.inf}, 0.0, r"the observation of environment 1 is infinite at step 1: \[ 1. inf\]"),
        ({"reward": -np.inf}, 0.0, r"the reward of environment 1 is infinite at step 1: -inf"),
        (
            {"obs": np.nan, "in_dict": False, "end": True},
            0.0,
            r"last observation of an episode of environment 1",
        ),
    ],
)
def test_the_message_names_step_environment_and_value(env_kwargs: Any, action: float, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        check(env_kwargs, action)
    assert isinstance(error.value, EnvironmentFailed)
    assert (error.value.env_index, error.value.step) == (1, 1)


def test_entries_of_dicts_are_named() -> None:
    venv = VecCheckNan(DummyVecEnv([lambda: Echo(obs=np.nan, in_dict=True)]), raise_exception=True)
    venv.reset()
    with pytest.raises(ValueError, match="observation at 'a' of environment 0"):
        venv.step(np.zeros((1, 1)))


def test_infinities_may_pass() -> None:
    check({"obs": np.inf}, check_inf=False)
    with pytest.raises(ValueError, match="NaN"):
        check({"obs": np.nan}, check_inf=False)


@pytest.mark.parametrize(("warn_once", "n_warnings"), [(True, 1), (False, 3)])
def test_warnings(warn_once: bool, n_warnings: int) -> None:
    venv = VecCheckNan(DummyVecEnv([lambda: Echo(reward=np.nan)]), warn_once=warn_once)
    venv.reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            venv.step(np.zeros((1, 1)))
    assert len(caught) == n_warnings
    assert "step 1" in str(caught[0].message)

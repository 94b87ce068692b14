"""Rollouts of integer observations that a VecNormalize scales to floating-point numbers."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo import PPO, RolloutBuffer, VecNormalize, make_vec_env


class Integers(gym.Env):
    observation_space = spaces.Box(0, 100, (3,), np.int64)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.np_random.integers(0, 100, 3), {}

    def step(self, action: int) -> Any:
        return self.np_random.integers(0, 100, 3), 1.0, bool(self.np_random.random() < 0.1), False, {}


class OldConstructor(RolloutBuffer):
    """With the constructor of stable-baselines3."""

    def __init__(
        self, buffer_size, observation_space, action_space, device="auto", gae_lambda=1, gamma=0.99, n_envs=1
    ):
        super().__init__(buffer_size, observation_space, action_space, device, gae_lambda, gamma, n_envs)


@pytest.mark.parametrize("case", ["usual", "assigned", "own class", "resized"])
def test_normalized_integers_are_stored_as_floats(case):
    env = VecNormalize(make_vec_env(Integers, n_envs=2, seed=0))
    own = {"rollout_buffer_class": OldConstructor} if case == "own class" else {}
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=8, n_epochs=1, device="cpu", seed=0, **own)
    if case in ("assigned", "resized"):
        model.rollout_buffer = RolloutBuffer(8, env.observation_space, env.action_space, "cpu", n_envs=2)
    if case == "resized":
        model.learn(16)
        model.n_steps = 16
    model.learn(32)
    observations = model.rollout_buffer.observations
    assert observations.dtype == np.float32
    assert np.any(observations % 1)

"""Find environments that return NaN."""

import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecCheckNan


class Broken(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        value = np.nan if self.steps == 5 else 0.5
        return np.full(2, value, np.float32), 1.0, False, False, {}


venv = VecCheckNan(DummyVecEnv([Broken]), raise_exception=True)
model = PPO("MlpPolicy", venv, n_steps=16, batch_size=16)
try:
    model.learn(16)
except ValueError as error:
    assert "nan" in str(error).lower()
else:
    raise SystemExit("NaN passed the check")

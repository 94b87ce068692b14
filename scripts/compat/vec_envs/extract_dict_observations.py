"""Take one entry out of dictionary observations."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import A2C
from stable_baselines3.common.vec_env import DummyVecEnv, VecExtractDictObs


class Camera(gym.Env):
    observation_space = spaces.Dict(
        {"pixels": spaces.Box(0, 255, (8, 8, 1), np.uint8), "speed": spaces.Box(-1, 1, (3,), np.float32)}
    )
    action_space = spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.steps += 1
        return self.observation_space.sample(), 1.0, False, self.steps == 20, {}


venv = VecExtractDictObs(DummyVecEnv([Camera]), key="speed")
assert venv.observation_space == Camera.observation_space["speed"]
assert venv.reset().shape == (1, 3)
for _ in range(20):
    obs, _, dones, infos = venv.step(np.array([0]))
assert dones[0] and infos[0]["terminal_observation"].shape == (3,)
A2C("MlpPolicy", venv).learn(50)

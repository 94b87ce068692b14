"""Write an environment, check it, and learn it."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import A2C
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env


class Corridor(gym.Env):
    """Walk left to the end of a corridor."""

    metadata = {"render_modes": ["console"]}
    LEFT, RIGHT = 0, 1

    def __init__(self, size: int = 8, render_mode: str = "console"):
        super().__init__()
        self.size, self.render_mode = size, render_mode
        self.position = size - 1
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(low=0, high=size, shape=(1,), dtype=np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.position = self.size - 1
        return np.array([self.position], dtype=np.float32), {}

    def step(self, action):
        if action not in (self.LEFT, self.RIGHT):
            raise ValueError(f"unknown action {action}")
        self.position = int(np.clip(self.position + (1 if action == self.RIGHT else -1), 0, self.size))
        done = self.position == 0
        return np.array([self.position], dtype=np.float32), float(done), done, False, {}

    def render(self):
        print("." * self.position + "x" + "." * (self.size - self.position))


check_env(Corridor(), warn=True)
venv = make_vec_env(Corridor, n_envs=1, env_kwargs={"size": 6})
model = A2C("MlpPolicy", venv, seed=0).learn(3_000)
obs = venv.reset()
for step in range(12):
    obs, reward, done, _ = venv.step(model.predict(obs, deterministic=True)[0])
    venv.render()
    if done:
        assert step == 4 and reward[0] == 1.0
        break
else:
    raise SystemExit("not learned")

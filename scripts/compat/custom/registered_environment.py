"""Register an environment and use its id everywhere."""

import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env, unwrap_wrapper
from stable_baselines3.common.monitor import Monitor


class Guess(gym.Env):
    """Say the number that is shown."""

    observation_space = gym.spaces.Discrete(4)
    action_space = gym.spaces.Discrete(4)

    def __init__(self, length: int = 10):
        self.length = length

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.shown = 0, int(self.np_random.integers(4))
        return self.shown, {}

    def step(self, action):
        self.steps += 1
        reward = float(action == self.shown)
        self.shown = int(self.np_random.integers(4))
        return self.shown, reward, False, self.steps == self.length, {}


gym.register("Guess-v0", entry_point=Guess, kwargs={"length": 10}, reward_threshold=9.0)
venv = make_vec_env("Guess-v0", n_envs=4, seed=0)
model = PPO("MlpPolicy", venv, n_steps=64, batch_size=64, learning_rate=3e-3, ent_coef=0.01).learn(4_096)
assert np.mean([info["r"] for info in model.ep_info_buffer]) > 6
assert gym.spec("Guess-v0").reward_threshold == 9.0
assert isinstance(unwrap_wrapper(venv.envs[0], Monitor), Monitor)
assert isinstance(venv.envs[0].unwrapped, Guess)

gym.register("Short-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=7)
short = PPO("MlpPolicy", "Short-v0", n_steps=64, batch_size=64).learn(64)
assert all(info["l"] <= 7 for info in short.ep_info_buffer)

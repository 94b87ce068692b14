"""Tell time limits from terminations, so that values of cut episodes are bootstrapped."""

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import TimeLimit
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.vec_env import DummyVecEnv


class Endless(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.ones(1, np.float32), 1.0, False, False, {}


venv = DummyVecEnv([lambda: TimeLimit(Endless(), max_episode_steps=5)])
dqn = DQN("MlpPolicy", venv, learning_starts=10, buffer_size=40).learn(30)
assert dqn.replay_buffer.dones[:30].sum() == 6
assert dqn.replay_buffer.timeouts[:30].sum() == 6
sample = dqn.replay_buffer.sample(64)
assert sample.dones.sum() == 0  # no episode terminated

model = PPO("MlpPolicy", venv, n_steps=20, batch_size=20, gamma=0.9).learn(20)
starts = model.rollout_buffer.episode_starts[:, 0]
assert starts.tolist() == ([1.0] + [0.0] * 4) * 4
assert model.rollout_buffer.rewards.shape == (20, 1)

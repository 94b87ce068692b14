"""Train DDPG with Ornstein-Uhlenbeck noise and one gradient step per environment step."""

import gymnasium as gym
import numpy as np
from stable_baselines3 import DDPG
from stable_baselines3.common.noise import OrnsteinUhlenbeckActionNoise

env = gym.make("MountainCarContinuous-v0")
n_actions = env.action_space.shape[0]
noise = OrnsteinUhlenbeckActionNoise(mean=np.zeros(n_actions), sigma=np.full(n_actions, 0.5), dt=1e-2)
assert noise().shape == (1,)
noise.reset()

model = DDPG("MlpPolicy", env, action_noise=noise, train_freq=1, gradient_steps=1, learning_starts=20)
model.learn(total_timesteps=120)
assert model.num_timesteps == 120
assert type(model).__name__ == "DDPG"

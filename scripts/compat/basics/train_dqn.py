"""Save a DQN agent, delete it, load it, and run it in a plain gymnasium environment."""

import os

import gymnasium as gym
import numpy as np
from stable_baselines3 import DQN

env = gym.make("CartPole-v1")
model = DQN("MlpPolicy", env, learning_starts=100, buffer_size=2_000, train_freq=4, verbose=0)
model.learn(total_timesteps=600, log_interval=4)
before = model.predict(np.zeros(4, dtype=np.float32), deterministic=True)[0]
model.save("cartpole_agent")
assert os.path.isfile("cartpole_agent.zip")

del model
model = DQN.load("cartpole_agent")
assert model.get_env() is None
assert model.predict(np.zeros(4, dtype=np.float32), deterministic=True)[0] == before

obs, _ = env.reset(seed=3)
length = 0
while True:
    action, _ = model.predict(obs, deterministic=True)
    obs, reward, terminated, truncated, _ = env.step(action)
    length += 1
    if terminated or truncated:
        break
assert 5 < length <= 500

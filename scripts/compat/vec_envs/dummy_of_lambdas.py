"""Put existing environments into a DummyVecEnv of functions."""

import gymnasium as gym
import numpy as np
from stable_baselines3 import A2C
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

env = Monitor(gym.make("CartPole-v1"))
venv = DummyVecEnv([lambda: env])
assert venv.envs[0] is env
obs = venv.reset()
assert obs.shape == (1, 4)
model = A2C("MlpPolicy", venv).learn(100)
assert model.get_env() is venv
assert env.get_total_steps() == 100

try:
    DummyVecEnv([lambda: env, lambda: env])
except ValueError:
    pass
else:
    raise SystemExit("the same environment twice was accepted")
many = DummyVecEnv([lambda: gym.make("CartPole-v1") for _ in range(3)])
assert many.reset().shape == (3, 4)
assert many.action_space.n == 2 and np.asarray(many.observation_space.shape) == (4,)

"""Train TD3 with Gaussian action noise."""

import gymnasium as gym
import numpy as np
from stable_baselines3 import TD3
from stable_baselines3.common.noise import NormalActionNoise

env = gym.make("Pendulum-v1")
size = env.action_space.shape[-1]
noise = NormalActionNoise(mean=np.zeros(size), sigma=0.2 * np.ones(size))
model = TD3("MlpPolicy", env, action_noise=noise, policy_delay=2, learning_starts=50, batch_size=16)
model.learn(200, log_interval=10)
assert model.action_noise is not None
model.save("td3_pendulum.zip")

loaded = TD3.load("td3_pendulum", env=env)
assert loaded.policy_delay == 2
obs, _ = env.reset(seed=0)
np.testing.assert_allclose(loaded.predict(obs)[0], model.predict(obs)[0], rtol=1e-5)

"""Give each of several environments its own action noise."""

import numpy as np
from stable_baselines3 import TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import (
    NormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
    VectorizedActionNoise,
)

base = OrnsteinUhlenbeckActionNoise(mean=np.zeros(1), sigma=0.3 * np.ones(1), theta=0.2)
noise = VectorizedActionNoise(base, n_envs=3)
assert noise().shape == (3, 1)
assert len(noise.noises) == noise.n_envs == 3
noise.reset([1])

venv = make_vec_env("Pendulum-v1", n_envs=3)
model = TD3("MlpPolicy", venv, action_noise=noise, learning_starts=9, batch_size=8, train_freq=2).learn(30)
assert isinstance(model.action_noise, VectorizedActionNoise)
single = TD3(
    "MlpPolicy", venv, action_noise=NormalActionNoise(np.zeros(1), np.ones(1)), learning_starts=9
).learn(30)
assert single.num_timesteps == 30

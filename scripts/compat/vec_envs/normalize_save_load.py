"""Normalise observations and rewards, and keep the statistics beside the model."""

import os

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

venv = VecNormalize(make_vec_env("Pendulum-v1", n_envs=2), norm_obs=True, norm_reward=True, clip_obs=10.0)
model = PPO("MlpPolicy", venv, n_steps=64, batch_size=64).learn(256)
assert model.get_vec_normalize_env() is venv
model.save("pendulum")
venv.save(os.path.join(".", "statistics.pkl"))

fresh = VecNormalize.load("statistics.pkl", make_vec_env("Pendulum-v1"))
fresh.training = False
fresh.norm_reward = False
np.testing.assert_allclose(fresh.obs_rms.mean, venv.obs_rms.mean)
np.testing.assert_allclose(fresh.obs_rms.var, venv.obs_rms.var)
count = fresh.obs_rms.count
loaded = PPO.load("pendulum", env=fresh)
obs = fresh.reset()
for _ in range(30):
    action, _ = loaded.predict(obs, deterministic=True)
    obs, reward, _, _ = fresh.step(action)
assert fresh.obs_rms.count == count
np.testing.assert_allclose(fresh.normalize_obs(fresh.get_original_obs()), obs, rtol=1e-4, atol=1e-5)
np.testing.assert_allclose(fresh.unnormalize_obs(obs), fresh.get_original_obs(), rtol=1e-4, atol=1e-5)
assert reward[0] == fresh.get_original_reward()[0]

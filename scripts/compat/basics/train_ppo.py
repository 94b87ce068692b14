"""Train PPO on a vectorised environment and run the trained agent in it."""

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

venv = make_vec_env("CartPole-v1", n_envs=4, seed=0)
model = PPO("MlpPolicy", venv, n_steps=64, batch_size=64, n_epochs=4, verbose=1)
returned = model.learn(total_timesteps=1024)
assert returned is model
assert model.num_timesteps == 1024

obs = venv.reset()
for _ in range(50):
    action, state = model.predict(obs)
    assert action.shape == (4,) and state is None
    obs, rewards, dones, infos = venv.step(action)
    assert obs.shape == (4, 4) and obs.dtype == np.float32
    assert rewards.shape == dones.shape == (4,)
    assert isinstance(infos, (list, tuple)) and isinstance(infos[0], dict)
venv.close()

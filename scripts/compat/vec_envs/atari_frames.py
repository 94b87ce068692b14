"""Train on stacked Atari frames."""

import ale_py
import gymnasium as gym
import numpy as np
from stable_baselines3 import A2C
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack, VecTransposeImage

gym.register_envs(ale_py)
venv = VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=2, seed=0), n_stack=4)
assert venv.observation_space.shape == (84, 84, 4)
assert venv.reset().dtype == np.uint8
model = A2C("CnnPolicy", venv, n_steps=5, verbose=1).learn(40)
assert isinstance(model.get_env(), VecTransposeImage)
assert model.observation_space.shape == (4, 84, 84)
obs = venv.reset()
action, _ = model.predict(obs, deterministic=False)
assert action.shape == (2,)
obs, rewards, dones, infos = venv.step(action)
assert obs.shape == (2, 84, 84, 4)
assert "lives" in infos[0]
venv.close()

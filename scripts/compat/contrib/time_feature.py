"""Add the remaining time to observations."""

import gymnasium as gym
from sb3_contrib import TQC
from sb3_contrib.common.wrappers import TimeFeatureWrapper
from stable_baselines3.common.env_util import make_vec_env

env = TimeFeatureWrapper(gym.make("Pendulum-v1"))
assert env.observation_space.shape == (4,)
obs, _ = env.reset(seed=0)
assert obs[-1] == 1.0
obs, *_ = env.step(env.action_space.sample())
assert abs(obs[-1] - (1 - 1 / 200)) < 1e-6
frozen = TimeFeatureWrapper(gym.make("Pendulum-v1"), max_steps=50, test_mode=True)
constant = frozen.reset()[0][-1]
assert frozen.step(frozen.action_space.sample())[0][-1] == constant
venv = make_vec_env(
    "Pendulum-v1", n_envs=2, wrapper_class=TimeFeatureWrapper, wrapper_kwargs={"max_steps": 100}
)
assert TQC("MlpPolicy", venv, learning_starts=10, batch_size=8).learn(20).observation_space.shape == (4,)

"""Pass wrappers, arguments, seeds and a monitor folder to make_vec_env."""

import glob

import gymnasium as gym
import numpy as np
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor, load_results
from stable_baselines3.common.vec_env import DummyVecEnv


class HalfReward(gym.RewardWrapper):
    def __init__(self, env, factor=0.5):
        super().__init__(env)
        self.factor = factor

    def reward(self, reward):
        return float(reward) * self.factor


venv = make_vec_env(
    "Pendulum-v1",
    n_envs=2,
    seed=11,
    start_index=4,
    monitor_dir="monitors",
    wrapper_class=HalfReward,
    wrapper_kwargs={"factor": 0.25},
    env_kwargs={"g": 9.81},
    vec_env_cls=DummyVecEnv,
)
assert venv.env_is_wrapped(HalfReward) == venv.env_is_wrapped(Monitor) == [True, True]
assert venv.get_attr("factor") == [0.25, 0.25]
assert [inner.unwrapped.g for inner in venv.envs] == [9.81, 9.81]
first = venv.reset()
for _ in range(200):
    venv.step(np.zeros((2, 1), dtype=np.float32))
assert len(glob.glob("monitors/*.monitor.csv")) == 2
assert len(load_results("monitors")) == 2
venv.seed(11)
np.testing.assert_array_equal(venv.reset(), first)
venv.close()

"""Record values of `info` and of `reset` beside the reward of each episode."""

import gymnasium as gym
import pandas as pd
from stable_baselines3 import A2C
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor


class Success(gym.Wrapper):
    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        info["is_success"] = truncated
        info["energy"] = 2.0
        return obs, reward, terminated, truncated, info


env = Monitor(
    Success(gym.make("CartPole-v1")), "run", info_keywords=("is_success", "energy"), override_existing=True
)
model = A2C("MlpPolicy", env).learn(200)
assert env.get_episode_lengths() and env.get_episode_rewards() == [
    float(n) for n in env.get_episode_lengths()
]
assert len(env.get_episode_times()) == len(env.get_episode_rewards())
assert env.get_total_steps() == 200
env.close()
table = pd.read_csv("run.monitor.csv", skiprows=1)
assert {"r", "l", "t", "is_success", "energy"} == set(table.columns)
assert "energy" in model.ep_info_buffer[0]
assert len(model.ep_success_buffer) == len(table)

kwargs = {"monitor_kwargs": {"info_keywords": ("energy",)}, "wrapper_class": None}
venv = make_vec_env(lambda: Success(gym.make("CartPole-v1")), n_envs=2, monitor_dir="several", **kwargs)
A2C("MlpPolicy", venv).learn(200)
assert "energy" in pd.read_csv("several/1.monitor.csv", skiprows=1).columns

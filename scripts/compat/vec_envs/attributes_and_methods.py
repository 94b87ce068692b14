"""Reach into the environments of a model: methods, attributes, single environments."""

import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv


class Difficulty(gym.Wrapper):
    level = 1

    def harder(self, by: int) -> int:
        self.level += by
        return self.level


venv = make_vec_env("CartPole-v1", n_envs=3, wrapper_class=Difficulty)
model = PPO("MlpPolicy", venv, n_steps=16, batch_size=16)
env = model.get_env()
assert env.get_attr("level") == [1, 1, 1]
assert env.env_method("harder", 2) == [3, 3, 3]
assert env.env_method("harder", by=1, indices=[0, 2]) == [4, 4]
env.set_attr("level", 7, indices=1)
assert env.get_attr("level", indices=[1]) == [7]
assert env.has_attr("level") and not env.has_attr("no_such_attribute")
assert env.env_is_wrapped(Difficulty, indices=0) == [True]

plain = make_vec_env("CartPole-v1", n_envs=2)
assert isinstance(plain, DummyVecEnv)
assert plain.env_is_wrapped(Monitor) == [True, True]
plain.reset()
plain.set_attr("gravity", 5.0)
assert plain.get_attr("spec")[0].id == "CartPole-v1"
assert isinstance(plain.envs[0], gym.Env)
assert plain.envs[0].unwrapped.x_threshold == 2.4

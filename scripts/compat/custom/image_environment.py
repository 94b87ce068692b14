"""Learn from images: channels last, channels first, and already normalised ones."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import A2C, DQN
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.vec_env import VecTransposeImage, is_vecenv_wrapped


class Screen(gym.Env):
    def __init__(self, shape=(40, 48, 3), normalised: bool = False):
        high, dtype = (1.0, np.float32) if normalised else (255, np.uint8)
        self.observation_space = spaces.Box(0, high, shape, dtype)
        self.action_space = spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.steps += 1
        return self.observation_space.sample(), float(action == 1), False, self.steps == 10, {}


check_env(Screen())
last = A2C("CnnPolicy", Screen()).learn(20)
assert is_vecenv_wrapped(last.get_env(), VecTransposeImage)
assert last.observation_space.shape == (3, 40, 48)
assert last.predict(Screen().reset()[0])[0].shape == ()

first = DQN("CnnPolicy", Screen((3, 40, 48)), buffer_size=50, learning_starts=10, batch_size=4).learn(14)
assert not is_vecenv_wrapped(first.get_env(), VecTransposeImage)
assert first.replay_buffer.observations.dtype == np.uint8

kwargs = {"normalize_images": False}
plain = A2C("CnnPolicy", Screen((3, 40, 48), normalised=True), policy_kwargs=kwargs).learn(10)
assert plain.policy.normalize_images is False

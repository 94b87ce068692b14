"""Learn from dictionary observations with a vector, a number and an image."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.torch_layers import CombinedExtractor


class Rover(gym.Env):
    def __init__(self, continuous: bool = False):
        self.observation_space = spaces.Dict(
            {
                "camera": spaces.Box(0, 255, (36, 36, 3), np.uint8),
                "wheels": spaces.Box(-1.0, 1.0, (4,), np.float32),
                "gear": spaces.Discrete(3),
            }
        )
        self.action_space = (
            spaces.Box(-1, 1, (2,), np.float32) if continuous else spaces.MultiDiscrete([3, 2])
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.steps += 1
        return self.observation_space.sample(), 0.5, False, self.steps >= 15, {}


check_env(Rover())
model = PPO("MultiInputPolicy", Rover(), n_steps=32, batch_size=32, n_epochs=1).learn(32)
assert isinstance(model.policy.features_extractor, CombinedExtractor)
obs = model.get_env().reset()
assert obs["camera"].shape == (1, 3, 36, 36)  # channels first
single = Rover().reset(seed=0)[0]
assert model.predict(single)[0].shape == (2,)
sac = SAC(
    "MultiInputPolicy", Rover(continuous=True), buffer_size=100, learning_starts=10, batch_size=8
).learn(12)
assert sac.replay_buffer.observations["gear"].shape[0] == 100

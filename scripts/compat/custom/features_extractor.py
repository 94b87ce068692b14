"""Use a convolutional custom features extractor."""

import gymnasium as gym
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.envs import FakeImageEnv
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn


class SmallCNN(BaseFeaturesExtractor):
    """Two convolutions and a linear layer."""

    def __init__(self, observation_space: gym.spaces.Box, features_dim: int = 64):
        super().__init__(observation_space, features_dim)
        channels = observation_space.shape[0]
        self.cnn = nn.Sequential(
            nn.Conv2d(channels, 8, 8, 4), nn.ReLU(), nn.Conv2d(8, 8, 3, 2), nn.ReLU(), nn.Flatten()
        )
        with torch.no_grad():
            size = self.cnn(torch.as_tensor(observation_space.sample()[None]).float()).shape[1]
        self.linear = nn.Sequential(nn.Linear(size, features_dim), nn.ReLU())

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        assert observations.max() <= 1.0  # divided by 255 already
        return self.linear(self.cnn(observations))


kwargs = {"features_extractor_class": SmallCNN, "features_extractor_kwargs": {"features_dim": 32}}
env = FakeImageEnv(screen_height=40, screen_width=40, n_channels=1, discrete=True)
model = PPO("CnnPolicy", env, policy_kwargs=kwargs, n_steps=16, batch_size=16, n_epochs=1).learn(16)
assert isinstance(model.policy.features_extractor, SmallCNN)
assert model.policy.features_dim == 32 and model.policy.features_extractor.features_dim == 32
dqn = DQN("CnnPolicy", env, policy_kwargs=kwargs, buffer_size=60, learning_starts=10, batch_size=4).learn(20)
dqn.save("dqn_cnn")
loaded = DQN.load("dqn_cnn", custom_objects={"policy_kwargs": kwargs})
assert isinstance(loaded.policy.q_net.features_extractor, SmallCNN)

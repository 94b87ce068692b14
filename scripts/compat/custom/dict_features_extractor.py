"""Combine the entries of dictionary observations in a custom features extractor."""

import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.envs import SimpleMultiObsEnv
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn


class Combine(BaseFeaturesExtractor):
    def __init__(self, observation_space: spaces.Dict):
        super().__init__(observation_space, features_dim=1)
        parts, total = {}, 0
        for key, space in observation_space.spaces.items():
            if is_image_space(space):
                parts[key] = nn.Sequential(nn.MaxPool2d(4), nn.Flatten())
                total += space.shape[0] * (space.shape[1] // 4) * (space.shape[2] // 4)
            else:
                parts[key] = nn.Linear(space.shape[0], 16)
                total += 16
        self.extractors = nn.ModuleDict(parts)
        self._features_dim = total

    def forward(self, observations) -> torch.Tensor:
        return torch.cat([part(observations[key]) for key, part in self.extractors.items()], dim=1)


env = SimpleMultiObsEnv(random_start=False)
policy_kwargs = {"features_extractor_class": Combine, "activation_fn": nn.ReLU}
model = PPO("MultiInputPolicy", env, n_steps=64, batch_size=64, policy_kwargs=policy_kwargs).learn(128)
obs, _ = env.reset()
assert model.predict(obs, deterministic=True)[0] in range(4)
assert model.policy.features_extractor.features_dim == model.policy.mlp_extractor.policy_net[0].in_features

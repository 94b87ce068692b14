"""A features extractor of your own for Dict observations, and other sizes of the networks behind it.

python examples/own_features_extractor.py
"""

import sys

import torch
from gymnasium import spaces
from torch import nn

from rlzoo import PPO, BaseFeaturesExtractor, SimpleMultiObsEnv, evaluate_policy, make_vec_env


class ImageAndVector(BaseFeaturesExtractor):
    """Convolutions for the key "img", a linear layer for "vec"; the policy gets both, concatenated."""

    def __init__(self, observation_space: spaces.Dict, vector_dim: int = 16, image_dim: int = 32):
        super().__init__(observation_space, features_dim=vector_dim + image_dim)
        channels = observation_space["img"].shape[0]
        self.image = nn.Sequential(
            nn.Conv2d(channels, 8, 8, stride=4), nn.ReLU(), nn.Flatten(), nn.LazyLinear(image_dim), nn.ReLU()
        )
        self.vector = nn.Sequential(nn.Linear(observation_space["vec"].shape[0], vector_dim), nn.Tanh())
        with torch.no_grad():  # a first call gives the lazy layer its size
            self.image(torch.zeros(1, *observation_space["img"].shape))

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.cat([self.image(observations["img"]), self.vector(observations["vec"])], dim=1)


def main(steps: int = 20_000) -> float:
    policy_kwargs = {
        "features_extractor_class": ImageAndVector,
        "features_extractor_kwargs": {"vector_dim": 16},
        "net_arch": {"pi": [32], "vf": [64]},
    }
    env = make_vec_env(SimpleMultiObsEnv, n_envs=4, seed=0)
    model = PPO("MultiInputPolicy", env, n_steps=64, batch_size=64, policy_kwargs=policy_kwargs, seed=0)
    model.learn(steps)
    mean, std = evaluate_policy(model, env, n_eval_episodes=20)
    print(f"{type(model.policy.features_extractor).__name__}: return {mean:.2f} +/- {std:.2f}")
    return mean


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

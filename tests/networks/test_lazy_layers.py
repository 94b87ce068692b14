"""Layers that take their input size from the first batch."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlzoo import ACKTR, PPO, SAC, BaseFeaturesExtractor


class Lazy(BaseFeaturesExtractor):
    def __init__(self, observation_space: spaces.Space[Any]) -> None:
        super().__init__(observation_space, 8)
        self.net = nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d())

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.net(observations)


@pytest.mark.parametrize(("algorithm", "env"), [(PPO, "CartPole-v1"), (SAC, "Pendulum-v1")])
def test_extractors_may_have_lazy_layers(algorithm: Any, env: str) -> None:
    model = algorithm("MlpPolicy", gym.make(env), policy_kwargs={"features_extractor_class": Lazy}, seed=0)
    inputs = model.observation_space.shape[0]
    lazy = next(module for module in model.policy.modules() if isinstance(module, Lazy))
    assert lazy.net[0].weight.shape == (8, inputs) and lazy.training
    assert (lazy.net[1].running_mean == 0).all(), "the first look is not learned from"
    model.learn(120)


def test_acktr_names_the_layer_that_it_cannot_factor() -> None:
    with pytest.raises(ValueError, match="BatchNorm"):
        ACKTR("MlpPolicy", "CartPole-v1", policy_kwargs={"features_extractor_class": Lazy})

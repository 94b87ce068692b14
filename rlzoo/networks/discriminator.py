"""The adversary of GAIL: a network that tells an expert's steps from an agent's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional as F

from rlzoo.core.preprocessing import is_image_space, preprocess_obs
from rlzoo.core.types import TensorObs
from rlzoo.networks.running_normalizer import ObservationNormalizer
from rlzoo.networks.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    NatureCNN,
    create_mlp,
)


class Discriminator(nn.Module):
    """Observations and executed actions -> the logit [B] of their being the expert's.

    Vectors are scaled by running statistics of what `update_statistics` was shown; images go through a
    NatureCNN, choices are one-hot. Two hidden layers with tanh follow.

    :param hidden_size: width of these
    """

    low: Tensor
    span: Tensor
    optimizer: torch.optim.Optimizer

    def __init__(
        self,
        observation_space: spaces.Space[object],
        action_space: spaces.Space[object],
        hidden_size: int = 100,
    ) -> None:
        super().__init__()
        self.observation_space, self.action_space = observation_space, action_space
        parts: Any = [observation_space]
        if isinstance(observation_space, spaces.Dict):
            parts = observation_space.spaces.values()
        vectors = any(isinstance(part, spaces.Box) and not is_image_space(part) for part in parts)
        self.normalizer = ObservationNormalizer(observation_space, -math.inf, math.inf) if vectors else None
        self.features_extractor: BaseFeaturesExtractor
        if isinstance(observation_space, spaces.Dict):
            self.features_extractor = CombinedExtractor(observation_space)
        elif is_image_space(observation_space):
            self.features_extractor = NatureCNN(observation_space)
        else:
            self.features_extractor = FlattenExtractor(observation_space)
        if isinstance(action_space, spaces.Discrete):
            n_inputs = int(action_space.n)
        else:
            n_inputs = int(np.prod(action_space.shape or ()))
            self._remember_bounds(action_space)
        width = self.features_extractor.features_dim + n_inputs
        self.net = nn.Sequential(*create_mlp(width, 1, [hidden_size, hidden_size], nn.Tanh))

    def _remember_bounds(self, space: Any) -> None:
        """Store the bounds of a Box, which is scaled to [-1, 1] where it has some."""
        bounded = np.isfinite(space.low) & np.isfinite(space.high)
        low = np.where(bounded, space.low, -1.0).reshape(-1)
        high = np.where(bounded, space.high, 1.0).reshape(-1)
        self.register_buffer("low", torch.as_tensor(low, dtype=torch.float32))
        self.register_buffer("span", torch.as_tensor(high - low, dtype=torch.float32))

    def update_statistics(self, obs: TensorObs) -> None:
        """Take observations [B, ...] into the running statistics."""
        if self.normalizer is not None:
            self.normalizer.update(obs)

    def forward(self, obs: TensorObs, actions: Tensor) -> Tensor:
        """:param actions: as the environment takes them, [B, ...]"""
        observations = preprocess_obs(obs, self.observation_space)
        if self.normalizer is not None:
            observations = self.normalizer(observations)
        logits: Tensor = self.net(
            torch.cat([self.features_extractor(observations), self._inputs(actions)], dim=1)
        )
        return logits.squeeze(1)

    def _inputs(self, actions: Tensor) -> Tensor:
        if isinstance(self.action_space, spaces.Discrete):
            choices = actions.reshape(-1).long() - int(self.action_space.start)
            return F.one_hot(choices, int(self.action_space.n)).float()
        return 2.0 * (actions.reshape(len(actions), -1).float() - self.low) / self.span - 1.0

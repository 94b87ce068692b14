"""Feature extractors: modules that turn preprocessed observations into one vector per row."""

from __future__ import annotations

from typing import cast

import gymnasium as gym
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rlzoo.core.errors import UnsupportedSpace, UserError
from rlzoo.core.spaces import is_image_space
from rlzoo.networks.preprocessing import get_flattened_obs_dim


class BaseFeaturesExtractor(nn.Module):
    """What a user's own extractor derives from: `forward(observations)` gives [B, features_dim].

    :param observation_space: space of one observation
    :param features_dim: width of the output
    """

    def __init__(self, observation_space: gym.Space, features_dim: int = 0) -> None:
        super().__init__()
        if features_dim <= 0:
            raise UserError(f"features_dim must be positive, not {features_dim}")
        self._observation_space = observation_space
        self._features_dim = features_dim

    @property
    def features_dim(self) -> int:
        """Width of the output."""
        return self._features_dim


class FlattenExtractor(BaseFeaturesExtractor):
    """The observation as one vector, unchanged."""

    def __init__(self, observation_space: gym.Space) -> None:
        if isinstance(observation_space, spaces.Dict):
            raise UnsupportedSpace("MlpPolicy cannot read Dict observations; use MultiInputPolicy")
        super().__init__(observation_space, get_flattened_obs_dim(observation_space))

    def forward(self, observations: Tensor) -> Tensor:
        return observations.reshape(observations.shape[0], -1)  # a scalar observation is a vector of one


class NatureCNN(BaseFeaturesExtractor):
    """The network of Mnih et al. (2015), "Human-level control through deep reinforcement learning".

    :param observation_space: images with channels first, at least 36 pixels high and wide; channels last are
        recognised where channels first would make the images too small
    :param features_dim: units of the last, linear layer
    :param normalized_image: the images need not be uint8 in [0, 255]: any Box of three axes. Policies with
        `normalize_images=False` set it.
    :raises UnsupportedSpace: no images, or too small ones
    """

    SMALLEST = 36  # pixels

    def __init__(
        self, observation_space: gym.Space, features_dim: int = 512, normalized_image: bool = False
    ) -> None:
        if not isinstance(observation_space, spaces.Box) or not is_image_space(
            observation_space, normalized_image=normalized_image
        ):
            raise UnsupportedSpace(
                f"NatureCNN needs images (a uint8 Box of three axes, 0 to 255), not {observation_space}; "
                "use MlpPolicy for vectors, MultiInputPolicy for a Dict, and "
                "policy_kwargs=dict(normalize_images=False) for images that are floats or normalised already"
            )
        super().__init__(observation_space, features_dim)
        shape = observation_space.shape
        self.channels_last = min(shape[1:]) < self.SMALLEST <= min(shape[:2])
        height, width, channels = shape if self.channels_last else (*shape[1:], shape[0])
        self.cnn = nn.Sequential(
            nn.Conv2d(channels, 32, kernel_size=8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, kernel_size=3, stride=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        if min(height, width) < self.SMALLEST:
            raise UnsupportedSpace(f"NatureCNN needs images of at least 36x36 pixels, not {height}x{width}")
        with torch.no_grad():
            n_flat = self.cnn(torch.zeros(1, channels, height, width)).shape[1]
        self.linear = nn.Sequential(nn.Linear(n_flat, features_dim), nn.ReLU())

    def forward(self, observations: Tensor) -> Tensor:
        if self.channels_last:
            observations = observations.permute(0, 3, 1, 2)
        if observations.device.type == "cpu":
            # convolutions there are 1.6 to 2 times as fast with channels innermost
            observations = observations.contiguous(memory_format=torch.channels_last)
        return cast(Tensor, self.linear(self.cnn(observations)))


class CombinedExtractor(BaseFeaturesExtractor):
    """For Dict observations: a NatureCNN per image, all else flattened, in the order of the space.

    :param cnn_output_dim: features per image
    :param normalized_image: see NatureCNN; what is too small for one and no uint8 image is flattened
    """

    def __init__(
        self, observation_space: spaces.Dict, cnn_output_dim: int = 256, normalized_image: bool = False
    ) -> None:
        if not isinstance(observation_space, spaces.Dict) or not observation_space.spaces:
            raise UnsupportedSpace(
                f"MultiInputPolicy needs a Dict space with entries, not {observation_space}"
            )
        if dotted := [key for key in observation_space.spaces if "." in key]:
            raise UserError(f"the key {dotted[0]!r} of the Dict observations must not hold a dot")
        extractors: dict[str, nn.Module] = {}
        features_dim = 0
        for key, space in observation_space.spaces.items():
            if is_image_space(space) or (
                normalized_image
                and is_image_space(space, normalized_image=True)
                and sorted(space.shape or ())[1] >= NatureCNN.SMALLEST
            ):
                extractors[key] = NatureCNN(space, cnn_output_dim, normalized_image)
                features_dim += cnn_output_dim
            else:
                extractors[key] = nn.Flatten()
                features_dim += get_flattened_obs_dim(space)
        super().__init__(observation_space, features_dim)
        self.extractors = nn.ModuleDict(extractors)

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        return torch.cat([extractor(observations[key]) for key, extractor in self.extractors.items()], dim=1)

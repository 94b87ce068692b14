"""Scaling by running statistics that belong to a network, so that they travel with its weights."""

from __future__ import annotations

import math
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import is_image_space

MIN_VARIANCE = 1e-8


class RunningNormalizer(nn.Module):
    """Shifts and scales by the mean and standard deviation of everything it was shown.

    The statistics are float64 buffers, combined batch by batch as Chan, Golub and LeVeque (1979) do.

    :param shape: of one sample
    :param low: what is scaled is clipped to [low, high]
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, shape: tuple[int, ...] = (), low: float = -math.inf, high: float = math.inf) -> None:
        super().__init__()
        self.low, self.high = low, high
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("var", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    @property
    def std(self) -> Tensor:
        """Standard deviation, at least 1e-4 so that a constant is not divided by zero."""
        return self.var.clamp(min=MIN_VARIANCE).sqrt()

    @torch.no_grad()
    def update(self, samples: Tensor) -> None:
        """Take in samples [n, *shape]."""
        n = len(samples)
        var, mean = torch.var_mean(samples.double(), dim=0, correction=0)
        count = self.count + n
        delta = mean - self.mean
        between = delta.square() * self.count * n / count
        self.var.copy_((self.var * self.count + var * n + between) / count)
        self.mean.add_(delta * n / count)
        self.count.copy_(count)

    def forward(self, x: Tensor) -> Tensor:
        return ((x - self.mean.float()) / self.std.float()).clamp(self.low, self.high)

    def restore(self, x: Tensor) -> Tensor:
        """Return what scaled numbers, clipped to [low, high], were before."""
        return x.clamp(self.low, self.high) * self.std.float() + self.mean.float()


class ObservationNormalizer(nn.Module):
    """Scales preprocessed observations that are vectors of a Box; images and choices are scaled already.

    :param space: of the observations
    :param low: scaled numbers are clipped to [low, high]
    :raises UserError: there is nothing to scale
    """

    def __init__(self, space: spaces.Space[object], low: float, high: float) -> None:
        super().__init__()
        parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {"": space}
        vectors = {key: part for key, part in parts.items() if _is_vector(part)}
        if not vectors:
            raise UserError(
                f"normalize_observations is for Box observations that are no images, not for {space}"
            )
        self.is_dict = isinstance(space, spaces.Dict)
        self.keys = list(vectors)
        self.statistics = nn.ModuleList(
            RunningNormalizer(part.shape or (), low, high) for part in vectors.values()
        )

    @property
    def n_seen(self) -> int:
        """The number of observations in the statistics."""
        return int(self.statistics[0].count)  # type: ignore[arg-type]

    def update(self, obs: Any) -> None:
        """Take in raw observations [n, ...], or a dict of them."""
        for key, statistics in zip(self.keys, self.statistics, strict=True):
            statistics.update(obs[key] if self.is_dict else obs)  # type: ignore[operator]

    def forward(self, obs: Any) -> Any:
        if not self.is_dict:
            return self.statistics[0](obs)
        return {
            **obs,
            **{key: scale(obs[key]) for key, scale in zip(self.keys, self.statistics, strict=True)},
        }


class NormalizedExtractor(nn.Module):
    """A feature extractor that sees scaled observations.

    :param normalizer: may be shared by several extractors
    """

    def __init__(self, normalizer: ObservationNormalizer, extractor: nn.Module) -> None:
        super().__init__()
        self.normalizer, self.extractor = normalizer, extractor

    @property
    def features_dim(self) -> int:
        """Width of the output."""
        return self.extractor.features_dim  # type: ignore[return-value]

    def forward(self, observations: Any) -> Tensor:
        features: Tensor = self.extractor(self.normalizer(observations))
        return features


def _is_vector(space: spaces.Space[object]) -> bool:
    return isinstance(space, spaces.Box) and not is_image_space(space)

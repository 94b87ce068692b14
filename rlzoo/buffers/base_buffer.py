"""What replay and rollout buffers offer alike to scripts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.core.device import get_device
from rlzoo.core.spaces import action_size

Obs: TypeAlias = Any  # a tensor or array [..., *shape], or a dict of them


def map_obs(function: Callable[..., Any], *observations: Obs) -> Obs:
    """Apply `function` to an observation, or to each entry of a dict observation."""
    first = observations[0]
    if isinstance(first, dict):
        return {key: function(*(obs[key] for obs in observations)) for key in first}
    return function(*observations)


class BaseBuffer(ABC):
    """Base class of buffers for steps of `n_envs` environments.

    :param buffer_size: steps to keep
    :param device: where batches are handed out
    """

    observation_space: spaces.Space[object]
    action_space: spaces.Space[object]
    device: torch.device
    buffer_size: int
    n_envs: int

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[object],
        action_space: spaces.Space[object],
        device: torch.device | str = "auto",
        n_envs: int = 1,
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.device = get_device(device)
        self.buffer_size, self.n_envs = buffer_size, n_envs

    @abstractmethod
    def size(self) -> int:
        """Steps of each environment that the buffer holds."""

    @abstractmethod
    def reset(self) -> None:
        """Clear the buffer."""

    @abstractmethod
    def add(self, *args: Any, **kwargs: Any) -> None:
        """Add a step of each environment."""

    def extend(self, *args: Any, **kwargs: Any) -> None:
        """Add several steps: arguments are those of `add`, each a sequence."""
        for step in zip(*args, strict=True):
            self.add(*step)

    @property
    def obs_shape(self) -> Any:
        """Shape of an observation; a dict of shapes for Dict observations."""
        space = self.observation_space
        if isinstance(space, spaces.Dict):
            return {key: part_shape(part) for key, part in space.spaces.items()}
        return part_shape(space)

    @property
    def action_dim(self) -> int:
        """Numbers in one action."""
        return action_size(self.action_space)

    def to_torch(self, array: np.ndarray, copy: bool = True) -> torch.Tensor:
        """Return an array as a tensor on the device of the buffer.

        :param copy: False: share memory where possible
        """
        return torch.tensor(array, device=self.device) if copy else torch.as_tensor(array, device=self.device)

    @staticmethod
    def swap_and_flatten(arr: np.ndarray) -> np.ndarray:
        """[n_steps, n_envs, ...] -> [n_envs * n_steps, ...], one environment after the other."""
        shape = arr.shape if arr.ndim > 2 else (*arr.shape, 1)
        flat: np.ndarray = arr.swapaxes(0, 1).reshape(shape[0] * shape[1], *shape[2:])
        return flat


def part_shape(space: spaces.Space[object]) -> tuple[int, ...]:
    """Shape of one observation in the arrays of a buffer: a Discrete one is a vector of one number."""
    return (1,) if isinstance(space, spaces.Discrete) else tuple(space.shape or ())

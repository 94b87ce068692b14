"""Base class of replay and rollout buffers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from rlzoo.core.observations import Info
from rlzoo.core.preprocessing import action_size
from rlzoo.core.runtime import get_device

Obs: TypeAlias = Any  # a tensor or array [..., *shape], or a dict of them


def map_obs(function: Callable[..., Obs], *observations: Obs) -> Obs:
    """Apply `function` to an observation, or to each entry of a dict observation."""
    first = observations[0]
    if not isinstance(first, dict):
        return function(*observations)
    if len(observations) == 1:  # several times as fast
        return {key: function(part) for key, part in first.items()}
    return {key: function(*(obs[key] for obs in observations)) for key in first}


class StepResult(Protocol):
    """The result of a step of all environments, as a `VecStep` has it."""

    @property
    def obs(self) -> Obs:
        """Observations [n_envs, ...]; where an episode ended, the first of the next."""

    @property
    def rewards(self) -> np.ndarray:
        """Rewards [n_envs]."""

    @property
    def terminated(self) -> np.ndarray:
        """Whether the episode ended in a terminal state, [n_envs]."""

    @property
    def truncated(self) -> np.ndarray:
        """Whether the episode was cut off, e.g. by a time limit, [n_envs]."""

    @property
    def ended(self) -> np.ndarray:
        """Indices of the environments whose episodes ended."""

    @property
    def final_obs(self) -> Obs:
        """Final observations of these episodes."""

    @property
    def infos(self) -> Sequence[Info]:
        """Infos of all environments."""


@dataclass(slots=True)
class AddedStep:
    """A `StepResult` of arrays that a script gives."""

    obs: Obs
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    ended: np.ndarray
    final_obs: Obs
    infos: Sequence[Info]


class Normalizer(Protocol):
    """Normalisation of samples, as by a VecNormalize."""

    def normalize_obs(self, obs: Obs) -> Obs:
        """Normalise observations [n, ...]."""

    def unnormalize_obs(self, obs: Obs) -> Obs:
        """Undo `normalize_obs`."""

    def normalize_reward(self, reward: np.ndarray) -> np.ndarray:
        """Normalise rewards [n]."""

    def unnormalize_reward(self, reward: np.ndarray) -> np.ndarray:
        """Undo `normalize_reward`."""


class BaseBuffer(ABC):
    """Base class of buffers for steps of `n_envs` environments.

    :param buffer_size: capacity in steps
    :param device: of the batches
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
        """Return the number of stored steps of each environment."""

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
    def obs_shape(self) -> tuple[int, ...] | dict[str, tuple[int, ...]]:
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
    def _maybe_cast_dtype(dtype: object) -> object:
        """Return float32 for float64, other types as they are."""
        return np.float32 if dtype == np.float64 else dtype

    @staticmethod
    def _normalize_obs(obs: Obs, env: Normalizer | None = None) -> Obs:
        return obs if env is None else env.normalize_obs(obs)

    @staticmethod
    def _normalize_reward(reward: np.ndarray, env: Normalizer | None = None) -> np.ndarray:
        return reward if env is None else env.normalize_reward(reward).astype(np.float32)

    @staticmethod
    def swap_and_flatten(arr: np.ndarray) -> np.ndarray:
        """Reshape [n_steps, n_envs, ...] to [n_envs * n_steps, ...], one environment after the other."""
        shape = arr.shape if arr.ndim > 2 else (*arr.shape, 1)
        flat: np.ndarray = arr.swapaxes(0, 1).reshape(shape[0] * shape[1], *shape[2:])
        return flat


def stored_dtype(dtype: npt.DTypeLike | None) -> npt.DTypeLike | None:
    """Return the dtype for storage: floating-point observations in single precision, as the networks."""
    return np.float32 if np.issubdtype(dtype, np.floating) else dtype


def part_shape(space: spaces.Space[object]) -> tuple[int, ...]:
    """Return the shape of an observation in a buffer; a Discrete one is a vector of one number."""
    return (1,) if isinstance(space, spaces.Discrete) else tuple(space.shape or ())

"""From raw observations to what a network takes: shapes, one-hot coding, image scaling, axis order."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn import functional as F

from rlzoo.core.errors import UnsupportedSpace, UserError
from rlzoo.core.spaces import action_size, is_channels_first, is_image_space

TensorObs = Tensor | dict[str, Tensor]


def get_obs_shape(observation_space: spaces.Space) -> tuple[int, ...] | dict[str, tuple[int, ...]]:
    """Return shape of one raw observation; a dict of shapes for a Dict space.

    :raises UnsupportedSpace: for a space that no policy takes
    """
    space = observation_space
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return tuple(space.shape)
    if isinstance(space, spaces.Discrete):
        return (1,)
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(space.nvec.shape)
    if isinstance(space, spaces.Dict):
        return {key: get_obs_shape(part) for key, part in space.spaces.items()}  # type: ignore[misc]
    raise unsupported_observations(space)


def get_flattened_obs_dim(observation_space: spaces.Space) -> int:
    """Count the numbers that a network sees of one observation, discrete values one-hot coded."""
    space = observation_space
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    return int(spaces.flatdim(space))


def get_action_dim(action_space: spaces.Space) -> int:
    """Count numbers in one stored action: the flattened size of a Box, one per choice of other spaces.

    :raises UnsupportedSpace: for a space that no policy takes
    """
    return action_size(action_space)


def preprocess_obs(obs: Any, observation_space: spaces.Space, normalize_images: bool = True) -> Any:
    """Prepare the extractor's input: float tensors, images scaled to [0, 1], discrete values one-hot.

    :param obs: a batch of raw observations, [B, *shape], or a dict of those
    :param normalize_images: divide images (uint8 Box with bounds 0 and 255) by 255
    :raises UnsupportedSpace: for a space that no policy takes
    """
    space = observation_space
    if isinstance(space, spaces.Box):
        if normalize_images and is_image_space(space):
            return obs.float().div_(255.0) if obs.dtype is torch.uint8 else obs / 255.0
        return obs.float()
    if isinstance(space, spaces.Dict):
        return {key: preprocess_obs(obs[key], part, normalize_images) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Discrete):
        return F.one_hot(obs.long().reshape(obs.shape[0]) - int(space.start), int(space.n)).float()
    if isinstance(space, spaces.MultiDiscrete):
        choices = obs.long() - torch.as_tensor(space.start, device=obs.device)
        columns = choices.reshape(obs.shape[0], -1).unbind(dim=1)
        sizes = space.nvec.ravel().tolist()
        one_hot = [F.one_hot(column, n) for column, n in zip(columns, sizes, strict=True)]
        return torch.cat(one_hot, dim=1).float()
    if isinstance(space, spaces.MultiBinary):
        return obs.float()
    raise unsupported_observations(space)


def maybe_transpose(observation: np.ndarray, observation_space: spaces.Space) -> np.ndarray:
    """Move channels of images first where the space has them so and the data last; all else as it came."""
    space = observation_space
    if not (isinstance(space, spaces.Box) and is_image_space(space) and is_channels_first(space)):
        return observation
    height_width_channels = (*space.shape[1:], space.shape[0])
    if observation.shape[-3:] != space.shape and observation.shape[-3:] == height_width_channels:
        return np.moveaxis(observation, -1, -3)
    return observation


def is_vectorized_observation(observation: Any, observation_space: spaces.Space) -> bool:
    """Return whether this is a batch (one more axis than the space) and not a single observation.

    :raises UserError: when it is neither, or a Dict of both; the text gives the shapes
    """
    space = observation_space
    if isinstance(space, spaces.Dict):
        batches = {key: is_vectorized_observation(observation[key], part) for key, part in space.items()}
        if len(set(batches.values())) > 1:
            shapes = ", ".join(f"{key!r} {np.shape(observation[key])}" for key in batches)
            raise UserError(f"a mix of single observations and batches of them: {shapes}")
        return any(batches.values())
    if isinstance(space, spaces.Tuple) or space.shape is None:
        raise unsupported_observations(space)
    shape = np.shape(observation)
    single = () if isinstance(space, spaces.Discrete) else tuple(space.shape or ())
    if shape == single:
        return False
    if shape[1:] == single and len(shape) == len(single) + 1:
        return True
    if isinstance(space, spaces.Discrete) and shape[1:] == (1,):
        return True
    raise UserError(
        f"an observation of shape {shape} does not fit {space}: "
        f"expected {single}, or {('n_envs', *single)} for a batch"
    )


def unsupported_observations(space: spaces.Space) -> UnsupportedSpace:
    """Return the error for an observation space that no policy takes."""
    return UnsupportedSpace(
        f"observations of a {type(space).__name__} space are not supported; "
        "use Box, Discrete, MultiDiscrete, MultiBinary or a flat Dict of those"
    )

"""Gymnasium spaces: their kinds, shapes and sizes, and raw observations as the input of a network."""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rlzoo.core.errors import UnsupportedSpace, UserError

MISSING = float(np.finfo(np.float32).min)
"""Marks the frames before an episode in raw frame stacks; finite, because files with NaN are refused."""


def is_image_space(
    observation_space: spaces.Space[object], check_channels: bool = False, normalized_image: bool = False
) -> bool:
    """Return whether observations are images: a Box with three axes, uint8, bounds [0, 255].

    :param check_channels: also require 1, 3 or 4 channels on the first or the last axis
    :param normalized_image: the images are already scaled to floats: do not check dtype and bounds
    """
    space = observation_space
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        return False
    if not normalized_image and (
        space.dtype != np.uint8 or (space.low != 0).any() or (space.high != 255).any()
    ):
        return False
    if not check_channels:
        return True
    return space.shape[0 if is_channels_first(space) else -1] in (1, 3, 4)


def is_channels_first(space: spaces.Box) -> bool:
    """Return whether the first axis of an image space is the smallest (the channels); a tie counts as first.

    >>> is_channels_first(spaces.Box(0, 255, (4, 84, 84), np.uint8))
    True
    """
    return int(np.argmin(space.shape)) == 0


def is_image_space_channels_first(observation_space: spaces.Box) -> bool:
    """Return whether an image space is [channels, height, width]; warn if the middle axis is the smallest.

    >>> is_image_space_channels_first(spaces.Box(0, 255, (4, 84, 84), np.uint8))
    True
    """
    if int(np.argmin(observation_space.shape)) == 1:
        warnings.warn(
            f"an image of shape {observation_space.shape} has its smallest axis in the middle: the last one"
            " is taken for its channels",
            stacklevel=2,
        )
    return is_channels_first(observation_space)


def check_for_nested_spaces(obs_space: spaces.Space[object]) -> None:
    """Raise if a Dict or Tuple holds another Dict or Tuple.

    :raises UnsupportedSpace: names the nested entry
    """
    if not isinstance(obs_space, spaces.Dict | spaces.Tuple):
        return
    named = obs_space.items() if isinstance(obs_space, spaces.Dict) else enumerate(obs_space)
    for key, part in named:
        if isinstance(part, spaces.Dict | spaces.Tuple):
            raise UnsupportedSpace(
                f"Nested observation spaces are not supported: {key!r} is a {space_name(part)} inside a"
                f" {space_name(obs_space)}; use one flat Dict, or gymnasium.wrappers.FlattenObservation"
            )


def action_size(space: spaces.Space[object]) -> int:
    """Return the size of one stored action: the flattened size of a Box, the number of choices else.

    >>> action_size(spaces.Discrete(5)), action_size(spaces.MultiDiscrete([3, 2]))
    (1, 2)

    :raises UnsupportedSpace: not a Box, Discrete, MultiDiscrete or MultiBinary
    """
    if isinstance(space, spaces.Box):
        return int(np.prod(space.shape))
    if isinstance(space, spaces.Discrete):
        return 1
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.size)
    if isinstance(space, spaces.MultiBinary):
        return int(np.prod(space.shape))
    raise UnsupportedSpace(
        f"{space_name(space)} actions are not supported; use Box, Discrete, MultiDiscrete or MultiBinary"
    )


def choice_counts(space: spaces.Space[object]) -> list[int]:
    """Return the number of choices in each dimension of an action; each bit of a MultiBinary has two.

    :raises UserError: a Box has no choices
    """
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(n) for n in space.nvec.ravel()]
    if isinstance(space, spaces.MultiBinary):
        return [2] * action_size(space)
    raise UserError(
        f"{space_name(space)} actions have no choices; Discrete, MultiDiscrete and MultiBinary have"
    )


def space_name(space: spaces.Space[object]) -> str:
    """Return the class name of a space, for messages."""
    return type(space).__name__


def check_shape_equal(space1: spaces.Space[object], space2: spaces.Space[object]) -> None:
    """Raise if two spaces, or any parts of two Dicts, have different shapes.

    :raises AssertionError: names the shapes or keys that differ
    """
    if isinstance(space1, spaces.Dict):
        if not isinstance(space2, spaces.Dict) or space1.spaces.keys() != space2.spaces.keys():
            raise AssertionError(f"spaces must have the same keys: {space1} and {space2}")
        for key in space1.spaces:
            check_shape_equal(space1[key], space2[key])
    elif isinstance(space1, spaces.Box) and space1.shape != space2.shape:
        raise AssertionError(f"spaces must have the same shape: {space1.shape} and {space2.shape}")


class HasSpaces(Protocol):
    """An environment or a vector of them."""

    @property
    def observation_space(self) -> spaces.Space[object]:
        """The space of one observation."""

    @property
    def action_space(self) -> spaces.Space[object]:
        """The space of one action."""


def check_for_correct_spaces(
    env: HasSpaces, observation_space: spaces.Space[object], action_space: spaces.Space[object]
) -> None:
    """Raise if an environment has other spaces than the given ones.

    :raises UserError: names the space that differs
    """
    for name, wanted in {"observation_space": observation_space, "action_space": action_space}.items():
        if getattr(env, name) != wanted:
            raise UserError(f"the environment's {name} is {getattr(env, name)}, not {wanted}")


TensorObs = Tensor | dict[str, Tensor]


def get_obs_shape(observation_space: spaces.Space[Any]) -> tuple[int, ...] | dict[str, tuple[int, ...]]:
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


def get_flattened_obs_dim(observation_space: spaces.Space[Any]) -> int:
    """Count the numbers that a network sees of one observation, discrete values one-hot coded."""
    space = observation_space
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    return int(spaces.flatdim(space))


def get_action_dim(action_space: spaces.Space[Any]) -> int:
    """Count numbers in one stored action: the flattened size of a Box, one per choice of other spaces.

    :raises UnsupportedSpace: for a space that no policy takes
    """
    return action_size(action_space)


def preprocess_obs(obs: Any, observation_space: spaces.Space[Any], normalize_images: bool = True) -> Any:
    """Prepare the extractor's input: float tensors, images scaled to [0, 1], discrete values one-hot.

    :param obs: a batch of raw observations, [B, *shape], or a dict of those
    :param normalize_images: divide images (uint8 Box with bounds 0 and 255) by 255
    :raises UnsupportedSpace: for a space that no policy takes
    """
    space = observation_space
    if isinstance(space, spaces.Box):
        if normalize_images and is_image_space(space):
            return obs.float().div_(255.0) if obs.dtype is torch.uint8 else obs.float() / 255.0
        return obs.float()
    if isinstance(space, spaces.Dict):
        return {key: preprocess_obs(obs[key], part, normalize_images) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Discrete):
        return one_hot(obs.long().reshape(obs.shape[0]), int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        columns = obs.long().reshape(obs.shape[0], -1).unbind(dim=1)
        sizes, starts = space.nvec.ravel().tolist(), space.start.ravel().tolist()
        return torch.cat([one_hot(*column) for column in zip(columns, sizes, starts, strict=True)], dim=1)
    if isinstance(space, spaces.MultiBinary):
        return obs.float()
    raise unsupported_observations(space)


def one_hot(choices: Tensor, n: int, start: int = 0) -> Tensor:
    """Return choices [B] from `start` on as float32 [B, n]: half the time of `F.one_hot(...).float()`.

    >>> one_hot(torch.tensor([1, 3]), n=3, start=1)
    tensor([[1., 0., 0.],
            [0., 0., 1.]])
    """
    index = (choices - start if start else choices).unsqueeze(1)
    return torch.zeros(choices.shape[0], n, dtype=torch.float32, device=choices.device).scatter_(
        1, index, 1.0
    )


def maybe_transpose(observation: np.ndarray, observation_space: spaces.Space[Any]) -> np.ndarray:
    """Move channels of images first where the space has them so and the data last; all else as it came."""
    space = observation_space
    if not (isinstance(space, spaces.Box) and is_image_space(space) and is_channels_first(space)):
        return observation
    height_width_channels = (*space.shape[1:], space.shape[0])
    if observation.shape[-3:] != space.shape and observation.shape[-3:] == height_width_channels:
        return np.moveaxis(observation, -1, -3)
    return observation


def is_vectorized_observation(observation: Any, observation_space: spaces.Space[Any]) -> bool:
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


def unsupported_observations(space: spaces.Space[Any]) -> UnsupportedSpace:
    """Return the error for an observation space that no policy takes."""
    return UnsupportedSpace(
        f"observations of a {type(space).__name__} space are not supported; "
        "use Box, Discrete, MultiDiscrete, MultiBinary or a flat Dict of those"
    )

"""Predicates and sizes of Gymnasium spaces."""

from __future__ import annotations

import warnings
from typing import Protocol

import numpy as np
from gymnasium import spaces

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

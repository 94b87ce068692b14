"""Check the spaces of an environment for properties that hurt or prevent training."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from gymnasium import spaces

from rlzoo.core.preprocessing import is_channels_first, space_name

SUPPORTED = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
SMALLEST_IMAGE = 36  # pixels: the smallest side that the convolutions of NatureCNN accept


def observation_advice(space: spaces.Space, name: str = "", inside: str = "") -> Iterator[str]:
    """Yield a warning for each property of an observation space that hurts or prevents training.

    :param name: key of an entry of a Dict or Tuple, as `['key']`
    :param inside: class name of the enclosing space
    """
    subject = f"observation{name}"
    if isinstance(space, spaces.Dict | spaces.Tuple):
        if inside:
            yield (
                f"{subject}: Nested observation spaces are not supported ({space_name(space)} inside a"
                f" {inside}); flatten them, for example with gymnasium.wrappers.FlattenObservation"
            )
        elif isinstance(space, spaces.Tuple):
            yield (
                f"{subject}: Tuple observation spaces are not supported; use a Dict, or"
                " gymnasium.wrappers.FlattenObservation"
            )
        named = space.items() if isinstance(space, spaces.Dict) else enumerate(space)
        for key, part in named:
            yield from observation_advice(part, f"{name}[{key!r}]", space_name(space))
    elif not isinstance(space, SUPPORTED):
        within = f" inside a {inside}" if inside else ""
        yield (
            f"{subject}: {space_name(space)} observation spaces are not supported{within}; use Box, Discrete,"
            " MultiDiscrete, MultiBinary or one Dict of those (pad observations of variable size);"
            " its values are not checked"
        )
    elif isinstance(space, spaces.Box):
        yield from _box_advice(space, subject)
    else:
        yield from _choice_advice(space, subject)


def action_advice(space: spaces.Space) -> Iterator[str]:
    """Yield a warning for each property of an action space that hurts or prevents training."""
    if not isinstance(space, SUPPORTED):
        yield (
            f"action: {space_name(space)} action spaces are not supported; use Box, Discrete, MultiDiscrete"
            " or MultiBinary"
        )
    elif isinstance(space, spaces.Box):
        yield from _box_action_advice(space)
    else:
        yield from _choice_advice(space, "action")


def action_problems(space: spaces.Space) -> Iterator[str]:
    """Yield an error for each property of an action space that prevents training."""
    if isinstance(space, spaces.Box) and not space.is_bounded():
        yield f"action: a Box must have a finite lower and upper bound, such as -1 and 1; this is {space}"


def _choice_advice(space: spaces.Space, subject: str) -> Iterator[str]:
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and np.any(space.start != 0):
        yield f"{subject}: counts from {space.start}; discrete spaces should count from 0"
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim > 1:
        yield (
            f"{subject}: a MultiDiscrete of shape {space.nvec.shape} is flattened; give it one axis, so that"
            " other packages can use it too"
        )


def _box_advice(space: spaces.Box, subject: str) -> Iterator[str]:
    if len(space.shape) == 3:
        yield from _image_advice(space, subject)
    elif len(space.shape) != 1:
        yield (
            f"{subject}: shape {space.shape} is neither a vector nor an image with channels; it will be"
            " flattened to a vector"
        )
    elif space.dtype == np.uint8:
        yield f"{subject}: uint8 vectors are not scaled; floats in [-1, 1] learn faster"


def _image_advice(space: spaces.Box, subject: str) -> Iterator[str]:
    unless = "; for images that are scaled already, set policy_kwargs=dict(normalize_images=False)"
    if space.dtype != np.uint8:
        yield f"{subject}: looks like an image but has dtype {space.dtype}; CnnPolicy expects uint8{unless}"
    if np.any(space.low != 0) or np.any(space.high != 255):
        yield (
            f"{subject}: looks like an image but has another range than [0, 255], which CnnPolicy"
            f" expects{unless}"
        )
    height, width = space.shape[1:] if is_channels_first(space) else space.shape[:2]
    if int(np.argmin(space.shape)) == 1:
        yield (
            f"{subject}: an image of shape {space.shape} has its smallest axis in the middle;"
            " put the channels first or last"
        )
    elif min(height, width) < SMALLEST_IMAGE:
        yield (
            f"{subject}: an image of {height}x{width} pixels is smaller than the"
            f" {SMALLEST_IMAGE}x{SMALLEST_IMAGE} that NatureCNN needs; use a custom features extractor"
        )


def _box_action_advice(space: spaces.Box) -> Iterator[str]:
    if not space.is_bounded():
        yield "action: the Box has no bounds, so actions cannot be clipped or scaled; use [-1, 1]"
    elif np.any(space.low != -space.high):
        yield "action: the Box is not symmetric, but Gaussian actions start around 0; rescale it to [-1, 1]"
    elif np.any(space.high != 1):
        yield (
            "action: the Box is not [-1, 1], the size of a Gaussian policy's first actions; rescale it"
            " (gymnasium.wrappers.RescaleAction)"
        )
    if space.dtype != np.float32:
        yield f"action: the Box has dtype {space.dtype}; policies give float32"

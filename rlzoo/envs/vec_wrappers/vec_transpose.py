"""Transpose images to [channels, height, width], as convolutions need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UnsupportedSpace
from rlzoo.core.observations import Obs
from rlzoo.core.preprocessing import is_channels_first, is_image_space
from rlzoo.envs.vec_env.vec_env import State, VecEnv, VecStep
from rlzoo.envs.vec_wrappers.arranging_wrapper import ArrangingWrapper


class VecTransposeImage(ArrangingWrapper):
    """Transpose images [height, width, channels] to [channels, height, width], without a copy.

    Of Dict observations, each image whose channels are last is transposed.

    :param venv: the vectorised environment
    :param skip: leave observations unchanged
    :raises UnsupportedSpace: observations are not images, or have their channels first
    """

    def __init__(self, venv: VecEnv, skip: bool = False) -> None:
        space = venv.observation_space
        self.skip = skip
        self.image_space_keys: list[str] = []
        if isinstance(space, spaces.Dict):
            self.image_space_keys = [
                key
                for key, part in space.spaces.items()
                if isinstance(part, spaces.Box) and is_image_space(part) and not is_channels_first(part)
            ]
        elif not skip and not is_image_space(space):
            raise UnsupportedSpace(f"VecTransposeImage needs images (or a Dict with images), not {space}")
        super().__init__(venv, observation_space=space if skip else self._transposed_space(space))

    def _transposed_space(self, space: spaces.Space) -> spaces.Space:
        if isinstance(space, spaces.Dict):
            parts = {
                key: self.transpose_space(part, key) if key in self.image_space_keys else part
                for key, part in space.spaces.items()
            }
            return spaces.Dict(parts)
        return self.transpose_space(space)

    @staticmethod
    def transpose_space(observation_space: spaces.Space, key: str = "") -> spaces.Box:
        """Return the space of transposed images.

        :param key: of the space in a Dict, for the error
        :raises UnsupportedSpace: not a space of images, or channels come first
        """
        space = observation_space
        if not isinstance(space, spaces.Box) or not is_image_space(space) or is_channels_first(space):
            named = f"{key!r}: {space}" if key else str(space)
            raise UnsupportedSpace(
                f"only images [height, width, channels] can be transposed, not {named};"
                " skip=True leaves images with channels first as they are"
            )
        return spaces.Box(
            space.low.transpose(2, 0, 1), space.high.transpose(2, 0, 1), dtype=np.dtype(space.dtype).type
        )

    @staticmethod
    def transpose_image(image: np.ndarray) -> np.ndarray:
        """Transpose one image or a batch [..., height, width, channels] to [..., channels, height, width]."""
        return np.moveaxis(image, -1, -3)

    def transpose_observations(self, obs: Obs) -> Obs:
        """Transpose the images of a batch of observations."""
        if self.skip:
            return obs
        if isinstance(obs, dict):
            transposed = dict(obs)
            for key in self._images_of(obs):
                transposed[key] = obs[key].transpose(0, 3, 1, 2)
            return transposed
        assert not isinstance(obs, tuple)
        return obs.transpose(0, 3, 1, 2)

    def _images_of(self, parts: dict[str, np.ndarray]) -> list[str]:
        """Return the keys of the images that are present: a wrapper outside may have selected some keys."""
        return [key for key in self.image_space_keys if key in parts]

    def arranged_raw(self, obs: Obs, final: bool) -> Obs:
        return self.transpose_observations(obs)

    def apply_inside(self, function: Callable[[Obs], Obs], obs: Obs) -> Obs:
        if not self.image_space_keys:  # normalised observations that are no images
            return function(obs)
        parts = cast("dict[str, np.ndarray]", obs)
        channels_last = {key: np.moveaxis(parts[key], 1, -1) for key in self._images_of(parts)}
        return self.transpose_observations(function({**parts, **channels_last}))

    def reset(self) -> Obs:
        return self.transpose_observations(self.venv.reset())

    def wrapper_state(self) -> State:
        return {}  # no state

    def wait_arrays(self) -> VecStep:
        step = self.venv.wait_arrays()
        step.obs = self.transpose_observations(step.obs)
        if step.final_obs is not None:
            step.final_obs = self.transpose_observations(step.final_obs)
        return step

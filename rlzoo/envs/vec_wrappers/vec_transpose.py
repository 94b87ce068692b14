"""Images with the channels first, as convolutions want them."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UnsupportedSpace
from rlzoo.core.observations import Obs
from rlzoo.core.spaces import is_channels_first, is_image_space
from rlzoo.envs.vec_env.vec_env import StepArrays, VecEnv, VecEnvWrapper


class VecTransposeImage(VecEnvWrapper):
    """Turns images [height, width, channels] into [channels, height, width]; in a Dict, those that need it.

    The images are views of the inner ones: nothing is copied.

    :param venv: the vector environment
    :param skip: do nothing
    :raises UnsupportedSpace: no images, or images that have their channels first
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
        """The space of the transposed images.

        :param key: what an error calls the space
        :raises UnsupportedSpace: no images, or images that have their channels first
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
        """One image or a batch [..., height, width, channels] as [..., channels, height, width]."""
        return np.moveaxis(image, -1, -3)

    def transpose_observations(self, obs: Obs) -> Obs:
        """A batch of observations with every image transposed."""
        if self.skip:
            return obs
        if isinstance(obs, dict):
            turned: dict[str, Any] = dict(obs)
            for key in self.image_space_keys:
                turned[key] = obs[key].transpose(0, 3, 1, 2)
            return turned
        return obs.transpose(0, 3, 1, 2)

    def reset(self) -> Obs:
        return self.transpose_observations(self.venv.reset())

    def wrapper_state(self) -> dict[str, Any]:
        return {}  # nothing outlives a step

    def wait_arrays(self) -> StepArrays:
        step = self.venv.wait_arrays()
        step.obs = self.transpose_observations(step.obs)
        if step.final_obs is not None:
            step.final_obs = self.transpose_observations(step.final_obs)
        return step

"""Partially observable environments without velocities, for recurrent policies.

`CartPoleNoVel-v1` is `CartPole-v1` with a `MaskVelocityWrapper`; likewise for the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.core import ActType
from gymnasium.envs.registration import WrapperSpec

from rlzoo.core.errors import UserError

NO_VELOCITY = "NoVel"
VELOCITIES = {
    "CartPole": (1, 3),
    "MountainCar": (1,),
    "MountainCarContinuous": (1,),
    "Pendulum": (2,),
    "LunarLander": (2, 3, 5),
    "LunarLanderContinuous": (2, 3, 5),
}
"""Indices of velocities in the observations, by name of the environment."""


class MaskVelocityWrapper(gym.ObservationWrapper[np.ndarray, ActType, np.ndarray]):
    """Set the velocities in observations to 0.

    :param env: observations are a Box vector
    :param velocities: indices of the velocities; None: see `VELOCITIES`
    :raises UserError: no Box vector, indices out of range, or an environment that is not in `VELOCITIES`
    """

    def __init__(self, env: gym.Env[np.ndarray, ActType], velocities: Sequence[int] | None = None) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise UserError(f"MaskVelocityWrapper needs a Box vector as observation, not {space}")
        if velocities is None:
            spec = env.unwrapped.spec
            name = "" if spec is None else spec.id.rpartition("-v")[0].removesuffix(NO_VELOCITY)
            if name not in VELOCITIES:
                raise UserError(
                    f"MaskVelocityWrapper knows the velocities of {', '.join(VELOCITIES)}; for "
                    f"{name or type(env.unwrapped).__name__} give their indices: velocities=[...]"
                )
            velocities = VELOCITIES[name]
        if not all(0 <= index < space.shape[0] for index in velocities):
            raise UserError(
                f"velocities must be indices of an observation of {space.shape[0]} numbers, not {velocities}"
            )
        self._visible = np.ones(space.shape, space.dtype)
        self._visible[list(velocities)] = 0

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Return the observation with velocities set to 0."""
        return observation * self._visible


WITHOUT_VELOCITY = WrapperSpec("MaskVelocityWrapper", f"{__name__}:MaskVelocityWrapper", {})


def register_without_velocity() -> None:
    """Register `<name>NoVel-v<n>` for the newest version of each environment in `VELOCITIES`."""
    for name in VELOCITIES:
        spec = max(
            (spec for spec in gym.registry.values() if spec.name == name), key=lambda spec: spec.version or 0
        )
        env_id = f"{name}{NO_VELOCITY}-v{spec.version}"
        if env_id not in gym.registry:
            gym.register(
                env_id,
                entry_point=spec.entry_point,
                reward_threshold=spec.reward_threshold,
                max_episode_steps=spec.max_episode_steps,
                kwargs=spec.kwargs,
                additional_wrappers=(WITHOUT_VELOCITY,),
            )

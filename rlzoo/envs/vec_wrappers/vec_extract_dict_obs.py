"""One entry of dict observations."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError, unknown
from rlzoo.envs.vec_env.vec_env import StepArrays, VecEnv, VecEnvWrapper


class VecExtractDictObs(VecEnvWrapper):
    """Keeps one entry of the observations and drops the rest.

    :param venv: a vector environment with Dict observations
    :param key: the entry to keep
    """

    def __init__(self, venv: VecEnv, key: str) -> None:
        space = venv.observation_space
        if not isinstance(space, spaces.Dict):
            raise UserError(f"VecExtractDictObs needs Dict observations, not {space}")
        if key not in space.spaces:
            raise unknown("observation key", key, space.spaces)
        self.key = key
        super().__init__(venv, observation_space=space[key])

    def reset(self) -> np.ndarray:
        return self.venv.reset()[self.key]

    def wrapper_state(self) -> dict[str, Any]:
        return {}  # nothing outlives a step

    def wait_arrays(self) -> StepArrays:
        step = self.venv.wait_arrays()
        step.obs = step.obs[self.key]
        if step.final_obs is not None:
            step.final_obs = step.final_obs[self.key]
        return step

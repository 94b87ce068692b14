"""Extract one entry of Dict observations."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError, unknown
from rlzoo.core.observations import Obs
from rlzoo.envs.vec_env.vec_env import State, VecEnv, VecStep
from rlzoo.envs.vec_wrappers.arranging_wrapper import ArrangingWrapper, Dtypes


class VecExtractDictObs(ArrangingWrapper):
    """Return one entry of Dict observations as the observation.

    :param venv: a vectorised environment with Dict observations
    :param key: the entry
    :raises UserError: no Dict observations, or no such key
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
        return self.extract(self.venv.reset())

    def wrapper_state(self) -> State:
        return {}  # no state

    def extract(self, obs: Obs) -> np.ndarray:
        """Return the entry of a batch of Dict observations."""
        assert isinstance(obs, dict)
        return obs[self.key]

    def arranged_keys(self, keys: set[str | None]) -> set[str | None]:
        return {None} if self.key in keys else set()

    def arranged_dtypes(self, dtypes: Dtypes) -> Dtypes:
        return {None: dtypes[self.key]}

    def arranged_raw(self, obs: Obs, final: bool) -> Obs:
        return self.extract(obs)

    def apply_inside(self, function: Callable[[Obs], Obs], obs: Obs) -> Obs:
        return self.extract(function({self.key: cast(np.ndarray, obs)}))

    def wait_arrays(self) -> VecStep:
        step = self.venv.wait_arrays()
        step.obs = self.extract(step.obs)
        if step.final_obs is not None:
            step.final_obs = self.extract(step.final_obs)
        return step

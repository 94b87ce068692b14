"""Detect NaN and infinite values, and report where they come from."""

from __future__ import annotations

import warnings

import numpy as np

from rlzoo.core.errors import EnvironmentFailed
from rlzoo.core.observations import Obs
from rlzoo.envs.vec_env.vec_env import VecEnv, VecEnvWrapper, VecStep


class InvalidValue(EnvironmentFailed, ValueError):
    """An action, an observation or a reward is NaN or infinite."""


class VecCheckNan(VecEnvWrapper):
    """Warn or raise when an action, an observation or a reward is NaN or infinite.

    The message names the step, the environment and the value.

    >>> venv = VecCheckNan(make_vec_env("Pendulum-v1"), raise_exception=True)

    :param venv: the vectorised environment
    :param raise_exception: raise `InvalidValue` instead of warning
    :param warn_once: warn only the first time
    :param check_inf: also check for infinite values
    """

    def __init__(
        self, venv: VecEnv, raise_exception: bool = False, warn_once: bool = True, check_inf: bool = True
    ) -> None:
        super().__init__(venv)
        self.raise_exception = raise_exception
        self.warn_once = warn_once
        self.check_inf = check_inf
        self._warned = False
        self._steps = 0

    def reset(self) -> Obs:
        obs = self.venv.reset()
        self._check("the first observation", obs)
        return obs

    def step_async(self, actions: np.ndarray) -> None:
        self._steps += 1
        self._check("the action", actions)
        self.venv.step_async(actions)

    def wait_arrays(self) -> VecStep:
        step = self.venv.wait_arrays()
        self._check("the observation", step.obs)
        self._check("the reward", step.rewards)
        if step.final_obs is not None:
            self._check("the last observation of an episode", step.final_obs, step.ended)
        return step

    def _check(self, what: str, values: Obs, indices: np.ndarray | None = None) -> None:
        """Report the first value that is not finite; `indices`: the environment of each row (None: all)."""
        if isinstance(values, dict):
            for key, value in values.items():
                self._check(f"{what} at {key!r}", value, indices)
            return
        if isinstance(values, tuple):
            for position, value in enumerate(values):
                self._check(f"{what} at {position}", value, indices)
            return
        values = np.asarray(values)
        if values.dtype.kind != "f":
            return
        bad = ~np.isfinite(values) if self.check_inf else np.isnan(values)
        if bad.any():
            rows = np.flatnonzero(bad.reshape(len(values), -1).any(axis=1))
            self._report(what, values[rows[0]], int(rows[0] if indices is None else indices[rows[0]]))

    def _report(self, what: str, value: np.ndarray, index: int) -> None:
        kind = "NaN" if np.isnan(value).any() else "infinite"
        origin = "from the policy" if what == "the action" else "from the environment"
        text = f"{what} of environment {index} is {kind} at step {self._steps}: {value} ({origin})"
        if self.raise_exception:
            raise InvalidValue(text, index, self._steps)
        if not (self.warn_once and self._warned):
            self._warned = True
            warnings.warn(text, stacklevel=4)

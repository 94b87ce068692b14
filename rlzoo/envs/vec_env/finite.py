"""Asking environments for numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlzoo.core.errors import EnvironmentFailed
from rlzoo.envs.vec_env.vec_env import StepArrays


def check_finite(result: StepArrays, step: int) -> None:
    """Ask that environments returned numbers, before these are remembered.

    :param step: the steps that each environment has taken
    :raises EnvironmentFailed: naming the environment, what it returned, and the step
    """
    everywhere = range(len(result.rewards))
    _check_rows("reward", result.rewards, everywhere, step)
    check_finite_obs(result.obs, everywhere, step)
    if len(result.ended):
        check_finite_obs(result.final_obs, result.ended.tolist(), step)


def check_finite_obs(obs: Any, envs: Sequence[int], step: int) -> None:
    """Raise if observations [n, ...] hold NaN or infinity.

    :param envs: the environments that the rows come from
    :raises EnvironmentFailed: naming the environment, what it returned, and the step
    """
    if isinstance(obs, dict):
        for name, rows in obs.items():
            _check_rows(name, rows, envs, step)
    else:
        _check_rows("observation", obs, envs, step)


def _check_rows(name: str, rows: np.ndarray, envs: Sequence[int], step: int) -> None:
    """:param envs: the environments that the rows come from"""
    if rows.dtype.kind != "f" or math.isfinite(np.vdot(rows, rows)):
        return
    rows = rows.reshape(len(rows), -1)
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):  # else the numbers are only too large to be squared
        row, entry = (int(index) for index in bad[0])
        env = int(envs[row])
        value = rows[row, entry]
        raise EnvironmentFailed(f"environment {env} returned {value} in its {name} at step {step}", env, step)

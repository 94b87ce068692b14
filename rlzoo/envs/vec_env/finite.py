"""Check that observations and rewards are finite."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rlzoo.core.errors import EnvironmentFailed
from rlzoo.core.observations import Obs
from rlzoo.envs.vec_env.vec_env import VecStep


def check_finite(result: VecStep, step: int) -> None:
    """Raise if rewards or observations of a step hold NaN or infinity, before they are stored.

    :param step: number of steps that each environment has taken
    :raises EnvironmentFailed: names the environment, the value, and the step
    """
    everywhere = range(len(result.rewards))
    _check_rows("reward", result.rewards, everywhere, step)
    check_finite_obs(result.obs, everywhere, step)
    if result.final_obs is not None:
        check_finite_obs(result.final_obs, result.ended.tolist(), step)


def check_finite_obs(obs: Obs, envs: Sequence[int], step: int) -> None:
    """Raise if observations [n, ...] hold NaN or infinity.

    :param envs: index of the environment of each row
    :raises EnvironmentFailed: names the environment, the value, and the step
    """
    if isinstance(obs, dict):
        for name, rows in obs.items():
            _check_rows(name, rows, envs, step)
    elif isinstance(obs, tuple):
        for position, rows in enumerate(obs):
            _check_rows(f"observation[{position}]", rows, envs, step)
    else:
        _check_rows("observation", obs, envs, step)


def _check_rows(name: str, rows: np.ndarray, envs: Sequence[int], step: int) -> None:
    """Raise for a value that is not finite in rows [n, ...] of the environments `envs`."""
    if rows.dtype.kind != "f" or math.isfinite(np.vdot(rows, rows)):
        return
    rows = rows.reshape(len(rows), -1)
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):  # else only the sum of squares overflowed
        row, entry = (int(index) for index in bad[0])
        env = int(envs[row])
        value = rows[row, entry]
        raise EnvironmentFailed(f"environment {env} returned {value} in its {name} at step {step}", env, step)

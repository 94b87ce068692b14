"""Rewards of goal environments for pairs of achieved and desired goals."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.core.observations import Info

N_PROBES = 8
RewardFunction: TypeAlias = "Callable[[np.ndarray, np.ndarray, object], np.ndarray]"


class GoalRewards:
    """`compute_reward(achieved_goal, desired_goal, info)` of an environment, found once.

    It is called with whole batches where it gives the same for a batch as for each row by itself.

    :param env: a vector environment, of which the first is asked, or a Gymnasium environment
    :param needs_infos: whether rewards depend on infos; then the first batch shows whether batches work
    :raises UserError: the environment has no such method, or it fails
    """

    def __init__(self, env: object, goal_space: spaces.Space[object], needs_infos: bool = False) -> None:
        self._compute = _compute_reward(env)
        self._no_infos: list[Info] = []
        self._in_batches: bool | None = None
        if not needs_infos:
            self._check(*_probes(goal_space), [{}] * N_PROBES)

    def __call__(
        self, achieved: np.ndarray, desired: np.ndarray, infos: Sequence[Info] | None = None
    ) -> np.ndarray:
        """Compute rewards [n] float32 of goals [n, ...]."""
        if infos is None:
            if len(self._no_infos) != len(achieved):
                self._no_infos = [{}] * len(achieved)
            infos = self._no_infos
        if self._in_batches is None and len(achieved):
            self._check(achieved[:N_PROBES], desired[:N_PROBES], infos[:N_PROBES])
        if self._in_batches:
            return np.asarray(self._compute(achieved, desired, infos), np.float32).reshape(len(achieved))
        return self._row_by_row(achieved, desired, infos)

    def _row_by_row(self, achieved: np.ndarray, desired: np.ndarray, infos: Sequence[Info]) -> np.ndarray:
        rows = zip(achieved, desired, infos, strict=True)
        return np.array([float(self._compute(*row)) for row in rows], np.float32)

    def _check(self, achieved: np.ndarray, desired: np.ndarray, infos: Sequence[Info]) -> None:
        """Check on goals [n, ...] whether `compute_reward` takes batches."""
        singly = batched = None
        problem: Exception | None = None
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                singly = self._row_by_row(achieved, desired, infos)
            except Exception as error:
                problem = error
            try:
                batched = np.asarray(self._compute(achieved, desired, infos), np.float32)
            except Exception as error:
                problem = problem or error
        if batched is not None and batched.size == len(achieved):
            batched = batched.reshape(-1)
            self._in_batches = singly is None or np.allclose(batched, singly, equal_nan=True)
        else:
            self._in_batches = False
        if not self._in_batches and singly is None:
            reason = f"{type(problem).__name__}: {problem}".splitlines()[0]
            raise UserError(
                "compute_reward(achieved_goal, desired_goal, info) of the environment fails"
                f" ({reason}); where it needs infos, set copy_info_dict=True"
            ) from problem
        if not self._in_batches:
            warnings.warn(
                "compute_reward of the environment does not take batches (goals [n, ...], a list of infos):"
                " it is called for each transition, which is slow",
                stacklevel=4,
            )


def _compute_reward(env: Any) -> RewardFunction:
    missing = UserError(
        "HER needs compute_reward(achieved_goal, desired_goal, info), which the environment lacks"
    )
    try:
        if not hasattr(env, "env_method"):
            found: RewardFunction = env.get_wrapper_attr("compute_reward")
            return found
        if hasattr(env.unwrapped, "envs"):  # in this process, where the method can be called directly
            found = env.get_attr("compute_reward", 0)[0]
            return found
    except (AttributeError, NotImplementedError):
        raise missing from None
    return lambda *arguments: env.env_method("compute_reward", *arguments, indices=0)[0]


def _probes(space: spaces.Space[object]) -> tuple[np.ndarray, np.ndarray]:
    """Return goals [N_PROBES, ...], as a buffer stores them; every second pair is one and the same."""
    space = copy.deepcopy(space)
    space.seed(0)
    desired = np.stack([np.asarray(space.sample()) for _ in range(N_PROBES)])
    achieved = np.stack([np.asarray(space.sample()) for _ in range(N_PROBES)])
    achieved[::2] = desired[::2]
    return achieved, desired

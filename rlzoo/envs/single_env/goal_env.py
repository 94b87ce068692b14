"""Goal environments: observations are a Dict of what is seen, what is achieved and what is desired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError

GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")


class HERGoalEnvWrapper(gym.ObservationWrapper[Any, Any, Any]):
    """Shows the observation and both goals of a goal environment as one vector, in the order of `GOAL_KEYS`.

    For algorithms and policies that take no Dict. `HER` reads the Dict itself: give it the environment with
    or without this wrapper; `predict` of its agents takes both forms of an observation.

    :param env: a goal environment whose three spaces are all Box, all MultiBinary or all Discrete
    :raises UserError: it has no goals, or spaces of different kinds
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, spaces.Dict) or any(key not in space.spaces for key in GOAL_KEYS):
            raise UserError(
                f"HERGoalEnvWrapper needs a goal environment, whose observations are a Dict of"
                f" {', '.join(GOAL_KEYS)}; these are {space}"
            )
        self.goal_spaces: dict[str, spaces.Space[Any]] = {key: space[key] for key in GOAL_KEYS}
        self.observation_space = _joined(list(self.goal_spaces.values()))

    def convert_dict_to_obs(self, obs_dict: Mapping[str, Any]) -> np.ndarray:
        """The three entries, each [..., *its shape], as one array [..., n]."""
        parts = []
        for key, space in self.goal_spaces.items():
            part = np.asarray(obs_dict[key])
            lead = part.shape[: part.ndim - len(space.shape or ())]
            parts.append(part.reshape((*lead, -1)))
        return np.concatenate(parts, axis=-1).astype(self.observation_space.dtype, copy=False)

    def convert_obs_to_dict(self, observations: np.ndarray) -> dict[str, np.ndarray]:
        """The inverse of `convert_dict_to_obs`: an array [..., n] as the three entries."""
        return split_goals(observations, self.goal_spaces)

    def observation(self, observation: Mapping[str, Any]) -> np.ndarray:
        """See `convert_dict_to_obs`."""
        return self.convert_dict_to_obs(observation)

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """What the goal environment pays for having achieved one goal when another was desired."""
        return self.env.get_wrapper_attr("compute_reward")(achieved_goal, desired_goal, info)


def split_goals(observations: Any, goal_spaces: Mapping[str, spaces.Space[Any]]) -> dict[str, np.ndarray]:
    """An array [..., n] of observations and goals in the order of `GOAL_KEYS`, as entries of these spaces.

    :raises UserError: it has more or fewer numbers than they
    """
    observations = np.asarray(observations)
    ordered = {key: goal_spaces[key] for key in GOAL_KEYS}
    widths = [int(np.prod(space.shape or ())) for space in ordered.values()]
    if observations.shape[-1:] != (sum(widths),):
        raise UserError(f"a vector of {sum(widths)} numbers was expected, not shape {observations.shape}")
    parts = np.split(observations, np.cumsum(widths)[:-1], axis=-1)
    return {
        key: part.reshape((*part.shape[:-1], *(space.shape or ()))).astype(space.dtype, copy=False)
        for (key, space), part in zip(ordered.items(), parts, strict=True)
    }


def _joined(parts: list[spaces.Space[Any]]) -> spaces.Space[Any]:
    """One space for the entries of all parts, flattened."""
    if all(isinstance(part, spaces.Box) for part in parts):
        dtype: Any = np.result_type(*(part.dtype for part in parts if part.dtype is not None))
        low, high = (
            np.concatenate([getattr(part, bound).reshape(-1) for part in parts]).astype(dtype)
            for bound in ("low", "high")
        )
        return spaces.Box(low, high, dtype=dtype)
    if all(isinstance(part, spaces.MultiBinary) for part in parts):
        return spaces.MultiBinary(sum(int(np.prod(part.shape or ())) for part in parts))
    if all(isinstance(part, spaces.Discrete) and part.start == 0 for part in parts):
        return spaces.MultiDiscrete([part.n for part in parts if isinstance(part, spaces.Discrete)])
    kinds = ", ".join(type(part).__name__ for part in parts)
    raise UserError(
        f"HERGoalEnvWrapper needs three spaces of one kind (Box, MultiBinary, Discrete), not {kinds}"
    )

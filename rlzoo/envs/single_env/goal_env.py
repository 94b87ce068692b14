"""Goal-conditioned environments: Dict observations with an achieved and a desired goal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.core import ActType

from rlzoo.core.errors import UserError
from rlzoo.core.observations import Info

GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")


class HERGoalEnvWrapper(gym.ObservationWrapper[np.ndarray, ActType, Mapping[str, np.ndarray]]):
    """Concatenate observation, achieved goal and desired goal (`GOAL_KEYS`) to one vector.

    >>> env = HERGoalEnvWrapper(BitFlippingEnv(n_bits=5))
    >>> env.observation_space  # 5 + 5 + 5
    MultiBinary(15)

    For algorithms and policies that do not support Dict observations. `HER` accepts environments with and
    without this wrapper, and `predict` of its agents accepts both kinds of observations.

    :param env: a goal-conditioned environment whose three spaces are all Box, all MultiBinary or all Discrete
    :raises UserError: the environment has no goals, or spaces of different kinds
    """

    def __init__(self, env: gym.Env[Mapping[str, np.ndarray], ActType]) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, spaces.Dict) or any(key not in space.spaces for key in GOAL_KEYS):
            raise UserError(
                f"HERGoalEnvWrapper needs a goal environment, whose observations are a Dict of"
                f" {', '.join(GOAL_KEYS)}; these are {space}"
            )
        self.goal_spaces: dict[str, spaces.Space] = {key: space[key] for key in GOAL_KEYS}
        self.observation_space = _joined(list(self.goal_spaces.values()))

    def convert_dict_to_obs(self, obs_dict: Mapping[str, npt.ArrayLike]) -> np.ndarray:
        """Concatenate the three entries [..., *shape] to one array [..., n]."""
        parts = []
        for key, space in self.goal_spaces.items():
            part = np.asarray(obs_dict[key])
            lead = part.shape[: part.ndim - len(space.shape or ())]
            parts.append(part.reshape((*lead, -1)))
        return np.concatenate(parts, axis=-1).astype(self.observation_space.dtype, copy=False)

    def convert_obs_to_dict(self, observations: np.ndarray) -> dict[str, np.ndarray]:
        """Split an array [..., n] into the three entries: the inverse of `convert_dict_to_obs`."""
        return split_goals(observations, self.goal_spaces)

    def observation(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        """Concatenate the entries of an observation."""
        return self.convert_dict_to_obs(observation)

    def compute_reward(
        self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Info | Sequence[Info]
    ) -> npt.ArrayLike:
        """Return the environment's reward for an achieved and a desired goal (or batches of them)."""
        reward: npt.ArrayLike = self.env.get_wrapper_attr("compute_reward")(achieved_goal, desired_goal, info)
        return reward


def split_goals(
    observations: npt.ArrayLike, goal_spaces: Mapping[str, spaces.Space]
) -> dict[str, np.ndarray]:
    """Split an array [..., n] into entries of these spaces, in the order of `GOAL_KEYS`.

    :raises UserError: the last axis has another length than the spaces together
    """
    array = np.asarray(observations)
    ordered = {key: goal_spaces[key] for key in GOAL_KEYS}
    widths = [int(np.prod(space.shape or ())) for space in ordered.values()]
    if array.shape[-1:] != (sum(widths),):
        raise UserError(f"a vector of {sum(widths)} numbers was expected, not shape {array.shape}")
    parts = np.split(array, np.cumsum(widths)[:-1], axis=-1)
    return {
        key: part.reshape((*part.shape[:-1], *(space.shape or ()))).astype(space.dtype, copy=False)
        for (key, space), part in zip(ordered.items(), parts, strict=True)
    }


def _joined(parts: list[spaces.Space]) -> spaces.Space:
    """Return the space of the flattened and concatenated parts."""
    if all(isinstance(part, spaces.Box) for part in parts):
        dtype = np.result_type(*(part.dtype for part in parts if part.dtype is not None))
        low, high = (
            np.concatenate([getattr(part, bound).reshape(-1) for part in parts]).astype(dtype)
            for bound in ("low", "high")
        )
        return spaces.Box(low, high, dtype=dtype.type)
    if all(isinstance(part, spaces.MultiBinary) for part in parts):
        return spaces.MultiBinary(sum(int(np.prod(part.shape or ())) for part in parts))
    if all(isinstance(part, spaces.Discrete) and part.start == 0 for part in parts):
        return spaces.MultiDiscrete([part.n for part in parts if isinstance(part, spaces.Discrete)])
    kinds = ", ".join(type(part).__name__ for part in parts)
    raise UserError(
        f"HERGoalEnvWrapper needs three spaces of one kind (Box, MultiBinary, Discrete), not {kinds}"
    )

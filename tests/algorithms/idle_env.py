"""An environment that nothing is learned in: tests of equations need its spaces and, some, its episodes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

OBSERVATIONS = spaces.Box(-1, 1, (3,), np.float32)
ACTIONS = spaces.Box(-1, 1, (2,), np.float32)
ASYMMETRIC_ACTIONS = spaces.Box(np.array([-1.0, 0.0]), np.array([3.0, 0.5]), dtype=np.float64)


class IdleEnv(gym.Env[Any, Any]):
    """Sampled observations; the reward is the first action; episodes end with probability 0.1.

    :param truncates: episodes are truncated; False: they terminate
    """

    def __init__(
        self,
        action_space: spaces.Space[Any] = ACTIONS,
        observation_space: spaces.Space[Any] = OBSERVATIONS,
        truncates: bool = False,
    ) -> None:
        self.action_space, self.observation_space = action_space, observation_space
        self.truncates = truncates

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        ended = bool(self.np_random.random() < 0.1)
        over = (False, ended) if self.truncates else (ended, False)
        return self.observation_space.sample(), float(action[0]), *over, {}

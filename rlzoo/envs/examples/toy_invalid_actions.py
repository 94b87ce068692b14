"""Small environments in which some actions are invalid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.core.spaces import choice_counts
from rlzoo.envs.examples.toy import IdentityEnv, Reset, Step


class InvalidActionEnv(IdentityEnv):
    """IdentityEnv that says at every step which choices are invalid: others each time, never the right one.

    An invalid choice does nothing worse than being wrong, so that an agent without masks can be compared.

    :param space: Discrete, MultiDiscrete or MultiBinary
    :param n_invalid_actions: number of choices, of all dimensions together, that are invalid
    """

    def __init__(self, space: spaces.Space[Any], ep_length: int = 100, n_invalid_actions: int = 0) -> None:
        super().__init__(space=space, ep_length=ep_length)
        counts = choice_counts(space)
        most = sum(counts) - len(counts)  # one is left to choose everywhere
        if not 0 <= n_invalid_actions <= most:
            raise UserError(f"n_invalid_actions must be from 0 to {most}, not {n_invalid_actions}")
        self.n_invalid_actions = n_invalid_actions
        self._n_choices = sum(counts)
        self._firsts = np.cumsum([0, *counts[:-1]])  # where the choices of each dimension begin
        self._masks = np.ones(self._n_choices, bool)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Begin an episode; `seed` fixes all observations and masks to come."""
        begun = super().reset(seed=seed, options=options)
        self._draw_masks()
        return begun

    def step(self, action: Any) -> Step:
        """Compare the action with the observation, then show another one."""
        stepped = super().step(action)
        self._draw_masks()
        return stepped

    def _draw_masks(self) -> None:
        if self.n_invalid_actions:
            scores = self.np_random.random(self._n_choices)
            scores[self._firsts + np.ravel(self.state)] = 1.0  # the right ones are never among the lowest
            highest = np.partition(scores, self.n_invalid_actions - 1)[self.n_invalid_actions - 1]
            self._masks = scores > highest

    def action_masks(self) -> np.ndarray:
        """Which choices are valid now, bool [n_choices]."""
        return self._masks


class InvalidActionEnvDiscrete(InvalidActionEnv):
    """InvalidActionEnv with one choice among `dim`."""

    def __init__(self, dim: int = 1, ep_length: int = 100, n_invalid_actions: int = 0) -> None:
        super().__init__(spaces.Discrete(dim), ep_length, n_invalid_actions)


class InvalidActionEnvMultiDiscrete(InvalidActionEnv):
    """InvalidActionEnv with several choices, the i-th among `dims[i]`."""

    def __init__(
        self, dims: Sequence[int] = (1, 1), ep_length: int = 100, n_invalid_actions: int = 0
    ) -> None:
        super().__init__(spaces.MultiDiscrete(list(dims)), ep_length, n_invalid_actions)


class InvalidActionEnvMultiBinary(InvalidActionEnv):
    """InvalidActionEnv with `dims` bits, each of which has two choices, no and yes."""

    def __init__(self, dims: int = 1, ep_length: int = 100, n_invalid_actions: int = 0) -> None:
        super().__init__(spaces.MultiBinary(dims), ep_length, n_invalid_actions)

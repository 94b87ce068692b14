"""Small environments in which some actions are invalid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import choice_counts
from rlzoo.envs.examples.toy import Action, IdentityEnv, Reset, Step


class InvalidActionEnv(IdentityEnv):
    """IdentityEnv with action masks: at each step, random choices are invalid, but never the right one.

    Invalid choices have reward 0, so that agents with and without masks can be compared.

    :param space: Discrete, MultiDiscrete or MultiBinary
    :param ep_length: number of steps after which an episode is truncated
    :param n_invalid_actions: number of invalid choices, over all dimensions
    :raises UserError: more invalid choices than there can be
    """

    def __init__(self, space: spaces.Space, ep_length: int = 100, n_invalid_actions: int = 0) -> None:
        super().__init__(space=space, ep_length=ep_length)
        counts = choice_counts(space)
        most = sum(counts) - len(counts)  # at least one choice per dimension is valid
        if not 0 <= n_invalid_actions <= most:
            raise UserError(f"n_invalid_actions must be from 0 to {most}, not {n_invalid_actions}")
        self.n_invalid_actions = n_invalid_actions
        self._n_choices = sum(counts)
        self._firsts = np.cumsum([0, *counts[:-1]])  # index of the first choice of each dimension
        self._masks = np.ones(self._n_choices, bool)

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> Reset:
        """Start an episode; `seed` determines all following observations and masks."""
        begun = super().reset(seed=seed, options=options)
        self._draw_masks()
        return begun

    def step(self, action: Action) -> Step:
        """Compare the action with the observation; return the next one."""
        stepped = super().step(action)
        self._draw_masks()
        return stepped

    def _draw_masks(self) -> None:
        if self.n_invalid_actions:
            scores = self.np_random.random(self._n_choices)
            scores[self._firsts + np.ravel(self.state)] = 1.0  # right choices are never among the lowest
            highest = np.partition(scores, self.n_invalid_actions - 1)[self.n_invalid_actions - 1]
            self._masks = scores > highest

    def action_masks(self) -> np.ndarray:
        """Return which choices are valid now, bool [n_choices]."""
        return self._masks


class InvalidActionEnvDiscrete(InvalidActionEnv):
    """InvalidActionEnv with a Discrete of `dim` actions."""

    def __init__(self, dim: int = 1, ep_length: int = 100, n_invalid_actions: int = 0) -> None:
        super().__init__(spaces.Discrete(dim), ep_length, n_invalid_actions)


class InvalidActionEnvMultiDiscrete(InvalidActionEnv):
    """InvalidActionEnv with a MultiDiscrete; dimension i has `dims[i]` choices."""

    def __init__(
        self, dims: Sequence[int] = (1, 1), ep_length: int = 100, n_invalid_actions: int = 0
    ) -> None:
        super().__init__(spaces.MultiDiscrete(list(dims)), ep_length, n_invalid_actions)


class InvalidActionEnvMultiBinary(InvalidActionEnv):
    """InvalidActionEnv with a MultiBinary of `dims` bits, each with the choices 0 and 1."""

    def __init__(self, dims: int = 1, ep_length: int = 100, n_invalid_actions: int = 0) -> None:
        super().__init__(spaces.MultiBinary(dims), ep_length, n_invalid_actions)

"""The stacks of a `VecFrameStack` without a vector environment."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from rlzoo.core.observations import Obs
from rlzoo.envs.vec_wrappers.vec_frame_stack import FrameStack, VecFrameStack, stacks_first

Order = Mapping[str, str | None] | str | None


class StackedObservations:
    """The last `n_stack` observations of each environment as one, as `VecFrameStack` stacks them.

    :param num_envs: number of environments
    :param n_stack: observations in a stack
    :param observation_space: a Box, or a Dict of them: then each part is one of `sub_stacked_observations`
    :param channels_order: as for `VecFrameStack`
    :raises UserError: another space, or another order

    >>> space = spaces.Box(-1, 1, (4,))
    >>> StackedObservations(2, 3, space).reset(np.zeros((2, 4), np.float32)).shape
    (2, 12)
    """

    def __init__(
        self,
        num_envs: int,
        n_stack: int,
        observation_space: spaces.Space[Any],
        channels_order: Order = None,
    ) -> None:
        self.n_stack = n_stack
        self.observation_space = observation_space
        if isinstance(observation_space, spaces.Dict):
            orders = channels_order if isinstance(channels_order, Mapping) else {}
            default = None if isinstance(channels_order, Mapping) else channels_order
            self.sub_stacked_observations = {
                key: StackedObservations(num_envs, n_stack, part, orders.get(key, default))
                for key, part in observation_space.spaces.items()
            }
            parts = {key: one.stacked_observation_space for key, one in self.sub_stacked_observations.items()}
            self.stacked_observation_space: spaces.Space[Any] = spaces.Dict(parts)
            return
        order = channels_order if isinstance(channels_order, str) else None
        self._use(FrameStack(observation_space, num_envs, n_stack, order))

    def _use(self, stack: FrameStack) -> None:
        self._stack = stack
        self.channels_first = stack.first
        self.repeat_axis, self.stack_dimension = _axes(stack.first)
        self.stacked_shape = stack.space.shape
        self.stacked_observation_space = stack.space

    @classmethod
    def of(cls, venv: VecFrameStack) -> StackedObservations:
        """Return the stacks of a vector environment, which go on with it."""
        stacked = cls(venv.num_envs, venv.n_stack, venv.venv.observation_space)
        for key, stack in venv.stacks.items():
            one = stacked if key is None else stacked.sub_stacked_observations[key]
            one._use(stack)
        stacked.stacked_observation_space = venv.observation_space
        return stacked

    @staticmethod
    def compute_stacking(
        n_stack: int, observation_space: spaces.Box, channels_order: str | None = None
    ) -> tuple[bool, int, tuple[int, ...], int]:
        """Return whether the first axis is stacked, its number in a batch, the stack's shape, and its number.

        :raises UserError: an unknown order
        """
        first = stacks_first(observation_space, channels_order)
        repeat_axis, stack_dimension = _axes(first)
        shape = list(observation_space.shape)
        shape[repeat_axis] *= n_stack
        return first, stack_dimension, tuple(shape), repeat_axis

    @property
    def stacked_obs(self) -> Obs:
        """The present stacks [num_envs, ...]."""
        if isinstance(self.observation_space, spaces.Dict):
            return {key: one.stacked_obs for key, one in self.sub_stacked_observations.items()}
        return self._stack.stacks()

    def reset(self, observation: Obs) -> Obs:
        """Begin every stack with one observation [num_envs, ...]."""
        if isinstance(self.observation_space, spaces.Dict):
            return {key: one.reset(observation[key]) for key, one in self.sub_stacked_observations.items()}
        return self._stack.reset(observation)

    def update(
        self, observations: Obs, dones: np.ndarray, infos: list[dict[str, Any]]
    ) -> tuple[Obs, list[dict[str, Any]]]:
        """Add the observations of a step; where an episode ended, the stack starts again.

        :param infos: `terminal_observation` in them is replaced by its stack
        :return: the stacks [num_envs, ...] and the infos
        """
        ended = np.flatnonzero(dones)
        finals: list[Any] = [infos[index].get("terminal_observation") for index in ended]
        if any(final is None for final in finals):
            warnings.warn("the info of an episode that ended lacks its 'terminal_observation'", stacklevel=2)
        stacked, ends = self._push(observations, ended, finals)
        for index, final, end in zip(ended, finals, ends, strict=True):
            if final is not None:
                infos[index]["terminal_observation"] = end
        return stacked, infos

    def _push(self, observations: Obs, ended: np.ndarray, finals: Sequence[Any]) -> tuple[Obs, list[Any]]:
        """Return the stacks, and those that ended an episode."""
        if isinstance(self.observation_space, spaces.Dict):
            parts = {
                key: one._push(observations[key], ended, [None if f is None else f[key] for f in finals])
                for key, one in self.sub_stacked_observations.items()
            }
            ends = [{key: part[1][row] for key, part in parts.items()} for row in range(len(ended))]
            return {key: part[0] for key, part in parts.items()}, ends
        rows = [observations[index] if f is None else f for index, f in zip(ended, finals, strict=True)]
        stacked, last = self._stack.push(observations, ended, np.stack(rows) if rows else None)
        return stacked, [] if last is None else list(last)


def _axes(first: bool) -> tuple[int, int]:
    """The stacked axis of an observation and of a batch of them."""
    return (0, 1) if first else (-1, -1)

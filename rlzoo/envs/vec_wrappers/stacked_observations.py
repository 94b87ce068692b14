"""Frame stacking without a vectorised environment, with the API of stable-baselines3."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from gymnasium import spaces

from rlzoo.core.observations import Info, Obs
from rlzoo.envs.vec_wrappers.frame_stack import FrameStack, stacks_first

Order = Mapping[str, str | None] | str | None


class StackedObservations:
    """Stack the last `n_stack` observations of each environment, as `VecFrameStack` does.

    :param num_envs: number of environments
    :param n_stack: number of observations in a stack
    :param observation_space: a Box, or a Dict of them; its parts are in `sub_stacked_observations`
    :param channels_order: see `VecFrameStack`
    :raises UserError: another space, or an unknown order

    >>> space = spaces.Box(-1, 1, (4,))
    >>> StackedObservations(2, 3, space).reset(np.zeros((2, 4), np.float32)).shape
    (2, 12)
    """

    def __init__(
        self,
        num_envs: int,
        n_stack: int,
        observation_space: spaces.Space,
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
            self.stacked_observation_space: spaces.Space = spaces.Dict(parts)
            return
        order = channels_order if isinstance(channels_order, str) else None
        self.use(FrameStack(observation_space, num_envs, n_stack, order))

    def use(self, stack: FrameStack) -> None:
        """Take over the frames of a stack."""
        self.frame_stack = stack
        self.channels_first = stack.first
        self.repeat_axis, self.stack_dimension = _axes(stack.first)
        self.stacked_shape = stack.space.shape
        self.stacked_observation_space = stack.space

    @classmethod
    def of(
        cls,
        stacks: Mapping[str | None, FrameStack],
        n_stack: int,
        observation_space: spaces.Space,
        stacked_space: spaces.Space,
    ) -> StackedObservations:
        """Return the stacks of a `VecFrameStack`; they share its memory."""
        num_envs = len(next(iter(stacks.values())).frames)
        stacked = cls(num_envs, n_stack, observation_space)
        for key, stack in stacks.items():
            one = stacked if key is None else stacked.sub_stacked_observations[key]
            one.use(stack)
        stacked.stacked_observation_space = stacked_space
        return stacked

    @staticmethod
    def compute_stacking(
        n_stack: int, observation_space: spaces.Box, channels_order: str | None = None
    ) -> tuple[bool, int, tuple[int, ...], int]:
        """Return (first axis stacked?, stacked axis in a batch, shape of a stack, stacked axis).

        :raises UserError: an unknown order
        """
        first = stacks_first(observation_space, channels_order)
        repeat_axis, stack_dimension = _axes(first)
        shape = list(observation_space.shape)
        shape[repeat_axis] *= n_stack
        return first, stack_dimension, tuple(shape), repeat_axis

    @property
    def stacked_obs(self) -> Obs:
        """The current stacks [num_envs, ...]."""
        if isinstance(self.observation_space, spaces.Dict):
            return {key: one.frame_stack.stacks() for key, one in self.sub_stacked_observations.items()}
        return self.frame_stack.stacks()

    def reset(self, observation: Obs) -> Obs:
        """Start every stack with one observation of the batch [num_envs, ...]; return the stacks."""
        if isinstance(observation, dict):
            stacks = {key: one.frame_stack for key, one in self.sub_stacked_observations.items()}
            return {key: stack.reset(observation[key]) for key, stack in stacks.items()}
        return self.frame_stack.reset(cast(np.ndarray, observation))

    def update(self, observations: Obs, dones: np.ndarray, infos: list[Info]) -> tuple[Obs, list[Info]]:
        """Add the observations of a step; restart the stacks of episodes that ended.

        :param infos: `terminal_observation` in them is replaced by its stack
        :return: the stacks [num_envs, ...] and the infos
        """
        ended = np.flatnonzero(dones)
        finals: list[Obs | None] = [infos[index].get("terminal_observation") for index in ended]
        if any(final is None for final in finals):
            warnings.warn("the info of an episode that ended lacks its 'terminal_observation'", stacklevel=2)
        stacked, ends = self.push(observations, ended, finals)
        for index, final, end in zip(ended, finals, ends, strict=True):
            if final is not None:
                infos[index]["terminal_observation"] = end
        return stacked, infos

    def push(
        self, observations: Obs, ended: np.ndarray, finals: Sequence[Obs | None]
    ) -> tuple[Obs, Sequence[Obs]]:
        """Add observations; return the stacks, and the final stacks of the episodes that ended.

        :param ended: indices of the environments whose episode ended
        :param finals: the final observation of each; None where it is unknown
        """
        if not isinstance(observations, dict):
            return _pushed(self.frame_stack, cast(np.ndarray, observations), ended, finals)
        parts = {
            key: _pushed(
                one.frame_stack,
                observations[key],
                ended,
                [final[key] if isinstance(final, dict) else None for final in finals],
            )
            for key, one in self.sub_stacked_observations.items()
        }
        ends = [{key: last[row] for key, (_, last) in parts.items()} for row in range(len(ended))]
        return {key: stacked for key, (stacked, _) in parts.items()}, ends


def _pushed(
    stack: FrameStack, observations: np.ndarray, ended: np.ndarray, finals: Sequence[Obs | None]
) -> tuple[np.ndarray, list[np.ndarray]]:
    rows = [
        observations[index] if final is None else cast(np.ndarray, final)
        for index, final in zip(ended, finals, strict=True)
    ]
    stacked, last = stack.push(observations, ended, np.stack(rows) if rows else None)
    return stacked, [] if last is None else list(last)


def _axes(first: bool) -> tuple[int, int]:
    """Return the stacked axis of an observation, and of a batch."""
    return (0, 1) if first else (-1, -1)

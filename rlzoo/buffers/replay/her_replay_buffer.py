"""Hindsight experience replay: Andrychowicz et al. (2017), https://arxiv.org/abs/1707.01495.

Of n + 1 sampled transitions, n are relabelled: their desired goal becomes a goal that was achieved, and their
reward is recomputed. Goals are relabelled at every sampling; episodes are stored once, unchanged. Termination
is not recomputed.
"""

from __future__ import annotations

import warnings
from enum import Enum
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.buffers.base_buffer import Obs, StepResult
from rlzoo.buffers.replay.final_obs_store import Rows, as_array
from rlzoo.buffers.replay.goal_rewards import GoalRewards
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.buffers.replay.replay_buffer import ENDED, FINAL_STORED, ReplayBuffer
from rlzoo.buffers.replay.replay_observations import Dtypes
from rlzoo.buffers.replay.stored_infos import decode_infos, encode_infos
from rlzoo.core.errors import UserError, unknown

GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")
N_COMPARED = 64  # transitions whose rewards are compared with compute_reward
MAX_MISMATCH_FRACTION = 0.1  # share of them that may differ: penalties for collisions and the like


class GoalSelectionStrategy(str, Enum):
    """Strategy for the new goals of HER; by name, in any case, or by member."""

    FUTURE = "future"  # achieved in the same episode, at this step or later
    FINAL = "final"  # achieved at the end of the same episode
    EPISODE = "episode"  # achieved at any step of the same episode
    RANDOM = "random"  # achieved at any step in the buffer

    @classmethod
    def _missing_(cls, value: object) -> GoalSelectionStrategy:
        if isinstance(value, str) and value.lower() in (known := [member.value for member in cls]):
            return cls(known[known.index(value.lower())])
        raise unknown("goal_selection_strategy", str(value), [member.value for member in cls])


KEY_TO_GOAL_STRATEGY = {strategy.value: strategy for strategy in GoalSelectionStrategy}
"""The strategies by name."""


class HerReplayBuffer(ReplayBuffer):
    """Replay buffer for goal environments that relabels goals when it samples (HER).

    Only finished episodes are sampled; of a partly overwritten episode, what is left. A wrapper that changes
    rewards must change those of `compute_reward` as well; the first sampling warns if they differ.

    Source: Andrychowicz et al. 2017, https://arxiv.org/abs/1707.01495.

    Example:
        >>> from rlzoo import DQN, BitFlippingEnv
        >>> env = BitFlippingEnv(n_bits=8)
        >>> model = DQN("MultiInputPolicy", env, replay_buffer_class=HerReplayBuffer).learn(200)

    :param env: the environment, whose `compute_reward` computes the rewards of new goals
    :param n_sampled_goal: relabelled transitions for each original one
    :param goal_selection_strategy: of new goals, a `GoalSelectionStrategy` or its name
    :param copy_info_dict: keep the infos of all steps, for a `compute_reward` that needs them
    :raises UserError: no goal environment, or returns of several steps
    """

    needs_env: ClassVar[bool] = True

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[object],
        action_space: spaces.Space[object],
        env: object = None,
        device: torch.device | str = "cpu",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        n_sampled_goal: int = 4,
        goal_selection_strategy: GoalSelectionStrategy | str = "future",
        copy_info_dict: bool = False,
        **kwargs: Any,
    ) -> None:
        self.check_space(observation_space)
        if kwargs.get("n_steps", 1) != 1:
            raise UserError("HER supports n_steps=1 only: another goal changes the rewards of all n steps")
        if env is None:
            raise UserError(
                "HerReplayBuffer needs env, whose compute_reward computes the rewards of new goals"
            )
        if n_sampled_goal < 0:
            raise UserError(f"n_sampled_goal must be at least 0, not {n_sampled_goal}")
        kwargs["obs_dtypes"] = self._goal_dtypes(observation_space, kwargs.get("obs_dtypes"))
        super().__init__(
            buffer_size,
            observation_space,
            action_space,
            device,
            n_envs,
            optimize_memory_usage,
            handle_timeout_termination,
            **kwargs,
        )
        self.n_sampled_goal = n_sampled_goal
        self.goal_selection_strategy = GoalSelectionStrategy(goal_selection_strategy)
        self.infos = np.empty((self.n_slots, n_envs), object) if copy_info_dict else None
        self.to_end = np.zeros((self.n_slots, n_envs), np.int32)  # steps to the last one of the episode
        self.from_start = np.zeros((self.n_slots, n_envs), np.int32)  # steps since the first one
        self.open_steps = np.zeros(n_envs, np.int64)  # steps of the episodes that have not ended
        self._batch_size = -1  # of which `_relabelled` says which rows get another goal
        self.set_env(env)
        self._compared = False  # whether stored rewards have been compared with compute_reward

    @property
    def her_ratio(self) -> float:
        """The share of relabelled transitions in a batch."""
        return 1 - 1 / (self.n_sampled_goal + 1)

    @classmethod
    def check_space(cls, observation_space: spaces.Space[object]) -> None:
        if not isinstance(observation_space, spaces.Dict) or any(
            key not in observation_space.spaces for key in GOAL_KEYS
        ):
            raise UserError(
                f"HER needs a goal environment, whose observations are a Dict of {', '.join(GOAL_KEYS)};"
                f" these are {observation_space}"
            )
        if observation_space["achieved_goal"].shape != observation_space["desired_goal"].shape:
            raise UserError("HER needs achieved and desired goals of the same shape")

    def set_env(self, env: object) -> None:
        """Set another environment, which computes the rewards of new goals."""
        goals = self.observation_space["desired_goal"]  # type: ignore[index]
        self.goal_rewards = GoalRewards(env, goals, needs_infos=self.infos is not None)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.to_end.nbytes + self.from_start.nbytes

    @classmethod
    def required_bytes(
        cls, buffer_size: int, observation_space: spaces.Space[object], *args: Any, **kwargs: Any
    ) -> int:
        kwargs["obs_dtypes"] = cls._goal_dtypes(observation_space, kwargs.get("obs_dtypes"))
        return super().required_bytes(buffer_size, observation_space, *args, **kwargs) + 8 * buffer_size

    @staticmethod
    def _goal_dtypes(observation_space: spaces.Space[object], dtypes: Dtypes | None) -> Dtypes:
        """Add double precision for goals that have it to `dtypes`: `compute_reward` compares them."""
        parts = observation_space.spaces if isinstance(observation_space, spaces.Dict) else {}
        goals = [key for key in GOAL_KEYS[1:] if key in parts and parts[key].dtype == np.float64]
        return {**(dtypes or {}), **dict.fromkeys(goals, np.float64)}

    def reset(self) -> None:
        super().reset()
        self.open_steps[:] = 0

    # ------------------------------------------------------------------ episodes

    def _on_added(self, slot: int, result: StepResult) -> None:
        self.open_steps += 1
        if self.infos is not None:
            self.infos[slot] = [dict(info) for info in result.infos]
        if len(result.ended):
            self._on_episodes_ended(slot, result.ended)

    def _on_episodes_ended(self, slot: int, envs: np.ndarray) -> None:
        for env in envs:
            length = int(self.open_steps[env])
            back = np.arange(min(length, self.n_slots))
            slots = (slot - back) % self.n_slots
            self.to_end[slots, env] = back
            self.from_start[slots, env] = length - 1 - back
            self.open_steps[env] = 0

    def truncate_last_trajectory(self) -> None:
        """End the episodes in progress as if truncated, with a warning where there are any."""
        if self.open_steps.any():
            warnings.warn(
                "The last trajectory in the replay buffer will be truncated: its episodes end where they are",
                stacklevel=2,
            )
        self.end_episodes()

    def can_sample(self) -> bool:
        """Return whether an episode has ended."""
        return bool((self._size > self.open_steps).any())

    # ------------------------------------------------------------------ drawing

    def _draw(self, count: int) -> np.ndarray:
        finished = np.maximum(self._size - self.open_steps, 0)  # [n_envs] transitions, from the oldest on
        ends = finished.cumsum()
        places: np.ndarray = torch.randint(int(ends[-1]), (count,)).numpy()
        envs = ends.searchsorted(places, side="right")
        slots = places - (ends - finished).take(envs) + self.oldest
        indices: np.ndarray = slots * self.n_envs + envs
        indices -= self._n_rows * (indices >= self._n_rows)
        return indices

    def _assemble(self, indices: np.ndarray) -> ReplayBatch:
        flags = self.flags.reshape(-1).take(indices)
        ended = np.flatnonzero(flags & FINAL_STORED)
        handles = self.handles.reshape(-1).take(indices.take(ended))
        obs, next_obs = self.obs.pair(indices, indices, ended, handles)
        rewards = self.reward_column.reshape(-1).take(indices)
        if not self._compared:
            self._compare_rewards(indices[:N_COMPARED], next_obs, rewards[:N_COMPARED])
        self._relabel(indices, obs, next_obs, rewards)
        return ReplayBatch(
            observations=self._presented(obs),
            actions=self._to_device(self.action_column.gather(indices)),
            next_observations=self._presented(next_obs),
            rewards=self._to_device(self._normalized_rewards(rewards)),
            discounts=self._to_device(self._discounts(indices, indices, flags)),
            indices=indices,
        )

    def _compare_rewards(self, indices: np.ndarray, next_obs: Obs, rewards: np.ndarray) -> None:
        """Warn if the rewards [n] of transitions at indices [n] differ from `compute_reward`."""
        self._compared = True
        achieved, desired = (as_array(next_obs[key][: len(indices)]) for key in GOAL_KEYS[1:])
        infos = None if self.infos is None else list(self.infos.reshape(-1).take(indices))
        computed = self.goal_rewards(achieved, desired, infos)
        differing = np.flatnonzero(~np.isclose(computed, rewards, rtol=1e-4, atol=1e-5, equal_nan=True))
        if len(differing) > MAX_MISMATCH_FRACTION * len(indices):
            first = differing[0]
            warnings.warn(
                f"the environment paid {rewards[first]:.6g} for a transition for which its compute_reward"
                f" gives {computed[first]:.6g} ({len(differing)} of {len(indices)} differ): HER mixes both"
                " kinds of rewards; give the wrapper that changes rewards a compute_reward",
                stacklevel=4,
            )

    def _relabel(self, indices: np.ndarray, obs: Obs, next_obs: Obs, rewards: np.ndarray) -> None:
        """Relabel goals and rewards of n in n + 1 rows; any rows, as they were sampled at random."""
        if len(indices) != self._batch_size:
            self._batch_size = len(indices)
            self._relabelled = np.flatnonzero(
                np.arange(len(indices)) % (min(self.n_sampled_goal, len(indices)) + 1)
            )
        rows = self._relabelled
        if len(rows) == 0:
            return
        chosen = indices.take(rows)
        goals = self._achieved(self._goal_indices(chosen))
        achieved = next_obs["achieved_goal"][rows]
        for part in (obs, next_obs):
            part["desired_goal"][rows] = goals
        infos = None if self.infos is None else list(self.infos.reshape(-1).take(chosen))
        rewards[rows] = self.goal_rewards(as_array(achieved), as_array(goals), infos)

    def _goal_indices(self, indices: np.ndarray) -> np.ndarray:
        """Return, for each transition, the index of the one that achieved its new goal."""
        strategy = self.goal_selection_strategy
        if strategy is GoalSelectionStrategy.RANDOM:
            return self._draw(len(indices))
        n_later = self.to_end.reshape(-1).take(indices)
        if strategy is GoalSelectionStrategy.FINAL:
            steps = n_later.astype(np.int64)
        else:
            n_earlier: np.ndarray | int = 0
            if strategy is GoalSelectionStrategy.EPISODE:
                age = (indices // self.n_envs - self.oldest) % self.n_slots  # what came before is overwritten
                n_earlier = np.minimum(self.from_start.reshape(-1).take(indices), age)
            u = torch.rand(len(indices), dtype=torch.float64).numpy()
            steps = (u * (n_earlier + n_later + 1)).astype(np.int64) - n_earlier
        goals: np.ndarray = (indices + steps * self.n_envs) % self._n_rows
        return goals

    def _achieved(self, indices: np.ndarray) -> Rows:
        """Return the goals [n, ...] that the transitions at indices [n] achieved."""
        following = (indices + self.n_envs) % self._n_rows
        goals: Rows = self.obs.columns["achieved_goal"].gather(following)
        ended = np.flatnonzero(self.flags.reshape(-1).take(indices) & FINAL_STORED)
        if len(ended):
            handles = self.handles.reshape(-1).take(indices.take(ended))
            goals[ended] = self.obs.finals.gather(handles, "achieved_goal")
        return goals

    # ------------------------------------------------------------------ files

    def own_state(self) -> dict[str, float | str]:
        """Return the infos, if there are any; where episodes begin and end follows from the flags."""
        if self.infos is None:
            return {}
        slots = (self.oldest + np.arange(self._size)) % self.n_slots
        return {"infos": encode_infos(self.infos[slots].reshape(-1))}

    def load_own_state(self, state: dict[str, float | str]) -> None:
        slots = (self.oldest + np.arange(self._size)) % self.n_slots
        if self.infos is not None:
            infos = decode_infos(state.get("infos"), self._size * self.n_envs)
            for place, info in enumerate(infos):
                self.infos[slots[place // self.n_envs], place % self.n_envs] = info
        places = np.arange(self._size)[:, None]
        ended = (self.flags[slots] & ENDED) > 0
        next_ends = np.minimum.accumulate(np.where(ended, places, self._size)[::-1])[::-1]
        last_ends = np.maximum.accumulate(np.where(ended, places, -1))
        last_ends = np.concatenate((np.full((1, self.n_envs), -1), last_ends))  # before each place
        self.to_end[slots] = next_ends - places
        self.from_start[slots] = places - 1 - last_ends[:-1]
        self.open_steps = self._size - 1 - last_ends[-1]

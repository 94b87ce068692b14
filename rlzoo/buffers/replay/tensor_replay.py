"""Replay buffer on a device, for environments whose observations and rewards are tensors there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rlzoo.buffers.base_buffer import AddedStep, Normalizer, Obs, map_obs, part_shape
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.buffers.replay.replay_buffer import CHUNK_BYTES, ReplayBuffer
from rlzoo.buffers.replay.replay_observations import Observations
from rlzoo.core.errors import UserError


class TensorReplayBuffer(ReplayBuffer):
    """Ring of transitions with uniform sampling, stored and sampled on one device.

    Both observations of a transition are stored, so that nobody has to ask the device which episodes ended.
    The arrays of a `ReplayBuffer` (`observations`, `rewards`, ...) are copied from the device when they are
    read.

    :param buffer_size: capacity in transitions over all environments
    :param observation_space: a Box or another space of arrays, or a Dict of such
    :param action_space: Box actions are stored as float32, others as int64
    :param device: of all columns and of the sampled batches
    :param n_envs: number of environments
    :param gamma: discount factor
    """

    on_device = True

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[object],
        action_space: spaces.Space[object],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        *,
        gamma: float = 0.99,
    ) -> None:
        super().__init__(n_envs, observation_space, action_space, device, n_envs, gamma=gamma)
        self.buffer_size = self.n_slots = max(buffer_size // n_envs, 1)
        self.buffer_device = self.device
        shape = (self.n_slots, n_envs)

        def zeros(like: Tensor) -> Tensor:
            return torch.zeros((*shape, *like.shape[2:]), dtype=like.dtype, device=self.device)

        small = map_obs(lambda column: column.rows.view(-1, n_envs, *column.rows.shape[1:]), self.obs.columns)
        self.current: Obs = map_obs(lambda rows: torch.zeros_like(rows[0], device=self.device), small)
        self.obs_rows, self.next_obs_rows = map_obs(zeros, small), map_obs(zeros, small)
        actions = self.action_column.rows
        self.action_rows = zeros(actions.view(-1, n_envs, *actions.shape[1:]))
        self.reward_rows = torch.zeros(shape, device=self.device)
        self.terminated, self.truncated = torch.zeros((2, *shape), dtype=torch.bool, device=self.device)

    @classmethod
    def required_bytes(
        cls,
        buffer_size: int,
        observation_space: spaces.Space[object],
        action_space: spaces.Space[object],
        n_envs: int = 1,
        *args: Any,
        **unused: object,
    ) -> int:
        action = 4 if isinstance(action_space, spaces.Box) else 8
        numbers = int(np.prod(action_space.shape or ()))
        row = 2 * Observations.row_bytes(observation_space) + action * numbers + 4 + 1 + 1
        return max(buffer_size // n_envs, 1) * n_envs * row

    @property
    def nbytes(self) -> int:
        return self.required_bytes(
            self.buffer_size * self.n_envs, self.observation_space, self.action_space, self.n_envs
        )

    def reset(self) -> None:
        """Clear the buffer without freeing its memory; episodes in progress go on from where they are."""
        self.head = self.laps = self._size = 0

    # ------------------------------------------------------------------ writing

    def start(self, obs: Obs) -> None:
        self.end_episodes()
        map_obs(lambda row, new: row.copy_(torch.as_tensor(new)), self.current, obs)
        self.started = True

    def end_episodes(self, envs: np.ndarray | None = None) -> None:
        if self._size:
            slot = (self.head - 1) % self.n_slots
            chosen = slice(None) if envs is None else torch.as_tensor(envs, device=self.device)
            self.truncated[slot, chosen] |= ~self.terminated[slot, chosen]

    def add_step(self, actions: Any, result: Any) -> None:
        """Store a step of all environments from the observations of `start` or of the last step.

        :param actions: [n_envs, ...], as they are used for training
        :param result: of the step, a `TensorStep`
        """
        if not self.started:
            raise UserError(
                "call start(obs) before add_step(): the replay buffer needs the first observations"
            )
        if not hasattr(result, "next_obs"):
            raise UserError(
                "steps of arrays are stored in a ReplayBuffer: give replay_buffer_class=ReplayBuffer"
            )
        slot = self.head
        map_obs(lambda column, row: column[slot].copy_(row), self.obs_rows, self.current)
        map_obs(lambda column, row: column[slot].copy_(row), self.next_obs_rows, result.next_obs)
        map_obs(lambda row, new: row.copy_(new), self.current, result.obs)
        self.action_rows[slot] = actions
        self.reward_rows[slot] = result.rewards
        self.terminated[slot] = result.terminated
        self.truncated[slot] = result.truncated
        self.head = (slot + 1) % self.n_slots
        self.laps += self.head == 0
        self._size = min(self._size + 1, self.n_slots)

    # ------------------------------------------------------------------ drawing

    def take(self, indices: np.ndarray) -> ReplayBatch:
        """Return the transitions at indices [B]."""
        return ReplayBatch(*self._gather(torch.as_tensor(indices, device=self.device)), indices=indices)

    def draw(self, batch_size: int, env: Normalizer | None = None) -> ReplayBatch:
        return next(self.batches(1, batch_size))

    def batches(self, n_batches: int, batch_size: int) -> Iterator[ReplayBatch]:
        if not self.can_sample():
            raise UserError("the replay buffer has nothing to sample yet")
        row_bytes = 2 * Observations.row_bytes(self.observation_space) + 64
        at_once = max(CHUNK_BYTES // (row_bytes * batch_size), 1)
        for first in range(0, n_batches, at_once):
            count = min(at_once, n_batches - first)
            rows = torch.randint(self._size * self.n_envs, (count, batch_size), device=self.device)
            chunk = self._gather(rows.flatten())
            for start in range(0, count * batch_size, batch_size):
                part = slice(start, start + batch_size)
                obs, actions, next_obs, rewards, discounts = (
                    map_obs(lambda column, part=part: column[part], column) for column in chunk
                )
                yield ReplayBatch(obs, actions, next_obs, rewards, discounts, indices=None)

    def _gather(self, rows: Tensor) -> tuple[Obs, Tensor, Obs, Tensor, Tensor]:
        """Return observations, actions, next observations, rewards and discounts of transitions."""

        def chosen(column: Tensor) -> Tensor:
            return column.flatten(0, 1).index_select(0, rows)

        discounts = chosen(self.terminated).logical_not().float() * self.gamma
        obs, next_obs = map_obs(chosen, self.obs_rows), map_obs(chosen, self.next_obs_rows)
        return obs, chosen(self.action_rows), next_obs, chosen(self.reward_rows), discounts

    def sample(self, batch_size: int, env: Normalizer | None = None) -> Any:
        return self.for_file().sample(batch_size, env)

    # ------------------------------------------------------------------ on the host

    def for_file(self) -> ReplayBuffer:
        """Return a copy of the buffer on the host, with the format of files."""
        host = ReplayBuffer(
            self.buffer_size * self.n_envs,
            self.observation_space,
            self.action_space,
            self.device,
            self.n_envs,
            gamma=self.gamma,
        )
        host.stored, host.stored_by_older = self.stored, self.stored_by_older
        slots = [slot % self.n_slots for slot in range(self.head - self._size, self.head)]
        if self.started or slots:
            first = map_obs(lambda column: column[slots[0]], self.obs_rows) if slots else self.current
            host.start(map_obs(_array, first))
        for slot, following in zip(slots, [*slots[1:], None], strict=False):
            terminated, truncated = _array(self.terminated[slot]), _array(self.truncated[slot])
            ended = np.flatnonzero(terminated | truncated)
            step = AddedStep(
                obs=map_obs(_array, self._obs_after(following)),
                rewards=_array(self.reward_rows[slot]),
                terminated=terminated,
                truncated=truncated,
                ended=ended,
                final_obs=map_obs(lambda column, s=slot, e=ended: _array(column[s])[e], self.next_obs_rows),
                infos=(),
            )
            host.add_step(_array(self.action_rows[slot]), step)
        host.started = self.started
        return host

    def _obs_after(self, following: int | None) -> Obs:
        if following is None:
            return self.current
        return map_obs(lambda column: column[following], self.obs_rows)

    def take_file(self, host: ReplayBuffer) -> None:
        """Take over what a file held."""
        size = host.size()
        order = (host.pos - np.arange(size, 0, -1)) % host.buffer_size

        def fill(column: Tensor, rows: np.ndarray) -> None:
            taken = torch.as_tensor(rows[order]).to(column)
            column[:size] = taken.view(size, *column.shape[1:])

        map_obs(fill, self.obs_rows, host.observations)
        map_obs(fill, self.next_obs_rows, host.next_observations)
        fill(self.action_rows, host.actions)
        fill(self.reward_rows, host.rewards)
        fill(self.truncated, host.timeouts)
        fill(self.terminated, host.dones - host.timeouts)
        self._size, self.head, self.laps = size, size % self.n_slots, int(size == self.n_slots)
        map_obs(lambda row, new: row.copy_(torch.as_tensor(new)), self.current, host.obs.current(host.head))
        self.started = host.started

    # Arrays in the order of the ring, as `ReplayArrays` has them: row `pos` is written next

    observations = property(lambda self: self._observations(self.obs_rows))
    next_observations = property(lambda self: self._observations(self.next_obs_rows))
    actions = property(lambda self: _array(self.action_rows.view(*self.reward_rows.shape, -1)).copy())
    rewards = property(lambda self: _array(self.reward_rows).copy())
    dones = property(lambda self: _array((self.terminated | self.truncated).float()))
    timeouts = property(lambda self: _array((self.truncated & ~self.terminated).float()))

    def _observations(self, columns: Obs) -> Obs:
        def array(rows: Tensor, space: spaces.Space[object]) -> np.ndarray:
            return _array(rows).astype(space.dtype).reshape(*rows.shape[:2], *part_shape(space))

        return map_obs(array, columns, getattr(self.observation_space, "spaces", self.observation_space))


def _array(rows: Tensor) -> np.ndarray:
    return rows.cpu().numpy()

"""Experience replay: a ring of transitions, written in place and drawn uniformly.

Every observation is stored once: what a transition led to is the observation in the following slot. What
that slot does not hold, the final observations of episodes, is kept aside. The slots of the ring are the
steps, each with a row for every environment; row `slot * n_envs + env` is the index of a transition.

Source: Lin (1992), "Self-improving reactive agents based on reinforcement learning, planning and teaching";
n-step returns as in Sutton (1988), "Learning to predict by the methods of temporal differences".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.buffers.replay.replay_arrays import ASIDE, ENDED, TERMINATED, ReplayArrays
from rlzoo.buffers.replay.replay_batch import ReplayBatch, as_batch
from rlzoo.buffers.replay.replay_observations import Column, Dtypes, Observations, make_observations
from rlzoo.buffers.rollout_buffer import Obs, map_obs
from rlzoo.buffers.samples import DictReplayBufferSamples, ReplayBufferSamples
from rlzoo.buffers.stored import Stored
from rlzoo.core.device import get_device
from rlzoo.core.errors import UserError

CHUNK_BYTES = 4 * 2**20
"""The most that is gathered at once for several batches: what stays in the caches until it is used."""


class ReplayBuffer(ReplayArrays):
    """The last `buffer_size` transitions of `n_envs` environments.

    :param buffer_size: transitions to keep, over all environments
    :param observation_space: as the environment gives them, before any normalisation
    :param action_space: Box actions are stored as float32, others as int64
    :param device: where batches are handed out
    :param n_envs: number of environments
    :param optimize_memory_usage: accepted, and without effect: no observation is ever stored twice
    :param handle_timeout_termination: whether an episode that was truncated has a value afterwards
    :param n_steps: steps of the returns that are learned from; they stop where an episode does
    :param gamma: discount of a step
    :param buffer_device: where observations and actions are stored
    :param frame_stack: observations are images of so many stacked frames, of which only the last is stored
    :param obs_dtypes: what parts of observations are stored as, by key (None: the whole observation), where
        not as their space says; floating-point numbers are stored in single precision unless named here
    """

    needs_env: ClassVar[bool] = False  # whether the constructor takes `env`
    draws_ahead: ClassVar[bool] = (
        True  # whether later batches may be drawn before earlier ones are learned from
    )
    own_gamma: bool = False  # whether it keeps its discount, whatever that of the algorithm is
    adds_otherwise: ClassVar[bool] = False  # whether a derived class has its own `add`
    _samples_otherwise: ClassVar[bool] = False  # whether a derived class has its own `sample`

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        n_steps: int = 1,
        gamma: float = 0.99,
        buffer_device: torch.device | str = "cpu",
        frame_stack: int = 1,
        obs_dtypes: Dtypes | None = None,
    ) -> None:
        for name, value in {"buffer_size": buffer_size, "n_envs": n_envs, "n_steps": n_steps}.items():
            if value < 1:
                raise UserError(f"{name} must be at least 1, not {value}")
        self.observation_space, self.action_space = observation_space, action_space
        self.device, self.buffer_device = get_device(device), get_device(buffer_device)
        self.n_envs, self.n_steps, self.gamma, self.frame_stack = n_envs, n_steps, gamma, frame_stack
        self.handle_timeout_termination = handle_timeout_termination
        self.optimize_memory_usage = optimize_memory_usage
        self.normalizer: Any = None  # ExperienceNormalizer or VecNormalize: normalises samples
        self.stored = Stored()
        self.stored_by_older = Stored()  # what a file means that does not say
        self.progress = 0.0  # of the training, 0 to 1; set by the loop
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.n_slots = _n_slots(buffer_size, n_envs, frame_stack)
        self._n_rows = self.n_slots * n_envs
        self.obs: Observations = make_observations(
            observation_space, self.n_slots, n_envs, self.buffer_device, frame_stack, obs_dtypes
        )
        dtype = np.float32 if isinstance(action_space, spaces.Box) else np.int64
        self.action_column = Column(self.n_slots, n_envs, action_space.shape or (), dtype, self.buffer_device)
        self.reward_column = np.zeros((self.n_slots, n_envs), np.float32)
        self.flags = np.zeros((self.n_slots, n_envs), np.uint8)
        self.tickets = np.zeros((self.n_slots, n_envs), np.int64)  # of the observations kept aside
        self.head = self.laps = 0
        self._size = 0
        self._started = False

    # ------------------------------------------------------------------ what is in it

    def size(self) -> int:
        """Steps of each environment that can be drawn, `buffer_size` at most."""
        return self._size

    def __len__(self) -> int:
        """Transitions that can be drawn, over all environments."""
        return self._size * self.n_envs

    @property
    def full(self) -> bool:
        """Whether every further step takes the place of the oldest."""
        return self._size == self.buffer_size

    @property
    def oldest(self) -> int:
        """The slot of the oldest transition."""
        return (self.head - self._size) % self.n_slots

    @property
    def newest(self) -> int:
        """The slot of the newest transition."""
        return (self.head - 1) % self.n_slots

    def can_sample(self) -> bool:
        """Whether there is anything to draw."""
        return self._size > 0

    @property
    def nbytes(self) -> int:
        """Bytes allocated; the operating system provides a page when it is first written."""
        actions = self.action_column.rows
        small = self.reward_column.nbytes + self.flags.nbytes + self.tickets.nbytes
        return self.obs.nbytes + actions.numel() * actions.element_size() + small

    @classmethod
    def required_bytes(
        cls,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        n_envs: int = 1,
        frame_stack: int = 1,
        obs_dtypes: Dtypes | None = None,
        **unused: Any,
    ) -> int:
        """Bytes of a buffer with these arguments, final observations of episodes apart."""
        observation = Observations.row_bytes(observation_space, obs_dtypes) // frame_stack
        action = 4 if isinstance(action_space, spaces.Box) else 8
        row = observation + int(np.prod(action_space.shape or ())) * action + 4 + 1 + 8
        if frame_stack > 1:
            row += 1 + 8
        zero_frame = observation if frame_stack > 1 else 0
        return _n_slots(buffer_size, n_envs, frame_stack) * n_envs * row + zero_frame

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let the training loop call `add` and `sample` where a class has its own."""
        super().__init_subclass__(**kwargs)
        cls.adds_otherwise = cls.add is not ReplayBuffer.add
        cls._samples_otherwise = (cls.sample, cls._get_samples) != (
            ReplayBuffer.sample,
            ReplayBuffer._get_samples,
        )

    @classmethod
    def check_space(cls, observation_space: spaces.Space[Any]) -> None:
        """:raises UserError: observations of this space are not what the class is for"""

    def set_env(self, env: Any) -> None:
        """The algorithm has another environment now; only called where `needs_env`."""

    def reset(self) -> None:
        """Clear the buffer without freeing its memory."""
        self.head = self.laps = self._size = 0
        self._started = False
        self.obs.clear()

    # ------------------------------------------------------------------ writing

    def start(self, obs: Obs) -> None:
        """The environments show `obs` [n_envs, ...] now, whatever was going on before.

        Episodes that were going on end there, as if truncated.
        """
        everywhere = np.arange(self.n_envs)
        self._close(everywhere)
        self.obs.write(self.head, obs)
        self.obs.begin(self.head, obs, everywhere)
        self._started = True

    def _close(self, envs: np.ndarray) -> None:
        """End the episodes of these environments with the present observation, where they go on."""
        if self._size == 0:
            return
        slot = self.newest
        going_on = envs[(self.flags[slot, envs] & ENDED) == 0]
        if len(going_on):
            current = self.obs.current(self.head)
            self.tickets[slot, going_on] = self.obs.keep_final(
                slot, map_obs(lambda rows: rows[going_on], current)
            )
            self.flags[slot, going_on] |= ASIDE | ENDED
            self._on_closed(slot, going_on)

    def add_step(self, actions: Any, result: Any) -> None:
        """Remember a step of all environments from the observations that `start` or the last step gave.

        :param actions: [n_envs, ...] tensor or array, as they are learned from
        :param result: what came of it (a `VecStep`), before any normalisation; copied
        """
        if not self._started:
            raise UserError("a replay buffer is told where the environments start: call start(obs) first")
        slot, obs = self.head, self.obs
        following = slot + 1
        if following == self.n_slots:
            following = 0
            self.laps += 1
        obs.free(following)
        self.action_column.write(slot, actions)
        self.reward_column[slot] = result.rewards
        obs.write(following, result.obs)
        ended = result.ended
        if len(ended):
            terminated = result.terminated if self.handle_timeout_termination else True
            self.flags[slot] = np.where(terminated, ASIDE | ENDED | TERMINATED, ASIDE | ENDED)
            self.flags[slot] *= result.terminated | result.truncated
            self.tickets[slot, ended] = obs.keep_final(slot, result.final_obs)
            obs.begin(following, result.obs, ended)
        else:
            self.flags[slot] = 0
        self.head = following
        if self._size < self.buffer_size:
            self._size += 1
        self._on_added(slot, result)

    def add(  # type: ignore[override]
        self,
        obs: Obs,
        next_obs: Obs,
        action: Any,
        reward: Any,
        done: Any,
        infos: Sequence[dict[str, Any]],
    ) -> None:
        """Remember any transition of each environment, [n_envs, ...]; also of one that is not going on.

        :param next_obs: what the action led to; the final observation where `done`
        :param infos: "TimeLimit.truncated" in them says that an episode was truncated
        """
        obs, next_obs = self._batched(obs), self._batched(next_obs)
        self._check_stack(obs, next_obs)
        jumped = self._jumped(obs)
        if len(jumped):
            self._close(jumped)
            self.obs.write(self.head, obs)
            self.obs.begin(self.head, obs, jumped)
        self._started = True
        dones = np.asarray(done, dtype=bool).reshape(self.n_envs)
        limits = np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])
        dones |= limits
        ended = np.flatnonzero(dones)
        result = SimpleNamespace(
            obs=next_obs,
            rewards=np.asarray(reward, dtype=np.float32).reshape(self.n_envs),
            terminated=dones & ~limits,
            truncated=dones & limits,
            ended=ended,
            final_obs=map_obs(lambda rows: rows[ended], next_obs) if len(ended) else None,
            infos=infos,
        )
        action = action.cpu().numpy() if isinstance(action, torch.Tensor) else np.asarray(action)
        self.add_step(action.reshape(self.n_envs, *(self.action_space.shape or ())), result)

    def _batched(self, obs: Obs) -> Obs:
        space = self.observation_space
        if isinstance(obs, dict):
            return {key: np.reshape(obs[key], (self.n_envs, *(space[key].shape or ()))) for key in obs}  # type: ignore[index]
        return np.reshape(obs, (self.n_envs, *(space.shape or ())))

    def _jumped(self, obs: Obs) -> np.ndarray:
        """The environments for which `obs` is not what their last transition led to."""
        if not self._started:
            return np.arange(self.n_envs)
        current = self.obs.current(self.head)
        pairs = [(current[key], obs[key]) for key in obs] if isinstance(obs, dict) else [(current, obs)]
        same = [(a == b.astype(a.dtype)).reshape(self.n_envs, -1).all(axis=1) for a, b in pairs]
        ended = (self.flags[self.newest] & ENDED) > 0 if self._size else False
        return np.flatnonzero(~np.logical_and.reduce(same) | ended)

    def _check_stack(self, obs: Obs, next_obs: Obs) -> None:
        channels = getattr(self.obs, "channels", None)
        if channels is not None and not np.array_equal(obs[:, channels:], next_obs[:, :-channels]):
            raise UserError("with frame_stack, next_obs must be obs moved on by one frame")

    def _on_added(self, slot: int, result: Any) -> None:
        """Called when the transitions in a slot have been written; `result` is that of `add_step`."""

    def _on_closed(self, slot: int, envs: np.ndarray) -> None:
        """Called when the episodes of `envs` were ended in a slot after it had been added."""

    # ------------------------------------------------------------------ drawing

    def sample(self, batch_size: int, env: Any = None) -> ReplayBufferSamples | DictReplayBufferSamples:
        """Draw transitions as a named tuple, each with the same probability, with replacement.

        A class derived from this one may replace it; the algorithm then learns from what it returns.

        :param env: a VecNormalize to scale them with, instead of `normalizer`; of no effect where that uses
            it already, or experience is stored scaled
        """
        if type(self)._get_samples is not ReplayBuffer._get_samples:
            upper = self.buffer_size if self.full else self.pos
            return self._get_samples(torch.randint(upper, (batch_size,)).numpy(), env)
        return self._as_samples(self.draw(batch_size, env))

    def _get_samples(
        self, batch_inds: np.ndarray, env: Any = None
    ) -> ReplayBufferSamples | DictReplayBufferSamples:
        """Transitions at rows [B] of the arrays, each of a random environment."""
        envs = torch.randint(self.n_envs, (len(batch_inds),)).numpy()
        indices = self._slot_of(np.asarray(batch_inds)) * self.n_envs + envs
        with self._scaled_with(env):
            return self._as_samples(self._assemble(indices))

    def _as_samples(self, batch: ReplayBatch) -> ReplayBufferSamples | DictReplayBufferSamples:
        _, last, flags = self._returns(batch.indices)
        kind = DictReplayBufferSamples if isinstance(batch.observations, dict) else ReplayBufferSamples
        n_steps = (last - batch.indices) // self.n_envs % self.n_slots + 1
        samples = kind(
            observations=batch.observations,
            actions=batch.actions.reshape(len(last), -1),
            next_observations=batch.next_observations,
            dones=self._column_tensor(flags >= TERMINATED),
            rewards=batch.rewards.reshape(-1, 1),
            discounts=None if self.n_steps == 1 else self._column_tensor(self.gamma**n_steps),
        )
        samples.indices, samples.weights = batch.indices, batch.weights
        return samples

    def _column_tensor(self, numbers: np.ndarray) -> torch.Tensor:
        return self._to_device(torch.from_numpy(numbers.astype(np.float32).reshape(-1, 1)))

    def draw(self, batch_size: int, env: Any = None) -> ReplayBatch:
        """Draw transitions as `batches` does; `env` as in `sample`."""
        with self._scaled_with(env):
            return self._assemble(self._draw_any(batch_size))

    @contextmanager
    def _scaled_with(self, env: Any) -> Iterator[None]:
        """Normalise samples with a VecNormalize; None leaves that to `normalizer`."""
        normalizer = self.normalizer
        in_use = (
            getattr(normalizer, "obs_normalizer", None),
            getattr(normalizer, "reward_normalizer", None),
        )
        scaled = "scaled" in (self.stored.observations, self.stored.rewards)
        if env is not None and not scaled and all(env is not one for one in in_use):
            self.normalizer = env
        try:
            yield
        finally:
            self.normalizer = normalizer

    def batches(self, n_batches: int, batch_size: int) -> Iterator[ReplayBatch]:
        """As many independent draws as `n_batches` calls of `sample`.

        Small ones are gathered several at a time, as views of one larger gather.
        """
        row_bytes = 2 * Observations.row_bytes(self.observation_space) + 64
        if self._samples_otherwise:
            yield from (as_batch(self.sample(batch_size), self.gamma) for _ in range(n_batches))
            return
        at_once = max(CHUNK_BYTES // (row_bytes * batch_size), 1) if self.draws_ahead else 1
        while n_batches > 0:
            count = min(at_once, n_batches)
            n_batches -= count
            batch = self._assemble(self._draw_any(count * batch_size))
            if count == 1:
                yield batch
            else:
                yield from _split(batch, batch_size)

    def _draw_any(self, count: int) -> np.ndarray:
        if not self.can_sample():
            raise UserError("the replay buffer has nothing to draw from yet")
        return self._draw(count)

    def _draw(self, count: int) -> np.ndarray:
        """Indices [count] of transitions."""
        indices: np.ndarray = torch.randint(self._size * self.n_envs, (count,)).numpy()
        oldest = self.oldest
        if oldest:
            indices += oldest * self.n_envs
            indices -= self._n_rows * (indices >= self._n_rows)
        return indices

    def _assemble(self, indices: np.ndarray) -> ReplayBatch:
        """The transitions at indices [B]."""
        rewards, last, flags = self._returns(indices)
        discounts = self._discounts(indices, last, flags)
        rows = np.flatnonzero(flags & ASIDE)
        tickets = self.tickets.reshape(-1).take(last.take(rows))
        obs, next_obs = self.obs.pair(indices, last, rows, tickets)
        return ReplayBatch(
            observations=self._presented(obs),
            actions=self._to_device(self.action_column.gather(indices)),
            next_observations=self._presented(next_obs),
            rewards=self._to_device(torch.from_numpy(rewards)),
            discounts=self._to_device(torch.from_numpy(discounts)),
            indices=indices,
        )

    def _returns(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rewards [B] summed over up to n steps, the index of the last of these steps, and its flags."""
        flags = self.flags.reshape(-1)
        if self.n_steps == 1:
            return (
                self._normalized_rewards(self.reward_column.reshape(-1).take(indices)),
                indices,
                flags.take(indices),
            )
        steps = indices + np.arange(self.n_steps)[:, None] * self.n_envs  # [n_steps, B]
        steps %= self._n_rows
        stops = (flags.take(steps) & ENDED) > 0
        stops |= steps // self.n_envs == self.newest
        goes_on = np.empty(steps.shape, bool)  # whether a step belongs to the return
        goes_on[0] = True
        np.logical_and.accumulate(~stops[:-1], axis=0, out=goes_on[1:])
        rewards = self._normalized_rewards(self.reward_column.reshape(-1).take(steps)) * goes_on
        powers = (self.gamma ** np.arange(self.n_steps)).astype(np.float32)
        last = steps[goes_on.sum(axis=0) - 1, np.arange(len(indices))]
        return powers @ rewards, last, flags.take(last)

    def _discounts(self, indices: np.ndarray, last: np.ndarray, flags: np.ndarray) -> np.ndarray:
        """What the value after the last step is multiplied with, [B]."""
        goes_on = flags < TERMINATED
        if self.n_steps == 1:
            return np.multiply(goes_on, self.gamma, dtype=np.float32)
        n_steps = (last - indices) // self.n_envs % self.n_slots + 1
        powers = (self.gamma ** np.arange(self.n_steps + 1)).astype(np.float32)
        return goes_on * powers.take(n_steps)

    def _normalized_rewards(self, rewards: np.ndarray) -> np.ndarray:
        if self.normalizer is None:
            return rewards
        shape = rewards.shape
        scaled: np.ndarray = self.normalizer.normalize_reward(rewards.reshape(-1))
        return scaled.reshape(shape)

    def _presented(self, obs: Obs) -> Obs:
        """Raw observations as the agent sees them: scaled by a VecNormalize, on the agent's device."""
        if self.normalizer is not None:
            arrays = map_obs(lambda rows: rows.cpu().numpy(), obs)
            obs = map_obs(torch.from_numpy, self.normalizer.normalize_obs(arrays))
        return map_obs(self._to_device, obs)

    def _to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype == torch.float64:
            tensor = tensor.float()
        if tensor.device == self.device:
            return tensor
        # a copy to the CPU must be finished before it is read; one to a device is in order with its work
        return tensor.to(self.device, non_blocking=self.device.type != "cpu")

    def convert(self, source: Stored) -> None:
        """Turn what has just been filled in, stored as `source` says, into what this buffer stores."""
        of_obs, of_rewards = self.stored.conversions(source, self.normalizer)
        if of_rewards is not None:
            self.reward_column[:] = of_rewards(self.reward_column.reshape(-1)).reshape(
                self.reward_column.shape
            )
        if of_obs is None:
            return
        for slot in range(self.n_slots):
            self.obs.write(slot, of_obs(self.obs.current(slot)))
        if self.obs.finals.capacity:
            finals = map_obs(lambda rows: rows.cpu().numpy(), self.obs.finals.rows)
            map_obs(
                lambda rows, converted: rows.copy_(torch.from_numpy(np.asarray(converted))),
                self.obs.finals.rows,
                of_obs(finals),
            )

    # ------------------------------------------------------------------ what derived buffers save

    def own_columns(self) -> dict[str, np.ndarray]:
        """Further columns [n_slots, n_envs, ...] to write into a file, by name; loading fills them."""
        return {}

    def own_state(self) -> dict[str, Any]:
        """Anything else that belongs into a file: what JSON can hold."""
        return {}

    def load_own_state(self, state: dict[str, Any]) -> None:
        """Take over `own_state` of a file, and make again what follows from the columns, now filled."""


class NStepReplayBuffer(ReplayBuffer):
    """A replay buffer of 3-step returns, or another number of steps."""

    def __init__(self, *args: Any, n_steps: int = 3, gamma: float = 0.99, **kwargs: Any) -> None:
        super().__init__(*args, n_steps=n_steps, gamma=gamma, **kwargs)


class DictReplayBuffer(ReplayBuffer):
    """The older name of a replay buffer for Dict observations."""

    def __init__(
        self, buffer_size: int, observation_space: spaces.Space[Any], *args: Any, **kwargs: Any
    ) -> None:
        if not isinstance(observation_space, spaces.Dict):
            raise UserError(f"DictReplayBuffer is for Dict observations, not for {observation_space}")
        super().__init__(buffer_size, observation_space, *args, **kwargs)


def _n_slots(buffer_size: int, n_envs: int, frame_stack: int) -> int:
    """One slot more than transitions for what the newest led to, and the older frames of the oldest."""
    return max(buffer_size // n_envs, 1) + frame_stack


def _split(batch: ReplayBatch, batch_size: int) -> Iterator[ReplayBatch]:
    def parts(column: Any) -> Any:
        if isinstance(column, dict):
            split = {key: value.split(batch_size) for key, value in column.items()}
            return [dict(zip(split, values, strict=True)) for values in zip(*split.values(), strict=True)]
        return column.split(batch_size)

    columns = (batch.observations, batch.actions, batch.next_observations, batch.rewards, batch.discounts)
    indices = batch.indices.reshape(-1, batch_size)
    for obs, actions, next_obs, rewards, discounts, rows in zip(*map(parts, columns), indices, strict=True):
        yield ReplayBatch(obs, actions, next_obs, rewards, discounts, rows)

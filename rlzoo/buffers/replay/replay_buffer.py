"""Replay buffer: a ring of transitions with uniform sampling.

Every observation is stored once: the next observation of a transition is the observation in the following
slot. The final observations of episodes, which that slot does not hold, are in a `FinalObsStore`. A slot of
the ring is a step, with a row for every environment; row `slot * n_envs + env` is the index of a transition.

Source: Lin (1992), "Self-improving reactive agents based on reinforcement learning, planning and teaching";
n-step returns: Watkins (1989), "Learning from delayed rewards"; Sutton and Barto (2018), chapter 7.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from rlzoo.buffers.base_buffer import AddedStep, Normalizer, Obs, StepResult, map_obs
from rlzoo.buffers.replay.final_obs_store import Rows, as_array
from rlzoo.buffers.replay.replay_arrays import ENDED, FINAL_STORED, TERMINATED, ReplayArrays
from rlzoo.buffers.replay.replay_batch import ReplayBatch, as_batch, as_samples
from rlzoo.buffers.replay.replay_observations import Dtypes, Observations, RingColumn, make_observations
from rlzoo.buffers.samples import DictReplayBufferSamples, ReplayBufferSamples
from rlzoo.buffers.stored import Stored
from rlzoo.core.errors import UserError
from rlzoo.core.observations import Info
from rlzoo.core.runtime import get_device

CHUNK_BYTES = 4 * 2**20
"""Largest gather for several batches at once: it stays in the CPU caches until it is used."""


class ReplayBuffer(ReplayArrays):
    """Replay buffer with uniform sampling for the transitions of `n_envs` environments.

    :param buffer_size: capacity in transitions over all environments
    :param observation_space: as the environment gives them, before any normalisation
    :param action_space: Box actions are stored as float32, others as int64
    :param device: of the sampled batches
    :param n_envs: number of environments
    :param optimize_memory_usage: no effect: every observation is stored once anyway
    :param handle_timeout_termination: bootstrap from the final observation of truncated episodes
    :param n_steps: steps of n-step returns; they end with the episode
    :param gamma: discount factor of n-step returns
    :param buffer_device: where observations and actions are stored
    :param frame_stack: number of stacked frames in an image observation; each frame is stored once
    :param obs_dtypes: dtypes for storage by key of a Dict observation (None: the whole observation);
        without an entry, floating-point numbers are stored in single precision, others as in the space
    """

    on_device: ClassVar[bool] = False  # whether it stores the tensors of environments on a device
    needs_env: ClassVar[bool] = False  # whether the constructor takes `env`
    draws_ahead: ClassVar[bool] = True  # several batches may be sampled before the first is trained on
    own_gamma: bool = False  # whether it keeps its discount factor, whatever that of the algorithm is
    overrides_add: ClassVar[bool] = False  # set in derived classes that override `add`
    _overrides_sample: ClassVar[bool] = False  # set in derived classes that override `sample`
    _sample_takes_env: ClassVar[bool] = True  # whether that takes `env`, as the one here does

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[object],
        action_space: spaces.Space[object],
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
        for name, value in {"buffer_size": buffer_size or 1, "n_envs": n_envs, "n_steps": n_steps}.items():
            if value < 1:
                raise UserError(f"{name} must be at least 1, not {value}")
        self.observation_space, self.action_space = observation_space, action_space
        self.device, self.buffer_device = get_device(device), get_device(buffer_device)
        self.n_envs, self.n_steps, self.gamma, self.frame_stack = n_envs, n_steps, gamma, frame_stack
        self.handle_timeout_termination = handle_timeout_termination
        self.optimize_memory_usage = optimize_memory_usage
        self.normalizer: Normalizer | None = None  # ExperienceNormalizer or VecNormalize: normalises samples
        self.stored = Stored()
        self.stored_by_older = Stored()  # how files of older versions, which do not say it, were scaled
        self.progress = 0.0  # of the training, 0 to 1; set by the loop
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.n_slots = _n_slots(buffer_size, n_envs, frame_stack)
        self._n_rows = self.n_slots * n_envs
        self.obs: Observations = make_observations(
            observation_space, self.n_slots, n_envs, self.buffer_device, frame_stack, obs_dtypes
        )
        dtype = np.float32 if isinstance(action_space, spaces.Box) else np.int64
        self.action_column = RingColumn(
            self.n_slots, n_envs, action_space.shape or (), dtype, self.buffer_device
        )
        self.reward_column = np.zeros((self.n_slots, n_envs), np.float32)
        self.flags = np.zeros((self.n_slots, n_envs), np.uint8)
        self.handles = np.zeros((self.n_slots, n_envs), np.int64)  # of final observations
        self.head = self.laps = 0
        self._size = 0
        self.started = False  # whether the observation in slot `head` is the current one
        self._mirrors = {}

    # ------------------------------------------------------------------ what is in it

    def size(self) -> int:
        """Return the number of stored steps of each environment, at most `buffer_size`."""
        return self._size

    def __len__(self) -> int:
        """Return the number of stored transitions over all environments."""
        return self._size * self.n_envs

    @property
    def full(self) -> bool:
        """Whether the buffer is full: each further step overwrites the oldest one."""
        return self._size == self.buffer_size

    @full.setter
    def full(self, value: bool) -> None:
        """Count all rows as stored, or only those before `pos`; what was never written is zero."""
        self._size = self.buffer_size if value else self.pos
        self._mirrors.clear()

    @property
    def oldest(self) -> int:
        """The slot of the oldest transition."""
        return (self.head - self._size) % self.n_slots

    @property
    def newest(self) -> int:
        """The slot of the newest transition."""
        return (self.head - 1) % self.n_slots

    def can_sample(self) -> bool:
        """Return whether there is anything to sample."""
        return self._size > 0

    @property
    def nbytes(self) -> int:
        """Bytes allocated; the operating system provides a page when it is first written."""
        actions = self.action_column.rows
        small = self.reward_column.nbytes + self.flags.nbytes + self.handles.nbytes
        return self.obs.nbytes + actions.numel() * actions.element_size() + small

    @classmethod
    def required_bytes(
        cls,
        buffer_size: int,
        observation_space: spaces.Space[object],
        action_space: spaces.Space[object],
        n_envs: int = 1,
        frame_stack: int = 1,
        obs_dtypes: Dtypes | None = None,
        **unused: object,
    ) -> int:
        """Return the bytes of a buffer with these arguments, without final observations."""
        observation = Observations.row_bytes(observation_space, obs_dtypes) // frame_stack
        action = 4 if isinstance(action_space, spaces.Box) else 8
        row = observation + int(np.prod(action_space.shape or ())) * action + 4 + 1 + 8
        if frame_stack > 1:
            row += 1 + 8
        zero_frame = observation if frame_stack > 1 else 0
        return _n_slots(buffer_size, n_envs, frame_stack) * n_envs * row + zero_frame

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Note whether a class overrides `add` or `sample`; the training loop then calls these."""
        super().__init_subclass__(**kwargs)
        cls.overrides_add = cls.add is not ReplayBuffer.add
        cls._overrides_sample = cls._overrides("sample") or cls._overrides("_get_samples")
        parameters = inspect.signature(cls.sample).parameters.values()
        cls._sample_takes_env = any(p.name == "env" or p.kind is p.VAR_KEYWORD for p in parameters)

    @classmethod
    def _overrides(cls, method: str) -> bool:
        return getattr(cls, method) is not getattr(ReplayBuffer, method)

    @classmethod
    def check_space(cls, observation_space: spaces.Space[object]) -> None:
        """Check the observation space.

        :raises UserError: the class does not support it
        """

    def set_env(self, env: object) -> None:
        """Set another environment; called only if `needs_env`."""

    def reset(self) -> None:
        """Clear the buffer without freeing its memory; episodes in progress go on from where they are."""
        current = map_obs(np.array, self.obs.current(self.head)) if self.started else None
        self.head = self.laps = self._size = 0
        self._mirrors.clear()
        self.obs.clear()
        if current is not None:
            self.start(current)

    def resize(self, head: int, size: int) -> None:
        """Set the position and the number of stored steps, for a caller that fills the columns."""
        self.head, self._size, self.laps = head, size, int(size > head)
        self._mirrors.clear()

    # ------------------------------------------------------------------ writing

    def start(self, obs: Obs) -> None:
        """Start new episodes from `obs` [n_envs, ...]; episodes in progress are truncated."""
        everywhere = np.arange(self.n_envs)
        self.end_episodes(everywhere)
        self.obs.write(self.head, obs)
        self.obs.begin(self.head, obs, everywhere)
        self.started = True

    def end_episodes(self, envs: np.ndarray | None = None) -> None:
        """Truncate the episodes in progress of these environments (None: of all)."""
        if self._size == 0:
            return
        slot = self.newest
        envs = np.arange(self.n_envs) if envs is None else envs
        unfinished = envs[(self.flags[slot, envs] & ENDED) == 0]
        if len(unfinished):
            current = self.obs.current(self.head)
            self.handles[slot, unfinished] = self.obs.store_final(
                slot, map_obs(lambda rows: rows[unfinished], current)
            )
            self.flags[slot, unfinished] |= FINAL_STORED | ENDED
            self._on_episodes_ended(slot, unfinished)

    def add_step(self, actions: torch.Tensor | np.ndarray, result: StepResult) -> None:
        """Store a step of all environments from the observations of `start` or of the last step.

        :param actions: [n_envs, ...] tensor or array, as they are used for training
        :param result: of the step (a `VecStep`), before any normalisation; copied
        """
        if not self.started:
            raise UserError(
                "call start(obs) before add_step(): the replay buffer needs the first observations"
            )
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
            self.flags[slot] = np.where(terminated, FINAL_STORED | ENDED | TERMINATED, FINAL_STORED | ENDED)
            self.flags[slot] *= result.terminated | result.truncated
            self.handles[slot, ended] = obs.store_final(slot, result.final_obs)
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
        action: torch.Tensor | npt.ArrayLike,
        reward: npt.ArrayLike,
        done: npt.ArrayLike,
        infos: Sequence[Info],
    ) -> None:
        """Store a transition of each environment, [n_envs, ...]; it need not follow the last one.

        :param obs: the observations that were acted on, [n_envs, ...]
        :param next_obs: the next observation; the final observation where `done`
        :param action: as it is learned from (of a Box in [-1, 1]), [n_envs, ...]
        :param reward: [n_envs]
        :param done: whether the episode ended, by termination or truncation, [n_envs]
        :param infos: with "TimeLimit.truncated" where an episode was truncated
        """
        obs, next_obs = self._batched(obs), self._batched(next_obs)
        self._check_stack(obs, next_obs)
        jumped = self._jumped(obs)
        if len(jumped):
            self.end_episodes(jumped)
            self.obs.write(self.head, obs)
            self.obs.begin(self.head, obs, jumped)
        self.started = True
        dones = np.asarray(done, dtype=bool).reshape(self.n_envs)
        limits = np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])
        dones |= limits
        ended = np.flatnonzero(dones)
        result = AddedStep(
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
        """Return the environments for which `obs` is not the next observation of their last transition."""
        if not self.started:
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

    def _on_added(self, slot: int, result: StepResult) -> None:
        """Hook after the transitions in a slot were written; `result` is that of `add_step`."""

    def _on_episodes_ended(self, slot: int, envs: np.ndarray) -> None:
        """Hook after `end_episodes` truncated the episodes of `envs`; their last step is in `slot`."""

    # ------------------------------------------------------------------ drawing

    def sample(
        self, batch_size: int, env: Normalizer | None = None
    ) -> ReplayBufferSamples | DictReplayBufferSamples:
        """Sample transitions uniformly with replacement.

        A derived class may override it; the algorithm then trains on what it returns.

        :param env: a VecNormalize to normalise them with, instead of `normalizer`; no effect if `normalizer`
            uses it already or the experience is stored scaled
        """
        if self._overrides("_get_samples"):
            upper = self.buffer_size if self.full else self.pos
            return self._get_samples(torch.randint(upper, (batch_size,)).numpy(), env)
        return self._as_samples(self.draw(batch_size, env))

    def _get_samples(
        self, batch_inds: np.ndarray, env: Normalizer | None = None
    ) -> ReplayBufferSamples | DictReplayBufferSamples:
        """Return the transitions at rows [B] of the arrays, each of a random environment."""
        envs = torch.randint(self.n_envs, (len(batch_inds),)).numpy()
        indices = self._slot_of(np.asarray(batch_inds)) * self.n_envs + envs
        with self._scaled_with(env):
            return self._as_samples(self._assemble(indices))

    def _as_samples(self, batch: ReplayBatch) -> ReplayBufferSamples | DictReplayBufferSamples:
        _, last, flags = self._returns(batch.indices)
        n_steps = (last - batch.indices) // self.n_envs % self.n_slots + 1
        discounts = None if self.n_steps == 1 else self.gamma**n_steps
        return as_samples(batch, (flags & TERMINATED) > 0, discounts)

    def draw(self, batch_size: int, env: Normalizer | None = None) -> ReplayBatch:
        """Draw one batch, as `batches` yields them; `env` as in `sample`."""
        with self._scaled_with(env):
            return self._assemble(self._draw_or_raise(batch_size))

    @contextmanager
    def _scaled_with(self, env: Normalizer | None) -> Iterator[None]:
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
        """Yield `n_batches` independently sampled batches.

        Small batches are views of one larger gather.
        """
        if self._overrides_sample or "sample" in vars(self):  # assigned to the object
            for _ in range(n_batches):
                yield as_batch(self._own_samples(batch_size), self.gamma)
            return
        at_once = self.batches_at_once(batch_size) if n_batches > 1 else 1
        while n_batches > 0:
            count = min(at_once, n_batches)
            n_batches -= count
            batch = self._assemble(self._draw_or_raise(count * batch_size))
            yield from [batch] if count == 1 else _split(batch, batch_size)

    def _own_samples(self, batch_size: int) -> Any:
        """Return what a derived class samples, which normalises it with the `env` that it is given."""
        scaled = "scaled" in (self.stored.observations, self.stored.rewards)
        env = {"env": None if scaled else self.normalizer} if self._sample_takes_env else {}
        return self.sample(batch_size, **env)

    def batches_at_once(self, batch_size: int) -> int:
        """Return how many batches one gather is for."""
        row_bytes = 2 * Observations.row_bytes(self.observation_space) + 64
        return max(CHUNK_BYTES // (row_bytes * batch_size), 1) if self.draws_ahead else 1

    def take(self, indices: np.ndarray) -> ReplayBatch:
        """Return the transitions at indices [B]."""
        return self._assemble(indices)

    def _draw_or_raise(self, count: int) -> np.ndarray:
        if not self.can_sample():
            raise UserError("the replay buffer has nothing to sample yet")
        return self._draw(count)

    def _draw(self, count: int) -> np.ndarray:
        """Sample the indices [count] of transitions."""
        indices: np.ndarray = torch.randint(self._size * self.n_envs, (count,)).numpy()
        oldest = self.oldest
        if oldest:
            indices += oldest * self.n_envs
            indices -= self._n_rows * (indices >= self._n_rows)
        return indices

    def _assemble(self, indices: np.ndarray) -> ReplayBatch:
        """Return the transitions at indices [B]."""
        rewards, last, flags = self._returns(indices)
        discounts = self._discounts(indices, last, flags)
        rows = np.flatnonzero(flags & FINAL_STORED)
        handles = self.handles.reshape(-1).take(last.take(rows))
        obs, next_obs = self.obs.pair(indices, last, rows, handles)
        return ReplayBatch(
            observations=self._presented(obs),
            actions=self._to_device(self.action_column.gather(indices)),
            next_observations=self._presented(next_obs),
            rewards=self._to_device(rewards),
            discounts=self._to_device(discounts),
            indices=indices,
        )

    def _returns(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the discounted rewards [B] of up to n steps, the index of the last step, and its flags."""
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
        in_return = np.empty(steps.shape, bool)  # whether a step belongs to the return
        in_return[0] = True
        np.logical_and.accumulate(~stops[:-1], axis=0, out=in_return[1:])
        rewards = self._normalized_rewards(self.reward_column.reshape(-1).take(steps)) * in_return
        powers = (self.gamma ** np.arange(self.n_steps)).astype(np.float32)
        last = steps[in_return.sum(axis=0) - 1, np.arange(len(indices))]
        return powers @ rewards, last, flags.take(last)

    def _discounts(self, indices: np.ndarray, last: np.ndarray, flags: np.ndarray) -> np.ndarray:
        """Return the factors [B] of the bootstrap value: gamma^m, 0 where the episode terminated.

        A truncated episode keeps its factor: more would have followed, so its value is estimated.
        """
        not_terminated = (flags & TERMINATED) == 0
        if self.n_steps == 1:
            return np.multiply(not_terminated, self.gamma, dtype=np.float32)
        n_steps = (last - indices) // self.n_envs % self.n_slots + 1
        powers = (self.gamma ** np.arange(self.n_steps + 1)).astype(np.float32)
        return not_terminated * powers.take(n_steps)

    def _normalized_rewards(self, rewards: np.ndarray) -> np.ndarray:
        if self.normalizer is None:
            return rewards
        shape = rewards.shape
        scaled: np.ndarray = self.normalizer.normalize_reward(rewards.reshape(-1))
        return scaled.reshape(shape)

    def _presented(self, obs: Obs) -> Obs:
        """Return observations normalised as the agent sees them, on the agent's device."""
        if self.normalizer is not None:
            obs = self.normalizer.normalize_obs(map_obs(as_array, obs))
        return map_obs(self._to_device, obs)

    def _to_device(self, rows: Rows) -> torch.Tensor:
        """Return rows as a tensor on the agent's device."""
        tensor = torch.from_numpy(rows) if isinstance(rows, np.ndarray) else rows
        if tensor.dtype == torch.float64:
            tensor = tensor.float()
        if tensor.device == self.device:
            return tensor
        # a copy to the CPU must be finished before it is read; one to a device is in order with its work
        return tensor.to(self.device, non_blocking=self.device.type != "cpu")

    def convert(self, source: Stored) -> None:
        """Convert the contents, stored as `source` says, to what this buffer stores."""
        of_obs, of_rewards = self.stored.conversions(source, self.normalizer)
        self._mirrors.clear()
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

    def for_file(self) -> ReplayBuffer:
        """Return the buffer whose columns are written to a file, or filled from one."""
        return self

    def take_file(self, host: ReplayBuffer) -> None:
        """Take over what a file has filled the result of `for_file` with."""

    def own_columns(self) -> dict[str, np.ndarray]:
        """Return further columns [n_slots, n_envs, ...] for a file by name; loading fills them."""
        return {}

    def own_state(self) -> dict[str, float | str]:
        """Return further numbers for a file."""
        return {}

    def load_own_state(self, state: dict[str, float | str]) -> None:
        """Load `own_state` of a file and recompute what depends on the columns, which are filled."""


class NStepReplayBuffer(ReplayBuffer):
    """Replay buffer with n-step returns.

    :param n_steps: rewards that are summed before the value of the next observation
    :param gamma: discount factor; an algorithm sets its own
    :param args: as of `ReplayBuffer`
    """

    def __init__(self, *args: Any, n_steps: int = 3, gamma: float = 0.99, **kwargs: Any) -> None:
        super().__init__(*args, n_steps=n_steps, gamma=gamma, **kwargs)


def _n_slots(buffer_size: int, n_envs: int, frame_stack: int) -> int:
    """Return the number of slots: one more for the current observation, others for older frames."""
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

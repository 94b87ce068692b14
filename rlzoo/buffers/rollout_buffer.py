"""Rollout buffer: preallocated columns, written in place, read once per update, as shuffled minibatches."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor

from rlzoo.accel.fast_mlp import takes_arrays
from rlzoo.accel.memory import available_memory
from rlzoo.buffers.base_buffer import Obs, StepResult, map_obs, stored_dtype
from rlzoo.buffers.rollout_arrays import RolloutArrays
from rlzoo.core.errors import CheckpointError, EnvironmentFailed, UserError
from rlzoo.core.returns import gae, standardized
from rlzoo.core.types import PolicyOutput, TensorObs

if TYPE_CHECKING:
    from rlzoo.buffers.sequences import Sequences


BYTES_OF_A_ROW = 250  # the views of it
SMALL = 10 * 2**20  # bytes; whether more are free is asked of the system
MAX_SAVED_BYTES = 64 * 2**20  # of a partly filled rollout in a checkpoint
_COLUMNS = {
    "actions": "action_column",
    "rewards": "reward_column",
    "terminated": "terminated",
    "truncated": "truncated",
    "episode_starts": "starts_column",
}
"""Names of columns in a checkpoint, and their attributes."""

Finals = tuple[Obs, tuple[NDArray[np.intp], NDArray[np.intp]]]
"""Final observations of truncated episodes, [n_truncated, ...], with their (steps, envs)."""


class RolloutBuffer(RolloutArrays):
    """Rollout buffer: columns [n_steps, n_envs, ...] of the last rollout, discarded after each update.

    Observations have one row more, for the observation after the last step.

    A row is written where it will be read: acting reads `obs_rows[t]`, a tensor that shares memory with
    the column. The columns given by `PolicyOutput.extra` are allocated when they first appear.

    A training loop writes steps with `start` and `add_step`; scripts write them with `add`.

    `on_device`: columns are tensors, as in a `TensorRolloutBuffer`.

    :param buffer_size: steps of each environment in a rollout
    :param observation_space: as the policy sees it
    :param n_envs: number of environments
    :param device: of the batches of `get`
    :param gae_lambda: factor for `compute_returns_and_advantage`
    :param gamma: discount for `compute_returns_and_advantage`
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        device: torch.device | str = "auto",
        gae_lambda: float = 1.0,
        gamma: float = 0.99,
        n_envs: int = 1,
    ) -> None:
        super().__init__(buffer_size, observation_space, action_space, device, n_envs)
        self.gae_lambda, self.gamma = gae_lambda, gamma
        self.n_steps = n_steps = buffer_size
        self._check_memory(observation_space)
        if isinstance(observation_space, spaces.Dict):
            self.obs_column: Obs = {
                key: self._obs_column(space) for key, space in observation_space.spaces.items()
            }
        else:
            self.obs_column = self._obs_column(observation_space)
        self._share_rows()
        action_dtype = np.float32 if isinstance(action_space, spaces.Box) else np.int64
        self.action_column = np.zeros((n_steps, n_envs, *(action_space.shape or ())), action_dtype)
        self.reward_column = np.zeros((n_steps, n_envs), np.float32)
        self.terminated = np.zeros((n_steps, n_envs), bool)
        self.truncated = np.zeros((n_steps, n_envs), bool)
        self.starts_column = np.zeros((n_steps, n_envs), bool)
        self.extra_columns: dict[str, torch.Tensor] = {}
        self._finals: list[tuple[int, int, Obs]] = []
        self.raw: RawRollout | None = None
        self.reset()

    def _share_rows(self) -> None:
        """Make views of the rows of the observations, to act on and to write to."""
        shared = map_obs(torch.from_numpy, self.obs_column)
        steps = range(self.n_steps + 1)
        self.obs_rows = [map_obs(lambda column, t=t: column[t], shared) for t in steps]
        self._obs_writers = [map_obs(lambda column, t=t: column[t], self.obs_column) for t in steps]

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        if not self.on_device:
            self._share_rows()  # of a copy, in its own memory

    def _check_memory(self, observation_space: spaces.Space) -> None:
        """Check the memory.

        :raises UserError: the observations alone take more than is free
        """
        parts = observation_space.spaces.values() if isinstance(observation_space, spaces.Dict) else ()
        sizes = [
            math.prod(s.shape or ()) * np.dtype(stored_dtype(s.dtype)).itemsize
            for s in parts or (observation_space,)
        ]
        needed = self.n_steps * (self.n_envs * sum(sizes) + BYTES_OF_A_ROW)
        if needed > SMALL and needed > (free := available_memory()):
            raise UserError(
                f"n_steps={self.n_steps:,} with {self.n_envs} environments needs {needed / 1e9:,.1f} GB, "
                f"but {free / 1e9:,.1f} GB of memory are free; choose a smaller n_steps"
            )

    def _obs_column(self, space: spaces.Space) -> np.ndarray:
        return np.zeros((self.n_steps + 1, self.n_envs, *(space.shape or ())), stored_dtype(space.dtype))

    def store_like(self, obs: Obs) -> None:
        """Store observations as float32 where `obs` are floats although the space has integers.

        A VecNormalize makes such observations. What was stored is kept.

        :param obs: [n_envs, ...]; None before a training
        """
        if obs is None:
            return

        def column(rows: np.ndarray, one: np.ndarray) -> np.ndarray:
            is_normalized = one.dtype.kind == "f" and rows.dtype.kind != "f"
            return rows.astype(np.float32) if is_normalized else rows

        self.obs_column = map_obs(column, self.obs_column, obs)
        self._share_rows()

    def resized(self, n_steps: int, n_envs: int) -> RolloutBuffer:
        """Return an empty buffer of another size, with the attributes of this one."""
        made = copy.copy(self)
        spaces_ = (self.observation_space, self.action_space)
        RolloutBuffer.__init__(made, n_steps, *spaces_, self.device, self.gae_lambda, self.gamma, n_envs)
        return made

    def in_place_of(self, last: RolloutBuffer | None) -> RolloutBuffer:
        """Return the buffer of the last training, which callbacks may hold, with what this empty one has.

        Where there is none, or it is of another class, this one is returned.
        """
        if last is self or type(last) is not type(self):
            return self
        vars(last).clear()
        vars(last).update(vars(self))
        return last

    def reset(self) -> None:
        """Clear the buffer without freeing its memory."""
        self.filled = self._pos = 0  # steps collected since the last update
        self.estimates = self.learned = self.computed = None
        self.final_values_added = self.generator_ready = False
        if self.has_own_get:
            self.hide()

    def start(self, obs: Obs) -> None:
        """Start a new rollout from the current observations."""
        self._finals.clear()
        RolloutBuffer.reset(self)  # not that of a subclass
        self._write_obs(0, obs)
        if self.raw is not None:
            self.raw.start(obs)

    def restart(self, obs: Obs) -> None:
        """Continue a partly filled rollout with new episodes: those in progress count as truncated.

        :param obs: first observations of the new episodes, [n_envs, ...]
        """
        if 0 < self.filled < self.n_steps:  # else the last row is the bootstrap observation already
            last = self.filled - 1
            running = np.flatnonzero(~(self.terminated[last] | self.truncated[last])).tolist()
            self._finals += _rows_of(self._obs_writers[self.filled], last, running)
            self.truncated[last, running] = True
            self._write_obs(self.filled, obs)
            if self.raw is not None:
                self.raw.restart(self.filled, running, obs)

    def _write_obs(self, t: int, obs: Obs) -> None:
        row = self._obs_writers[t]
        if isinstance(row, dict):
            for key, target in row.items():
                target[...] = obs[key]
        else:
            row[...] = obs

    def add_step(self, t: int, step: PolicyOutput, result: StepResult, episode_start: np.ndarray) -> None:
        """Write step `t`: what was done (`step`) and what came of it (`result`, a `VecStep`)."""
        self.action_column[t] = step.action.cpu()
        self.reward_column[t] = result.rewards
        self.terminated[t] = result.terminated
        self.truncated[t] = result.truncated
        self.starts_column[t] = episode_start
        self._write_obs(t + 1, result.obs)
        for name, value in step.extra.items():
            if name not in self.extra_columns:
                self.extra_columns[name] = value.new_zeros((self.n_steps, *value.shape))
            self.extra_columns[name][t] = value
        if len(result.ended):
            self._finals += _truncated(t, result)
        if self.raw is not None:
            self.raw.add(t, result)
        self.filled = t + 1

    def state_dict(self) -> dict[str, Any]:
        """Copy the rows collected since the last update; empty without any, or where they are too large
        for a checkpoint."""
        columns = {"observations": _head(self.obs_column, self.filled + 1)}
        columns |= {name: getattr(self, column)[: self.filled] for name, column in _COLUMNS.items()}
        state: dict[str, Any] = {
            "columns": columns,
            "extra": {name: column[: self.filled].cpu() for name, column in self.extra_columns.items()},
            "finals": [list(f) for f in self._finals],
            "final_values_added": self.final_values_added,
        }
        if self.raw is not None and self.filled:
            state["raw"] = self.raw.state_dict(self.filled)
        if not self.filled or _n_bytes(state) > MAX_SAVED_BYTES:
            return {}
        return {**copy.deepcopy(state), "n_steps": self.n_steps, "n_envs": self.n_envs}

    def load_state_dict(self, state: dict[str, Any], device: torch.device) -> None:
        """Take over what `state_dict` returned; rows of another length or number of environments are dropped.

        :raises CheckpointError: they do not fit
        """
        shape = (self.n_steps, self.n_envs)
        if not state or (state["n_steps"], state["n_envs"]) != shape or (self.raw and "raw" not in state):
            return
        try:
            filled, n_envs = state["columns"]["rewards"].shape
            if not 0 < filled <= self.n_steps or n_envs != self.n_envs:
                raise ValueError(f"{filled} steps of {n_envs} environments")
            _fill(self.obs_column, state["columns"]["observations"], filled + 1)
            for name, column in _COLUMNS.items():
                _fill(getattr(self, column), state["columns"][name], filled)
            for name, rows in state["extra"].items():
                if rows.shape[:2] != (filled, n_envs):
                    raise ValueError(f"{name} is of shape {tuple(rows.shape)}")
                self.extra_columns[name] = torch.zeros(
                    (self.n_steps, *rows.shape[1:]), dtype=rows.dtype, device=device
                )
                self.extra_columns[name][:filled] = rows.to(device)
            self._finals = _loaded_finals(state["finals"], filled, n_envs)
            self.final_values_added = bool(state.get("final_values_added", False))
            if self.raw is not None:
                self.raw.load_state_dict(state["raw"], filled, n_envs)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(f"the rollout in the model file is damaged: {error}"[:300]) from None
        self.filled = filled

    @property
    def is_given(self) -> bool:
        """Whether a script has written the rollout by `add`, with its own values."""
        return self._pos == self.n_steps

    @property
    def without_value(self) -> np.ndarray:
        """Steps whose next state adds no value to the reward, or has done so already, [n_steps, n_envs]."""
        return self.terminated | self.truncated if self.final_values_added else self.terminated

    def advantages_and_returns(
        self, values: np.ndarray, next_values: np.ndarray, gamma: float, gae_lambda: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute advantages and lambda-returns [n_steps, n_envs] by `gae`, or return those of a script."""
        if self.is_given:
            return self.estimated()[2:]
        ends = (self.without_value, self.truncated)
        found = gae(self.reward_column, values, next_values, *ends, gamma, gae_lambda)
        return found if self.estimates is None else self.written(*found)

    def finals(self) -> Finals | None:
        """Return final observations of truncated episodes, [n_truncated, ...], with their (steps, envs); None
        without any."""
        if (found := _stacked(self._finals)) is None:
            return None
        obs, places = found
        return map_obs(lambda rows: rows.astype(stored_dtype(rows.dtype), copy=False), obs), places

    def flat_obs(self, device: torch.device) -> Obs:
        """Return observations that were acted on, [n_steps * n_envs, ...]."""
        return map_obs(
            lambda column: torch.from_numpy(column[:-1].reshape(-1, *column.shape[2:])).to(device),
            self.obs_column,
        )

    def flat_actions(self, device: torch.device) -> torch.Tensor:
        """Return actions that were taken, [n_steps * n_envs, ...]."""
        return torch.from_numpy(self.action_column.reshape(-1, *self.action_column.shape[2:])).to(device)

    def from_tensor(self, values: torch.Tensor) -> np.ndarray:
        """Return values that the policy has computed as what the other columns are, arrays or tensors."""
        array: np.ndarray = values.cpu().numpy()
        return array

    def last_obs(self) -> Obs:
        """Return observations after the last step, [n_envs, ...], sharing memory with the buffer."""
        return self._obs_writers[-1]

    def check_finite(self, steps_before: int) -> None:
        """Raise `EnvironmentFailed` when an environment returned NaN or infinity, naming it and the step.

        :param steps_before: steps that each environment had taken before this rollout
        """
        columns = {"reward": self.reward_column}
        named = self.obs_column if isinstance(self.obs_column, dict) else {"observation": self.obs_column}
        columns.update({key: column for key, column in named.items() if column.dtype == np.float32})
        for name, column in columns.items():
            with np.errstate(invalid="ignore"):  # inf - inf
                if np.isfinite(column.sum(dtype=np.float64)):
                    continue
            bad = np.argwhere(~np.isfinite(column.reshape(len(column), self.n_envs, -1)))
            if len(bad):
                t, env, entry = (int(index) for index in bad[0])
                # row t + 1 of the observations came out of step t, as did row t of the rewards
                step = steps_before + t + (name == "reward")
                raise _not_finite(
                    column.reshape(len(column), self.n_envs, -1)[t, env, entry], name, env, step
                )
        for t, env, final in self._finals:
            for name, row in final.items() if isinstance(final, dict) else [("observation", final)]:
                if row.dtype.kind == "f" and not (finite := np.isfinite(row)).all():
                    raise _not_finite(row[~finite][0], name, env, steps_before + t + 1)


class DictRolloutBuffer(RolloutBuffer):
    """A rollout buffer for Dict observations."""

    def __init__(
        self, buffer_size: int, observation_space: spaces.Space[object], *args: Any, **kwargs: Any
    ) -> None:
        if not isinstance(observation_space, spaces.Dict):
            raise UserError(f"DictRolloutBuffer is for Dict observations, not for {observation_space}")
        super().__init__(buffer_size, observation_space, *args, **kwargs)


class RawRollout:
    """The experience of a rollout as it was before a VecNormalize scaled it, in the precision it had.

    :param n_steps: of the rollout
    :param normalizer: the `ExperienceNormalizer` of the environment
    """

    def __init__(self, n_steps: int, normalizer: Any) -> None:
        self.n_steps, self.normalizer = n_steps, normalizer
        self.observations: Obs = None
        self._finals: list[tuple[int, int, Obs]] = []

    def start(self, shown: Obs) -> None:
        """Start a rollout.

        :param shown: the observations that the rollout begins with, as the agent sees them
        """
        obs = self.normalizer.raw_obs(shown)
        if self.observations is None:
            self.observations = map_obs(
                lambda rows: np.zeros((self.n_steps + 1, *rows.shape), rows.dtype), obs
            )
            self.rewards = np.zeros((self.n_steps, self.normalizer.reward_normalizer.num_envs), np.float32)
        self._finals.clear()
        self._write(0, obs)

    def add(self, t: int, result: StepResult) -> None:
        """Write step `t`, of which the agent saw `result`."""
        raw = self.normalizer.raw_step(result)
        self._write(t + 1, raw.obs)
        self.rewards[t] = raw.rewards
        if len(raw.ended):
            self._finals += _truncated(t, raw)

    def restart(self, t: int, running: list[int], shown: Obs) -> None:
        """Begin new episodes before step `t`; those of the environments `running` are truncated."""
        self._finals += _rows_of(map_obs(lambda column: column[t], self.observations), t - 1, running)
        self._write(t, self.normalizer.raw_obs(shown))

    def state_dict(self, filled: int) -> dict[str, Any]:
        """Return the first `filled` steps."""
        return {
            "observations": _head(self.observations, filled + 1),
            "rewards": self.rewards[:filled],
            "finals": [list(final) for final in self._finals],
        }

    def load_state_dict(self, state: dict[str, Any], filled: int, n_envs: int) -> None:
        """Take over what `state_dict` returned."""
        self.observations = map_obs(
            lambda rows: np.zeros((self.n_steps + 1, *rows.shape[1:]), rows.dtype), state["observations"]
        )
        self.rewards = np.zeros((self.n_steps, n_envs), np.float32)
        _fill(self.observations, state["observations"], filled + 1)
        _fill(self.rewards, state["rewards"], filled)
        self._finals = _loaded_finals(state["finals"], filled, n_envs)

    def _write(self, t: int, obs: Obs) -> None:
        if isinstance(obs, dict):
            for key, rows in obs.items():
                self.observations[key][t] = rows
        else:
            self.observations[t] = obs

    def finals(self) -> Finals | None:
        """Return the final observations of the rollout."""
        return _stacked(self._finals)

    def flat_obs(self, device: torch.device) -> Obs:
        """Return observations that were acted on, as the agent sees them now, [n_steps * n_envs, ...]."""
        rows = map_obs(lambda column: column[:-1].reshape(-1, *column.shape[2:]), self.observations)
        return map_obs(
            lambda part: torch.from_numpy(part.astype(stored_dtype(part.dtype), copy=False)).to(device),
            self.normalizer.normalize_obs(rows),
        )


def _truncated(t: int, result: StepResult) -> list[tuple[int, int, Obs]]:
    """Copy the final observations of the episodes that step `t` truncated, with step and environment."""
    return [
        (t, int(env), map_obs(lambda final, row=row: np.array(final[row]), result.final_obs))
        for row, env in enumerate(result.ended)
        if result.truncated[env] and not result.terminated[env]
    ]


def _rows_of(obs: Obs, t: int, envs: list[int]) -> list[tuple[int, int, Obs]]:
    """Copy the rows `envs` of observations [n_envs, ...], as final observations of step `t`."""
    return [(t, env, map_obs(lambda rows, env=env: np.array(rows[env]), obs)) for env in envs]


def _head(column: Obs, n_rows: int) -> Obs:
    return map_obs(lambda rows: rows[:n_rows], column)


def _fill(column: Obs, saved: Obs, n_rows: int) -> None:
    """Write saved rows to the beginning of a column.

    :raises ValueError: they are of another shape or type
    """
    if isinstance(column, dict):
        for key, part in column.items():
            _fill(part, saved[key], n_rows)
    elif saved.shape != (n_rows, *column.shape[1:]) or saved.dtype != column.dtype:
        raise ValueError(f"a column is of shape {tuple(saved.shape)} and type {saved.dtype}")
    else:
        column[:n_rows] = saved


def _loaded_finals(saved: Any, filled: int, n_envs: int) -> list[tuple[int, int, Obs]]:
    """Return the final observations of a checkpoint.

    :raises ValueError: a final observation is of no step or environment of the rollout
    """
    finals = [(int(t), int(env), obs) for t, env, obs in saved]
    if any(not (0 <= t < filled and 0 <= env < n_envs) for t, env, _ in finals):
        raise ValueError("a final observation is of no step")
    return finals


def _n_bytes(value: object) -> int:
    """Count the bytes of all arrays and tensors in nested values."""
    if isinstance(value, dict | list | tuple):
        return sum(map(_n_bytes, value.values() if isinstance(value, dict) else value))
    return int(getattr(value, "nbytes", 0))


def _stacked(finals: list[tuple[int, int, Obs]]) -> Finals | None:
    if not finals:
        return None
    steps, envs, rows = zip(*finals, strict=True)
    return map_obs(lambda *parts: np.stack(parts), *rows), (np.array(steps), np.array(envs))


def _not_finite(value: object, name: str, env: int, step: int) -> EnvironmentFailed:
    return EnvironmentFailed(f"environment {env} returned {value} in its {name} at step {step}", env, step)


Batch = TypeVar("Batch", bound="RolloutBatch")
EMPTY = torch.empty(0)
"""The value of a column that an algorithm does not fill."""


class PolicyContext(TypedDict, total=False):
    """What methods of a policy need besides observations, as keywords.

    `sequences` of a recurrent policy, `action_masks` [n_rows, n_choices] of a masked one, and
    `gaussian_actions` [n_rows, n], the actions of a squashed Gaussian before the tanh.
    """

    sequences: Sequences
    action_masks: Tensor
    gaussian_actions: Tensor


@dataclass(slots=True)
class RolloutBatch:
    """Rows of a rollout, [n_rows, ...], on the device of the algorithm.

    Columns that an algorithm does not fill are empty. A subclass may have further columns. Columns can also
    be read and written by name, `batch["obs"]`.

    :param actions: as they are stored
    :param context: keywords for the policy's methods
    :param values: V of the policy that collected the rows, [n_rows]
    :param log_probs: log-probabilities of the actions under that policy, [n_rows]
    """

    obs: TensorObs
    actions: Tensor = EMPTY
    context: PolicyContext = field(default_factory=PolicyContext)
    values: Tensor = EMPTY
    log_probs: Tensor = EMPTY
    advantages: Tensor = EMPTY
    returns: Tensor = EMPTY

    def __getitem__(self, name: str) -> object:
        return getattr(self, name)

    def __setitem__(self, name: str, value: object) -> None:
        setattr(self, name, value)

    def normalized_advantages(self) -> Tensor:
        """Return the advantages with mean 0 and standard deviation 1; the one of a single row unchanged."""
        if self.advantages.shape[-1] < 2:
            return self.advantages
        if takes_arrays(self.advantages):
            return torch.from_numpy(standardized(self.advantages.numpy()))
        std, mean = torch.std_mean(self.advantages, -1, keepdim=True)
        return (self.advantages - mean) / (std + 1e-8)

    def take(self: Batch, rows: Tensor) -> Batch:
        """Return the given rows of every column.

        :param rows: int tensor of row numbers
        """

        def rows_of(column: Tensor) -> Tensor:
            return column if column is EMPTY else column[rows.to(column.device)]

        return type(self)(**{item.name: map_obs(rows_of, getattr(self, item.name)) for item in fields(self)})


def uneven_minibatches(batch_size: int, n_steps: int, n_envs: int, normalized: bool) -> str | None:
    """Return a sentence when the last minibatch of a rollout is smaller than the others, else None.

    :param normalized: whether advantages are normalised, which a single row does not allow
    """
    rows = n_steps * n_envs
    if rows <= batch_size or rows % batch_size == 0:
        return None  # a smaller rollout is one minibatch
    divisors = (size for size in range(2, rows + 1) if rows % size == 0)
    fitting = min(divisors, key=lambda size: abs(size - batch_size))
    smaller = "be smaller"
    if rows % batch_size == 1 and normalized:
        smaller = "have one row, whose advantage cannot be normalised"
    return (
        f"batch_size {batch_size} does not divide n_steps * n_envs = {n_steps} * {n_envs} = "
        f"{rows}, so the last minibatch would {smaller}; the nearest that does is {fitting}"
    )


def single_minibatch(batch_size: int, n_steps: int, n_envs: int) -> str | None:
    """Return a sentence when a rollout is smaller than a minibatch, else None."""
    rows = n_steps * n_envs
    if rows >= batch_size:
        return None  # `uneven_minibatches` looks at these
    return (
        f"batch_size {batch_size} is larger than a rollout, n_steps * n_envs = {n_steps} * {n_envs} = {rows},"
        " so each minibatch is the whole rollout"
    )


def minibatches(batch: Batch, batch_size: int, n_rows: int, device: torch.device) -> Iterator[Batch]:
    """Split a batch of `n_rows` rows into shuffled minibatches; the last may be smaller.

    A single minibatch with all rows is not shuffled: a mean does not depend on the order of its terms.
    """
    if batch_size >= n_rows:
        yield batch
        return
    order = torch.randperm(n_rows, device=device)
    for start in range(0, n_rows, batch_size):
        yield batch.take(order[start : start + batch_size])

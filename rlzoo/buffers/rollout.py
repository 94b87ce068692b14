"""The experience of one rollout: preallocated columns, written in place, read once per update."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from rlzoo.core.errors import EnvironmentFailed, UserError
from rlzoo.core.interaction import Step
from rlzoo.core.memory import available_memory

BYTES_OF_A_ROW = 250  # the views of it

Obs = Any  # a tensor or array [..., *shape], or a dict of them
Finals = tuple[Obs, tuple[NDArray[np.intp], NDArray[np.intp]]]
"""Final observations of truncated episodes, [n_truncated, ...], with their (steps, envs)."""


def map_obs(function: Callable[..., Any], *observations: Obs) -> Obs:
    """Apply `function` to an observation, or to each entry of a dict observation."""
    first = observations[0]
    if isinstance(first, dict):
        return {key: function(*(obs[key] for obs in observations)) for key in first}
    return function(*observations)


def _stored_dtype(dtype: Any) -> Any:
    """Floating-point observations are kept in single precision, the precision of the networks."""
    return np.float32 if np.issubdtype(dtype, np.floating) else dtype


class RolloutBuffer:
    """Columns of shape [n_steps, n_envs, ...]; observations have one row more, for what the last step led to.

    A row is written where it will be read: acting reads `obs_rows[t]`, a tensor that shares memory with
    the column. The columns given by `Step.extra` are allocated when they first appear.

    :param like: observations [n_envs, ...]; where these are floating-point numbers, although the space has
        integers, since a VecNormalize scales them, they are stored so
    """

    def __init__(
        self,
        n_steps: int,
        n_envs: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        like: Obs = None,
    ) -> None:
        self.n_steps, self.n_envs = n_steps, n_envs
        self._check_memory(observation_space)
        if isinstance(observation_space, spaces.Dict):
            self.observations: Obs = {
                key: self._obs_column(space, None if like is None else like[key])
                for key, space in observation_space.spaces.items()
            }
        else:
            self.observations = self._obs_column(observation_space, like)
        shared = map_obs(torch.from_numpy, self.observations)
        self.obs_rows = [map_obs(lambda column, t=t: column[t], shared) for t in range(n_steps + 1)]
        self._obs_writers = [
            map_obs(lambda column, t=t: column[t], self.observations) for t in range(n_steps + 1)
        ]
        action_dtype = np.float32 if isinstance(action_space, spaces.Box) else np.int64
        self.actions = np.zeros((n_steps, n_envs, *(action_space.shape or ())), action_dtype)
        self.rewards = np.zeros((n_steps, n_envs), np.float32)
        self.terminated = np.zeros((n_steps, n_envs), bool)
        self.truncated = np.zeros((n_steps, n_envs), bool)
        self.episode_starts = np.zeros((n_steps, n_envs), bool)
        self.extra: dict[str, torch.Tensor] = {}
        self._finals: list[tuple[int, int, Obs]] = []
        self.raw: RawRollout | None = None

    def _check_memory(self, observation_space: spaces.Space) -> None:
        """:raises UserError: the observations alone take more memory than is free"""
        parts = observation_space.spaces.values() if isinstance(observation_space, spaces.Dict) else ()
        sizes = [
            math.prod(s.shape or ()) * np.dtype(_stored_dtype(s.dtype)).itemsize
            for s in parts or (observation_space,)
        ]
        needed, free = self.n_steps * (self.n_envs * sum(sizes) + BYTES_OF_A_ROW), available_memory()
        if needed > free:
            raise UserError(
                f"n_steps={self.n_steps:,} with {self.n_envs} environments needs {needed / 1e9:,.1f} GB, "
                f"but {free / 1e9:,.1f} GB of memory are free; choose a smaller n_steps"
            )

    def _obs_column(self, space: spaces.Space, like: np.ndarray | None) -> np.ndarray:
        shape = space.shape if space.shape is not None else ()
        normalized = like is not None and like.dtype.kind == "f"
        dtype = np.float32 if normalized else _stored_dtype(space.dtype)
        return np.zeros((self.n_steps + 1, self.n_envs, *shape), dtype)

    def start(self, obs: Obs) -> None:
        """Begin a new rollout with the observations that the environments show now."""
        self._finals.clear()
        self._write_obs(0, obs)
        if self.raw is not None:
            self.raw.start(obs)

    def _write_obs(self, t: int, obs: Obs) -> None:
        row = self._obs_writers[t]
        if isinstance(row, dict):
            for key, target in row.items():
                target[...] = obs[key]
        else:
            row[...] = obs

    def add(self, t: int, step: Step, result: Any, episode_start: np.ndarray) -> None:
        """Write step `t`: what was done (`step`) and what came of it (`result`, a `StepArrays`)."""
        self.actions[t] = step.action.cpu()
        self.rewards[t] = result.rewards
        self.terminated[t] = result.terminated
        self.truncated[t] = result.truncated
        self.episode_starts[t] = episode_start
        self._write_obs(t + 1, result.obs)
        for name, value in step.extra.items():
            if name not in self.extra:
                self.extra[name] = torch.zeros(
                    (self.n_steps, *value.shape), dtype=value.dtype, device=value.device
                )
            self.extra[name][t] = value
        if len(result.ended):
            self._finals += _truncated(t, result)
        if self.raw is not None:
            self.raw.add(t, result)

    def finals(self) -> Finals | None:
        """Final observations of truncated episodes, [n_truncated, ...], with their (steps, envs); None
        without any."""
        if (found := _stacked(self._finals)) is None:
            return None
        obs, places = found
        return map_obs(lambda rows: rows.astype(_stored_dtype(rows.dtype), copy=False), obs), places

    def flat_obs(self, device: torch.device) -> Obs:
        """Observations that were acted on, [n_steps * n_envs, ...]."""
        return map_obs(
            lambda column: torch.from_numpy(column[:-1].reshape(-1, *column.shape[2:])).to(device),
            self.observations,
        )

    def flat_actions(self, device: torch.device) -> torch.Tensor:
        """Actions that were taken, [n_steps * n_envs, ...]."""
        return torch.from_numpy(self.actions.reshape(-1, *self.actions.shape[2:])).to(device)

    def last_obs(self) -> Obs:
        """Observations after the last step, [n_envs, ...], sharing memory with the buffer."""
        return self._obs_writers[-1]

    def check_finite(self, steps_before: int) -> None:
        """Raise `EnvironmentFailed` when an environment returned NaN or infinity, naming it and the step.

        :param steps_before: steps that each environment had taken before this rollout
        """
        columns = {"reward": self.rewards}
        named = (
            self.observations if isinstance(self.observations, dict) else {"observation": self.observations}
        )
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


class RawRollout:
    """The experience of a rollout as it was before a VecNormalize scaled it, in the precision it had.

    :param n_steps: of the rollout
    :param rescaling: the `Rescaling` of the environment
    """

    def __init__(self, n_steps: int, rescaling: Any) -> None:
        self.n_steps, self.rescaling = n_steps, rescaling
        self.observations: Obs = None
        self._finals: list[tuple[int, int, Obs]] = []

    def start(self, shown: Obs) -> None:
        """:param shown: the observations that the rollout begins with, as the agent sees them"""
        obs = self.rescaling.raw_obs(shown)
        if self.observations is None:
            self.observations = map_obs(
                lambda rows: np.zeros((self.n_steps + 1, *rows.shape), rows.dtype), obs
            )
            self.rewards = np.zeros((self.n_steps, self.rescaling.rewards.num_envs), np.float32)
        self._finals.clear()
        self._write(0, obs)

    def add(self, t: int, result: Any) -> None:
        """Write step `t`, of which the agent saw `result`."""
        raw = self.rescaling.raw_step(result)
        self._write(t + 1, raw.obs)
        self.rewards[t] = raw.rewards
        if len(raw.ended):
            self._finals += _truncated(t, raw)

    def _write(self, t: int, obs: Obs) -> None:
        if isinstance(obs, dict):
            for key, rows in obs.items():
                self.observations[key][t] = rows
        else:
            self.observations[t] = obs

    def finals(self) -> Finals | None:
        """As those of the rollout."""
        return _stacked(self._finals)

    def flat_obs(self, device: torch.device) -> Obs:
        """Observations that were acted on, as the agent would see them now, [n_steps * n_envs, ...]."""
        rows = map_obs(lambda column: column[:-1].reshape(-1, *column.shape[2:]), self.observations)
        return map_obs(
            lambda part: torch.from_numpy(part.astype(_stored_dtype(part.dtype), copy=False)).to(device),
            self.rescaling.normalize_obs(rows),
        )


def _truncated(t: int, result: Any) -> list[tuple[int, int, Obs]]:
    """Copies of the final observations of the episodes that step `t` truncated, with step and environment."""
    return [
        (t, int(env), map_obs(lambda final, row=row: np.array(final[row]), result.final_obs))
        for row, env in enumerate(result.ended)
        if result.truncated[env] and not result.terminated[env]
    ]


def _stacked(finals: list[tuple[int, int, Obs]]) -> Finals | None:
    if not finals:
        return None
    steps, envs, rows = zip(*finals, strict=True)
    return map_obs(lambda *parts: np.stack(parts), *rows), (np.array(steps), np.array(envs))


def _not_finite(value: Any, name: str, env: int, step: int) -> EnvironmentFailed:
    return EnvironmentFailed(f"environment {env} returned {value} in its {name} at step {step}", env, step)


def minibatches(
    columns: dict[str, Obs], batch_size: int, n_rows: int, device: torch.device
) -> Iterator[dict[str, Obs]]:
    """Split columns of `n_rows` rows into shuffled minibatches; the last may be smaller.

    One minibatch that holds every row is handed out as it is: a mean does not depend on the order of its
    terms.
    """
    if batch_size >= n_rows:
        yield columns
        return
    order = torch.randperm(n_rows, device=device)
    for start in range(0, n_rows, batch_size):
        rows = order[start : start + batch_size]
        yield {
            name: map_obs(lambda column, rows=rows: column[rows], column) for name, column in columns.items()
        }

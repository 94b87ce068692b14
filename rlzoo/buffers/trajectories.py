"""Replay buffer of whole trajectories, which the targets of Retrace need.

A slot of the buffer holds one rollout of every environment. A sample has, for each environment, one of its
trajectories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numpy.typing import NDArray

from rlzoo.buffers.base_buffer import Normalizer, Obs, map_obs
from rlzoo.buffers.frame_stacked_array import FrameStackedArray
from rlzoo.buffers.rollout_buffer import Finals, RawRollout, RolloutBuffer
from rlzoo.buffers.sequences import RNNState, Sequences


@dataclass
class Trajectories:
    """Trajectories of `n_steps` steps of each of `n_envs` environments.

    :param obs: [n_steps + 1, n_envs, ...]; the last row is after the last step
    :param log_mu: log-probabilities of all actions under the behaviour policy, [n_steps, n_envs, n_actions]
    :param rnn_state: of a recurrent policy before the first step, [n_envs, ...]

    The other arrays are [n_steps, n_envs].
    """

    obs: Obs
    actions: NDArray[np.int64]
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    episode_starts: NDArray[np.bool_]
    log_mu: NDArray[np.float32]
    rnn_state: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    finals: Finals | None = None

    @classmethod
    def of_rollout(cls, rollout: RolloutBuffer, rnn_state_names: tuple[str, ...]) -> Trajectories:
        """Return the trajectories of a rollout, sharing its memory.

        :param rnn_state_names: columns of the rollout with the hidden state of a recurrent policy
        """
        return cls(
            obs=rollout.obs_column,
            actions=rollout.action_column,
            rewards=rollout.reward_column,
            terminated=rollout.terminated,
            truncated=rollout.truncated,
            episode_starts=rollout.starts_column,
            log_mu=rollout.extra_columns["log_mu"].cpu().numpy(),
            rnn_state={name: rollout.extra_columns[name][0].cpu().numpy() for name in rnn_state_names},
            finals=rollout.finals(),
        )

    def before_scaling(self, raw: RawRollout) -> Trajectories:
        """Return the same without normalisation."""
        return replace(self, obs=raw.observations, rewards=raw.rewards, finals=raw.finals())

    def scaled(self, normalizer: Normalizer) -> Trajectories:
        """Return raw trajectories as the agent would see them now.

        :param normalizer: the `ExperienceNormalizer` of the environment
        """
        flat = map_obs(lambda column: column.reshape(-1, *column.shape[2:]), self.obs)
        shape = (self.n_steps + 1, self.n_envs)
        return replace(
            self,
            obs=map_obs(lambda rows: rows.reshape(*shape, *rows.shape[1:]), normalizer.normalize_obs(flat)),
            rewards=normalizer.normalize_reward(self.rewards.reshape(-1)).reshape(self.rewards.shape),
            finals=self.finals and (normalizer.normalize_obs(self.finals[0]), self.finals[1]),
        )

    @property
    def n_steps(self) -> int:
        return len(self.rewards)

    @property
    def n_envs(self) -> int:
        return self.rewards.shape[1]

    def columns(self) -> dict[str, np.ndarray]:
        """Return every array of fixed shape by name."""
        obs = self.obs if isinstance(self.obs, dict) else {"": self.obs}
        return {
            **{f"obs/{key}": column for key, column in obs.items()},
            **{f"memory/{key}": column[None] for key, column in self.rnn_state.items()},
            **{name: getattr(self, name) for name in STEPWISE},
        }

    def all_obs(self, device: torch.device) -> Obs:
        """Return all observations, [(n_steps + 1) * n_envs + n_truncated, ...]; the final ones are last."""

        def rows(column: np.ndarray, *final: np.ndarray) -> torch.Tensor:
            flat = column.reshape(-1, *column.shape[2:])
            return torch.from_numpy(np.concatenate([flat, *final])).to(device)

        return map_obs(rows, self.obs, *([] if self.finals is None else [self.finals[0]]))

    def sequences(self, device: torch.device) -> Sequences:
        """Return the sequences of the rows of `all_obs`; a final observation ends that of its episode."""
        steps, envs = np.divmod(np.arange((self.n_steps + 1) * self.n_envs), self.n_envs)
        ended = (self.terminated | self.truncated)[-1:]
        fresh = np.concatenate([self.episode_starts, ended]).ravel()
        starts, time = fresh | (steps == 0), 2 * steps
        if self.finals is not None:
            final_steps, final_envs = self.finals[1]
            starts = np.concatenate([starts, np.zeros(len(final_steps), bool)])
            time = np.concatenate([time, 2 * final_steps + 1])
            envs = np.concatenate([envs, final_envs])
        order = np.lexsort((time, envs))
        first = order[starts[order]]  # the rows that begin sequences
        kept = torch.from_numpy((time[first] == 0) & ~fresh[first]).to(device)
        rnn_state: RNNState = {}
        for name, before in self.rnn_state.items():
            column = torch.from_numpy(before[envs[first]]).to(device)
            rnn_state[name] = column * kept.reshape(-1, *[1] * (column.dim() - 1))
        return Sequences(starts[order], order, rnn_state, device)


STEPWISE = ("actions", "rewards", "terminated", "truncated", "episode_starts", "log_mu")


class TrajectoryBuffer:
    """Ring buffer of rollouts.

    :param n_slots: capacity in rollouts
    :param n_stack: number of stacked frames in images; each frame is stored once
    """

    def __init__(self, n_slots: int, n_stack: int = 1) -> None:
        self.n_slots, self.n_stack = n_slots, n_stack
        self.reset()

    def reset(self) -> None:
        """Clear the buffer, also its shapes."""
        # [n_slots, n_envs, n_steps (or n_steps + 1, or 1), ...]
        self.columns: dict[str, np.ndarray | FrameStackedArray] = {}
        self.finals: list[Finals | None] = []
        self.pos = 0

    @property
    def n_filled(self) -> int:
        """Number of filled slots."""
        return len(self.finals)

    @property
    def n_steps(self) -> int:
        """Steps of a trajectory."""
        return self.columns["rewards"].shape[2]

    @property
    def n_envs(self) -> int:
        return self.columns["rewards"].shape[1]

    @property
    def steps_held(self) -> int:
        """Number of stored steps of each environment."""
        return self.n_filled * self.n_steps if self.n_filled else 0

    def __len__(self) -> int:
        """Return the number of stored steps over all environments."""
        return self.steps_held * self.n_envs if self.n_filled else 0

    def _column(
        self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike
    ) -> np.ndarray | FrameStackedArray:
        """Return an empty column for trajectories of a shape [n_envs, ...]."""
        shape = (self.n_slots, *shape)
        if name.startswith("obs/") and FrameStackedArray.fit(shape, self.n_stack):
            return FrameStackedArray(shape, dtype, self.n_stack)
        return np.zeros(shape, dtype)

    def add(self, trajectories: Trajectories) -> None:
        """Store a copy; a full buffer overwrites the oldest.

        Trajectories of another shape (another number of environments or steps) replace everything.
        """
        columns = {name: column.swapaxes(0, 1) for name, column in trajectories.columns().items()}
        if {name: column.shape[1:] for name, column in self.columns.items()} != {
            name: column.shape for name, column in columns.items()
        }:
            self.reset()
            self.columns = {
                name: self._column(name, column.shape, column.dtype) for name, column in columns.items()
            }
        for name, column in columns.items():
            self.columns[name][self.pos] = column
        if self.n_filled < self.n_slots:
            self.finals.append(trajectories.finals)
        else:
            self.finals[self.pos] = trajectories.finals
        self.pos = (self.pos + 1) % self.n_slots

    def sample(self) -> Trajectories:
        """Sample a trajectory of each environment uniformly."""
        slots = torch.randint(self.n_filled, (self.n_envs,)).numpy()
        envs = np.arange(self.n_envs)
        drawn = {name: column[slots, envs].swapaxes(0, 1) for name, column in self.columns.items()}
        obs, rnn_state = _named(drawn, "obs/"), _named(drawn, "memory/")
        return Trajectories(
            obs=obs.get("", obs),
            rnn_state={name: column[0] for name, column in rnn_state.items()},
            finals=self._finals_of(slots),
            **{name: drawn[name] for name in STEPWISE},
        )

    def _finals_of(self, slots: np.ndarray) -> Finals | None:
        """Return the final observations of the trajectory in slot `slots[env]` of each environment."""
        rows, steps, envs = [], [], []
        for env, slot in enumerate(slots):
            if (finals := self.finals[slot]) is None:
                continue
            obs, (final_steps, final_envs) = finals
            for row in np.flatnonzero(final_envs == env):
                rows.append(map_obs(lambda column, row=row: column[row], obs))
                steps.append(final_steps[row])
                envs.append(env)
        if not rows:
            return None
        return map_obs(lambda *parts: np.stack(parts), *rows), (np.array(steps), np.array(envs))

    # ---------------------------------------------------------------- as arrays, for a file

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the contents in the order of the ring; final observations are concatenated."""
        n = self.n_filled
        arrays = {
            name: column.first(n) if isinstance(column, FrameStackedArray) else column[:n]
            for name, column in self.columns.items()
        }
        arrays["position"] = np.array([self.pos])
        kept = [(slot, finals) for slot, finals in enumerate(self.finals) if finals is not None]
        if kept:
            arrays["finals"] = np.concatenate(
                [np.stack([np.full(len(steps), slot), steps, envs]) for slot, (_, (steps, envs)) in kept],
                axis=1,
            )
            stacked = map_obs(lambda *parts: np.concatenate(parts), *(finals[0] for _, finals in kept))
            rows = stacked if isinstance(stacked, dict) else {"": stacked}
            arrays |= {f"final_obs/{key}": column for key, column in rows.items()}
        return arrays

    def set_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load the result of `arrays`; if not all slots fit, the newest.

        :raises ValueError, LookupError: arrays that do not fit each other
        """
        n_filled, pos = len(arrays["rewards"]), int(arrays["position"][0])
        if n_filled == self.n_slots:
            chosen = np.arange(n_filled)  # as the ring lay
            pos %= self.n_slots  # 0 where a larger ring was not yet full
        else:
            chosen = np.roll(np.arange(n_filled), -pos)[-self.n_slots :]  # oldest first
            pos = len(chosen) % self.n_slots
        columns, finals = {}, _finals_by_slot(arrays, n_filled)
        for name, array in arrays.items():
            if name in STEPWISE or name.startswith(("obs/", "memory/")):
                columns[name] = self._column(name, array.shape[1:], array.dtype)
                for slot, source in enumerate(chosen):
                    columns[name][slot] = array[source]
        self.columns, self.finals, self.pos = columns, [finals[slot] for slot in chosen], pos


def _finals_by_slot(arrays: Mapping[str, np.ndarray], n_slots: int) -> list[Finals | None]:
    by_slot: list[Finals | None] = [None] * n_slots
    if "finals" not in arrays:
        return by_slot
    slots, steps, envs = arrays["finals"]
    obs: Any = _named(arrays, "final_obs/")
    obs = obs.get("", obs)
    for slot in np.unique(slots):
        rows = np.flatnonzero(slots == slot)
        by_slot[slot] = (map_obs(lambda column, rows=rows: column[rows], obs), (steps[rows], envs[rows]))
    return by_slot


def _named(columns: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Return the columns whose names begin with `prefix`, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in columns.items() if name.startswith(prefix)}

"""Episode returns and lengths, counted for all environments of a vector at once."""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import gymnasium as gym
import numpy as np

from rlzoo.core.errors import UserError
from rlzoo.core.observations import Info
from rlzoo.envs.single_env.monitor import Monitor, ResultsWriter
from rlzoo.envs.vec_env.vec_env import VecStep


class StatisticsState(TypedDict):
    """Statistics of the episodes in progress, as stored in a checkpoint."""

    returns: np.ndarray  # [n_envs] float64
    lengths: np.ndarray  # [n_envs] int64
    rows: list[int]  # episodes in each monitor file


class EpisodeStatistics:
    """Record what a `Monitor` around each environment would, in a fraction of the time.

    :param num_envs: number of environments
    :param filename: a folder for one `<i>.monitor.csv` per environment; any other name is one file for all;
        None writes no file
    :param info_keywords: keys of an episode's last info to record
    :param override_existing: replace existing files instead of appending to them
    :param start_index: number of the first file in a folder
    :param env_id: id of the environment, written to the files
    """

    def __init__(
        self,
        num_envs: int,
        filename: str | os.PathLike[str] | None = None,
        info_keywords: Sequence[str] = (),
        override_existing: bool = True,
        start_index: int = 0,
        env_id: str | None = None,
    ) -> None:
        self.info_keywords = tuple(info_keywords)
        self.t_start = time.time()
        self.returns = np.zeros(num_envs, dtype=np.float64)
        self._began = np.zeros(num_envs, dtype=np.int64)  # value of `_steps` at the start of each episode
        self._steps = 0
        self._episodes = array("d")  # environment, return, length, seconds of each finished episode
        self._was_reset = False
        self.writers: list[ResultsWriter] = []
        if filename is None:
            return
        header = {"t_start": self.t_start, "env_id": env_id}
        path = Path(filename)
        files = [path / str(start_index + index) for index in range(num_envs)] if path.is_dir() else [path]
        self.writers = [ResultsWriter(file, header, self.info_keywords, override_existing) for file in files]

    @property
    def lengths(self) -> np.ndarray:
        """Lengths of the current episodes so far, in steps [n_envs]."""
        return self._steps - self._began

    @property
    def n_episodes(self) -> int:
        """Number of finished episodes."""
        return len(self._episodes) // 4

    def start_episodes(self) -> None:
        """Start a new episode in every environment; call it at a reset."""
        self.returns[:] = 0.0
        self._began[:] = self._steps
        self._was_reset = True

    def record(self, step: VecStep) -> None:
        """Count a step; where an episode ended, set `step.infos[i]["episode"]` (in a new list).

        :raises UserError: the last info of an episode lacks one of `info_keywords`
        """
        self._steps += 1
        self.returns += step.rewards
        if len(step.ended):
            self._end_episodes(step)

    def _end_episodes(self, step: VecStep) -> None:
        seconds = round(time.time() - self.t_start, 6)
        infos: list[Info] = list(step.infos)
        for index in step.ended.tolist():
            info = infos[index]
            limit = bool(step.truncated[index] and not step.terminated[index])
            known = {"TimeLimit.truncated": limit, **info}
            length = int(self._steps - self._began[index])
            episode: Info = {"r": round(float(self.returns[index]), 6), "l": length, "t": seconds}
            for key in self.info_keywords:
                if key not in known:
                    raise UserError(f"the last info of an episode has no {key!r}; it has {sorted(info)}")
                episode[key] = known[key]
            infos[index] = {**info, "episode": episode}
            self._episodes.extend((index, self.returns[index], length, seconds))
            if self.writers:
                self.writers[index % len(self.writers)].write_row(episode)
        step.infos = infos
        self.returns[step.ended] = 0.0
        self._began[step.ended] = self._steps

    def state(self) -> StatisticsState:
        """Return the statistics of the episodes in progress, for a checkpoint."""
        rows = [writer.n_rows for writer in self.writers]
        return {"returns": self.returns.copy(), "lengths": self.lengths, "rows": rows}

    def load_state(self, state: StatisticsState) -> None:
        """Restore what `state` returned; remove rows that were written to the files since."""
        self.returns[:] = state["returns"]
        self._began[:] = self._steps - state["lengths"]
        for writer, n_rows in zip(self.writers, state["rows"], strict=False):
            writer.truncate(n_rows)

    def wrap_in_monitors(self, envs: Sequence[gym.Env]) -> list[gym.Env]:
        """Return the environments, each in a Monitor that continues these statistics and files."""
        episodes = np.array(self._episodes).reshape(-1, 4)
        monitors: list[gym.Env] = []
        for index, env in enumerate(envs):
            monitor = Monitor(env, info_keywords=self.info_keywords)
            own = episodes[episodes[:, 0] == index]
            writer = self.writers[index % len(self.writers)] if self.writers else None
            monitor.continue_from(
                self.t_start,
                float(self.returns[index]),
                int(self.lengths[index]),
                self._steps,
                own[:, 1:],
                writer,
                needs_reset=not self._was_reset,
            )
            monitors.append(monitor)
        return monitors

    def close(self) -> None:
        """Close the monitor files."""
        for writer in self.writers:
            writer.close()

"""Return and length of episodes, taken once per step for a whole vector of environments."""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from rlzoo.core.errors import UserError
from rlzoo.envs.single_env.monitor import Monitor, ResultsWriter
from rlzoo.envs.vec_env.vec_env import StepArrays


class EpisodeStatistics:
    """What a `Monitor` around each environment keeps, for a fraction of the time.

    :param num_envs: number of environments
    :param filename: a folder gets one `<i>.monitor.csv` per environment, any other name is one file for all;
        None writes no file
    :param info_keywords: keys of the last info of an episode to record with it
    :param override_existing: start the files anew instead of continuing them
    :param start_index: number of the first file in a folder
    :param env_id: what the files name as the environment
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
        self._began = np.zeros(num_envs, dtype=np.int64)  # step count at which each episode began
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
        """Steps taken in the current episodes [n_envs]."""
        return self._steps - self._began

    @property
    def n_episodes(self) -> int:
        """Number of episodes that ended."""
        return len(self._episodes) // 4

    def begin(self) -> None:
        """Begin an episode of every environment."""
        self.returns[:] = 0.0
        self._began[:] = self._steps
        self._was_reset = True

    def record(self, step: StepArrays) -> None:
        """Add a step; `info["episode"]` of a new list in `step` is an episode that ended by it.

        :raises UserError: the last info of an episode lacks one of `info_keywords`
        """
        self._steps += 1
        self.returns += step.rewards
        if len(step.ended):
            self._end_episodes(step)

    def _end_episodes(self, step: StepArrays) -> None:
        seconds = round(time.time() - self.t_start, 6)
        infos = list(step.infos)
        for index in step.ended.tolist():
            info = infos[index]
            limit = bool(step.truncated[index] and not step.terminated[index])
            known = {"TimeLimit.truncated": limit, **info}
            length = int(self._steps - self._began[index])
            episode = {"r": round(float(self.returns[index]), 6), "l": length, "t": seconds}
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

    def state(self) -> dict[str, Any]:
        """Return the statistics of the episodes in progress, for a checkpoint."""
        rows = [writer.n_rows for writer in self.writers]
        return {"returns": self.returns.copy(), "lengths": self.lengths, "rows": rows}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take over what `state` returned; rows of files that came later are removed."""
        self.returns[:] = state["returns"]
        self._began[:] = self._steps - state["lengths"]
        for writer, n_rows in zip(self.writers, state["rows"], strict=False):
            writer.truncate(n_rows)

    def monitored(self, envs: Sequence[gym.Env[Any, Any]]) -> list[gym.Env[Any, Any]]:
        """Return the environments, each in a Monitor that goes on with these statistics and their files."""
        episodes = np.array(self._episodes).reshape(-1, 4)
        monitors: list[gym.Env[Any, Any]] = []
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
        """Close the files."""
        for writer in self.writers:
            writer.close()

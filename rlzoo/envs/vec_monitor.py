"""Episode statistics of a whole vector of environments."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlzoo.core.errors import UserError
from rlzoo.envs.obs_arrays import Obs
from rlzoo.envs.vec_env import StepArrays, VecEnv, VecEnvWrapper


class VecMonitor(VecEnvWrapper):
    """Puts `info["episode"] = {"r": return, "l": length, "t": seconds}` where an episode ends; writes files.

    :param venv: the vector environment
    :param filename: a folder gets one `<i>.monitor.csv` per environment, any other name is one file for all;
        None writes no file
    :param info_keywords: keys of the last info of an episode to record with it
    :param override_existing: start the files anew instead of continuing them
    :param start_index: number of the first file in a folder
    """

    def __init__(
        self,
        venv: VecEnv,
        filename: str | os.PathLike[str] | None = None,
        info_keywords: Sequence[str] = (),
        override_existing: bool = True,
        start_index: int = 0,
    ) -> None:
        from rlzoo.envs.monitor import Monitor, ResultsWriter

        super().__init__(venv)
        if any(venv.env_is_wrapped(Monitor)):
            warnings.warn("the environments have a Monitor: VecMonitor replaces its statistics", stacklevel=2)
        self.info_keywords = tuple(info_keywords)
        self.t_start = time.time()
        self.episode_returns = np.zeros(self.num_envs, dtype=np.float64)
        self._began = np.zeros(self.num_envs, dtype=np.int64)  # step count at which each episode began
        self._steps = 0
        self._writers: list[ResultsWriter] = []
        if filename is None:
            return
        spec = venv.get_attr("spec", 0)[0] if venv.has_attr("spec") else None
        header = {"t_start": self.t_start, "env_id": spec.id if spec is not None else None}
        path = Path(filename)
        files = [path]
        if path.is_dir():
            files = [path / str(start_index + index) for index in range(self.num_envs)]
        self._writers = [ResultsWriter(file, header, self.info_keywords, override_existing) for file in files]

    @property
    def episode_lengths(self) -> np.ndarray:
        """Steps taken in the current episodes [n_envs]."""
        return self._steps - self._began

    def reset(self) -> Obs:
        self.episode_returns[:] = 0.0
        self._began[:] = self._steps
        return self.venv.reset()

    def wait_arrays(self) -> StepArrays:
        step = self.venv.wait_arrays()
        self._steps += 1
        self.episode_returns += step.rewards
        if len(step.ended):
            self._end_episodes(step)
        return step

    def _end_episodes(self, step: StepArrays) -> None:
        seconds = round(time.time() - self.t_start, 6)
        infos = list(step.infos)
        for index in step.ended.tolist():
            info = infos[index]
            episode = {
                "r": round(float(self.episode_returns[index]), 6),
                "l": int(self._steps - self._began[index]),
                "t": seconds,
            }
            for key in self.info_keywords:
                if key not in info:
                    raise UserError(f"the last info of an episode has no {key!r}; it has {sorted(info)}")
                episode[key] = info[key]
            infos[index] = {**info, "episode": episode}
            if self._writers:
                self._writers[index % len(self._writers)].write_row(episode)
        step.infos = infos
        self.episode_returns[step.ended] = 0.0
        self._began[step.ended] = self._steps

    def wrapper_state(self) -> dict[str, Any]:
        return {
            "returns": self.episode_returns.copy(),
            "lengths": self.episode_lengths,
            "rows": [writer.n_rows for writer in self._writers],
        }

    def load_wrapper_state(self, state: dict[str, Any]) -> None:
        self.episode_returns[:] = state["returns"]
        self._began[:] = self._steps - state["lengths"]
        for writer, n_rows in zip(self._writers, state["rows"], strict=False):
            writer.truncate(n_rows)

    def close(self) -> None:
        for writer in self._writers:
            writer.close()
        self.venv.close()

"""Episode statistics of a whole vector of environments."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlzoo.core.observations import Obs
from rlzoo.envs.single_env.monitor import Monitor, ResultsWriter
from rlzoo.envs.vec_env.episode_statistics import EpisodeStatistics
from rlzoo.envs.vec_env.vec_env import StepArrays, VecEnv, VecEnvWrapper


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
        super().__init__(venv)
        if any(venv.env_is_wrapped(Monitor)):
            warnings.warn("the environments have a Monitor: VecMonitor replaces its statistics", stacklevel=2)
        env_id = None
        if filename is not None and venv.has_attr("spec"):
            env_id = getattr(venv.get_attr("spec", 0)[0], "id", None)
        self.statistics = EpisodeStatistics(
            self.num_envs, filename, info_keywords, override_existing, start_index, env_id
        )

    @property
    def episode_returns(self) -> np.ndarray:
        """Returns of the current episodes so far [n_envs]."""
        return self.statistics.returns

    @property
    def episode_lengths(self) -> np.ndarray:
        """Steps taken in the current episodes [n_envs]."""
        return self.statistics.lengths

    @property
    def episode_count(self) -> int:
        """Number of episodes that ended."""
        return self.statistics.n_episodes

    @property
    def info_keywords(self) -> tuple[str, ...]:
        """Keys of the last info of an episode that are recorded with it."""
        return self.statistics.info_keywords

    @property
    def t_start(self) -> float:
        """Unix time at which the statistics began."""
        return self.statistics.t_start

    @property
    def results_writer(self) -> ResultsWriter | None:
        """The writer of the (first) monitor file, if one is written."""
        return next(iter(self.statistics.writers), None)

    def reset(self) -> Obs:
        self.statistics.begin()
        return self.venv.reset()

    def wait_arrays(self) -> StepArrays:
        step = self.venv.wait_arrays()
        self.statistics.record(step)
        return step

    def wrapper_state(self) -> dict[str, Any]:
        return self.statistics.state()

    def load_wrapper_state(self, state: dict[str, Any]) -> None:
        self.statistics.load_state(state)

    def close(self) -> None:
        self.statistics.close()
        self.venv.close()

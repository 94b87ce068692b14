"""Episode statistics of a vectorised environment."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import cast

import numpy as np

from rlzoo.core.observations import Obs
from rlzoo.envs.single_env.monitor import EpisodeStatistics, Monitor, ResultsWriter, StatisticsState
from rlzoo.envs.vec_env.vec_env import State, VecEnv, VecEnvWrapper, VecStep


class VecMonitor(VecEnvWrapper):
    """Record returns and lengths of episodes: in `info["episode"]` where an episode ends, and in CSV files.

    >>> venv = VecMonitor(DummyVecEnv([lambda: gym.make("CartPole-v1")] * 4), "logs")
    >>> obs, dones = venv.reset(), [False]
    >>> while not dones[0]:
    ...     obs, rewards, dones, infos = venv.step(np.zeros(4, int))
    >>> infos[0]["episode"]  # return, length in steps, seconds
    {'r': ..., 'l': ..., 't': ...}

    :param venv: the vectorised environment
    :param filename: a folder for one `<i>.monitor.csv` per environment; any other name is one file for all;
        None writes no file
    :param info_keywords: keys of an episode's last info to record
    :param override_existing: replace existing files instead of appending to them
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
        """Returns of the current episodes so far, float64 [n_envs]."""
        return self.statistics.returns

    @property
    def episode_lengths(self) -> np.ndarray:
        """Lengths of the current episodes so far, in steps [n_envs]."""
        return self.statistics.lengths

    @property
    def episode_count(self) -> int:
        """Number of finished episodes."""
        return self.statistics.n_episodes

    @property
    def info_keywords(self) -> tuple[str, ...]:
        """Keys of an episode's last info that are recorded."""
        return self.statistics.info_keywords

    @property
    def t_start(self) -> float:
        """Unix time of the start of the statistics."""
        return self.statistics.t_start

    @property
    def results_writer(self) -> ResultsWriter | None:
        """The writer of the (first) monitor file; None if none is written."""
        return next(iter(self.statistics.writers), None)

    def reset(self) -> Obs:
        self.statistics.start_episodes()
        return self.venv.reset()

    def wait_arrays(self) -> VecStep:
        step = self.venv.wait_arrays()
        self.statistics.record(step)
        return step

    def wrapper_state(self) -> State:
        return dict(self.statistics.state())

    def load_wrapper_state(self, state: State) -> None:
        self.statistics.load_state(cast(StatisticsState, state))

    def close(self) -> None:
        self.statistics.close()
        self.venv.close()

"""The population loop: propose candidates, play the episodes of each, learn from their returns.

It drives random search. Each candidate has a different environment seed, and the statistics of VecNormalize
are frozen while candidates are evaluated, so that results do not depend on the number of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from rlzoo.callbacks.base_callback import BaseCallback
from rlzoo.callbacks.progress import log_progress
from rlzoo.core.types import Metrics
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.training.candidates import AsyncEval, Outcome, play_here
from rlzoo.training.training_state import record_episodes


def population(algorithm: Any, env: VecEnv, callback: BaseCallback, log_interval: int) -> None:
    """Train until `counters.total_timesteps`, or until a callback says stop.

    :param log_interval: iterations between two dumps of metrics
    """
    counters = algorithm.counters
    locals_ = CandidateLocals(algorithm)
    try:
        callback.on_training_start(locals_, globals())
        while counters.num_timesteps < counters.total_timesteps:
            candidates = algorithm.propose(counters)
            played: list[Outcome] = []
            if not count_steps(algorithm, outcomes(algorithm, env, candidates), played, callback, locals_):
                break
            normalizer = algorithm.get_vec_normalize_env()
            for outcome in played:
                if outcome.seen is not None:
                    normalizer.obs_rms.combine(outcome.seen)
            metrics = algorithm.update(played, counters)
            locals_.history = [metrics]
            counters.iteration += 1
            if counters.iteration % log_interval == 0:
                log_progress(algorithm, metrics)
    finally:  # also after Ctrl-C: a progress bar gives the terminal back
        callback.on_training_end()


def outcomes(algorithm: Any, env: VecEnv, candidates: np.ndarray) -> Iterator[Outcome]:
    """Play all candidates, float32 [n_candidates, n_parameters], in workers where there are some."""
    normalizer = algorithm.get_vec_normalize_env()
    learn_statistics = normalizer is not None and normalizer.training and normalizer.norm_obs
    seed = int(torch.randint(2**31 - len(candidates), ()))
    n_episodes = algorithm.config.n_eval_episodes
    workers: AsyncEval | None = algorithm.async_eval
    if workers is None:
        return play_here(env, algorithm.actor, candidates, seed, n_episodes, learn_statistics)
    statistics = None if normalizer is None else normalizer.state_dict()
    return workers.play(candidates, seed, n_episodes, statistics, learn_statistics)


def count_steps(
    algorithm: Any,
    outcomes: Iterable[Outcome],
    played: list[Outcome],
    callback: BaseCallback,
    locals_: CandidateLocals,
) -> bool:
    """Count the steps of each candidate when its episodes are over, and tell callbacks of every one of them.

    :param played: the outcomes are added to it
    :return: False when a callback ended the training
    """
    callback.on_rollout_start()
    callback.update_locals(locals_)
    for outcome in outcomes:
        played.append(outcome)
        locals_.candidate, locals_.outcome = len(played) - 1, outcome
        for step in range(len(outcome.rewards)):
            algorithm.counters.num_timesteps += 1
            locals_.step = step
            if step in outcome.ends:
                record_episodes(algorithm, [outcome.ends[step]])
            if not callback.on_step():
                return False
    callback.on_rollout_end()
    return True


class CandidateLocals(Mapping[str, object]):
    """What callbacks see as `locals`: one step of the present candidate, as of a vector of one environment.

    Observations and actions stay where the candidate is played.
    """

    def __init__(self, algorithm: Any) -> None:
        self.algorithm = algorithm
        self.candidate = 0
        self.outcome: Outcome | None = None
        self.step = 0
        self.history: list[Metrics] = []  # of `LoopLocals`

    def _present(self) -> dict[str, object]:
        present: dict[str, object] = {
            "self": self.algorithm,
            "env": self.algorithm.env,
            "total_timesteps": self.algorithm.counters.total_timesteps,
        }
        if self.outcome is not None:
            end = self.outcome.ends.get(self.step)
            present |= {
                "candidate": self.candidate,
                "rewards": self.outcome.rewards[self.step : self.step + 1],
                "dones": np.array([end is not None]),
                "infos": [end or {}],
            }
        return present

    def __getitem__(self, name: str) -> object:
        return self._present()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._present())

    def __len__(self) -> int:
        return len(self._present())

"""The worker processes of a random search: `n_envs` of its hyperparameters is how many."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rlzoo.config.run import RunConfig
from rlzoo.experiment.environments import build_training_env
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.training.candidates import AsyncEval
from rlzoo.training.population_loop import population


def split_workers(resolved: ResolvedConfig) -> tuple[ResolvedConfig, int]:
    """The resolved of what the agent itself trains in, and the number of workers to play candidates in.

    Few candidates are not worth a process: without `n_envs` above 1 the agent's own environment plays them.
    """
    algorithm: Any = resolved.algorithm
    if algorithm.loop is not population or resolved.n_envs == 1:
        return resolved, 0
    return replace(resolved, n_envs=1), resolved.n_envs


def start_workers(
    resolved: ResolvedConfig, run: RunConfig, folder: Path | None, n_workers: int, policy: Any
) -> AsyncEval:
    """Workers, each with the environment of `resolved` and, where there is a `folder`, a monitor file in it.

    These files go on where an earlier session of the run stopped, or the worker that died.
    """
    backend = "auto" if run.vec_env == "subproc" else run.vec_env  # a worker is a process already
    make = partial(build_training_env, resolved, run.env_id, run.seed, backend, folder, append=True)
    return AsyncEval([partial(make, start_index=index) for index in range(n_workers)], policy)

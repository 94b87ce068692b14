"""A training session: everything that a training needs, built in one place and released together.

`rlzoo train`, `--resume`, `rlzoo optimize` and `rlzoo benchmark` train through `open_session`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol, cast

from torch import nn

from rlzoo.accel import matmul_precision
from rlzoo.algorithms.base import Algorithm
from rlzoo.callbacks.callbacks import BaseCallback
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import UserError
from rlzoo.core.runtime import precision_of_torch
from rlzoo.envs.action_masks import is_masking_supported
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.experiment import tracking
from rlzoo.experiment.factories import (
    build_callbacks,
    build_evaluation_env,
    build_model,
    build_training_env,
    evaluation_seed,
    has_buffer,
    load_model,
    prepare_replay,
)
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.metrics.logger import Logger, configure_logger, make_output_format
from rlzoo.runs import run_folder
from rlzoo.training.candidates import AsyncEval
from rlzoo.training.population_loop import population


@dataclass(frozen=True)
class Parts:
    """Functions that build the parts of a session; a caller may replace any of them.

    :param claimed: called with the folder of a new run, before anything is built
    """

    training_env: Callable[..., VecEnv] = build_training_env
    evaluation_env: Callable[..., VecEnv] = build_evaluation_env
    callbacks: Callable[..., list[BaseCallback]] = build_callbacks
    claimed: Callable[[Path, ResolvedConfig], None] | None = None


PARTS = Parts()


@dataclass
class TrainingSession:
    """A training session that is ready to start; a context manager that closes it at the end.

    :param run: the flags of `rlzoo train`
    :param resolved: the resolved configuration; its `n_envs` is that of the model's environments, see
        `split_workers`
    :param folder: the run folder; the empty path where no file is written
    :param model: the agent
    :param venv: the training environments
    :param eval_env: the evaluation environments; None without evaluations
    :param callbacks: callbacks of the training
    :param resources: what `close` releases
    :param resumed: continues an existing run
    :param complete: resumed from its final agent, so no steps are left
    """

    run: RunConfig
    resolved: ResolvedConfig
    folder: Path
    model: Algorithm
    venv: VecEnv
    eval_env: VecEnv | None
    callbacks: list[BaseCallback]
    resources: ExitStack
    resumed: bool = False
    complete: bool = False

    @property
    def model_path(self) -> Path:
        """The file of the trained agent."""
        return run_folder.model_path(self.folder, self.run.env_id)

    def __enter__(self) -> TrainingSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the environments, worker processes, files and the lock of the folder."""
        self.resources.close()


def open_session(
    run: RunConfig,
    resolved: ResolvedConfig,
    *,
    folder: Path | None = None,
    agent: Path | None = None,
    resumed: bool = False,
    threads: int | None = None,
    parts: Parts = PARTS,
    resources: ExitStack | None = None,
) -> TrainingSession:
    """Build environments, model, replay buffer, logger and callbacks of a training.

    :param folder: the run folder; None: no file is written and nothing is printed
    :param agent: file of an agent to train further; None: a new agent
    :param resumed: `agent` is a checkpoint of this run, which is resumed from it
    :param threads: cores of this training: upper limit of ARS workers and of threads that are not fixed by
        `run.num_threads`; None: all available
    :param parts: functions that build environments and callbacks
    :param resources: ExitStack taken over by the session; closed last
    :raises UserError: the configuration does not suit the environment
    """
    resolved, n_workers = split_workers(resolved)
    if threads is not None:
        n_workers = min(n_workers, threads)
    with ExitStack() as opened:
        if resources is not None:
            opened.enter_context(resources.pop_all())
        monitor_dir = None if n_workers else folder
        venv = parts.training_env(resolved, run.env_id, run.seed, run.vec_env, monitor_dir, append=resumed)
        opened.callback(venv.close)
        model = _make_model(run, resolved, venv, agent, resumed)
        if n_workers > 1:
            workers = start_candidate_workers(resolved, run, folder, n_workers, model.policy)
            opened.callback(workers.close)
            cast(_SearchesRandomly, model).async_eval = workers
        if run.verbose > 0 and (dataset := resolved.hyperparams.get("expert_dataset")) is not None:
            dataset.log_info()
        if has_buffer(model):
            prepare_replay(model, run, agent, resumed)
        model.num_threads = run.num_threads if run.num_threads > 0 else None
        model.most_threads = threads or sys.maxsize
        opened.callback(setattr, model, "most_threads", None)
        _set_acceleration(run, resolved, model, opened)
        model.set_logger(_open_logger(run, resolved, model, folder, resumed, opened))
        eval_env = None
        if run.eval_freq > 0:
            seed = evaluation_seed(run.seed)
            eval_env = parts.evaluation_env(resolved, run.env_id, run.n_eval_envs, seed, run.vec_env)
            opened.callback(eval_env.close)
        where = folder or Path()
        callbacks = parts.callbacks(resolved, run, where, eval_env)
        return TrainingSession(
            run, resolved, where, model, venv, eval_env, callbacks, opened.pop_all(), resumed
        )


def _set_acceleration(run: RunConfig, resolved: ResolvedConfig, model: Algorithm, opened: ExitStack) -> None:
    """Take over what makes gradient steps faster.

    :raises UserError: CUDA graphs or a compiler are asked for and cannot be had here
    """
    model.cuda_graphs, model.compile_networks = run.cuda_graphs, run.compile
    if run.cuda_graphs == "on" or run.compile:
        from rlzoo.accel.gpu.acceleration import check_acceleration

        check_acceleration(model)
    precision = run.matmul_precision or resolved.matmul_precision
    is_float32 = precision_of_torch() in ("highest", None)  # None: a package has set it
    if precision != "highest" or not is_float32 or matmul_precision.gradients_in_bfloat16:
        opened.enter_context(matmul_precision.precision_of_products(precision, model.device))


def _make_model(
    run: RunConfig, resolved: ResolvedConfig, venv: VecEnv, agent: Path | None, resumed: bool
) -> Algorithm:
    model: Algorithm
    if agent is None:
        model = build_model(resolved, venv, run.seed, run.device, run.verbose)
    else:
        model = load_model(resolved, agent, venv, run.device, run.verbose, None if resumed else run.seed)
        model.require_trainable(str(agent))
    if model.wants_action_masks and not is_masking_supported(venv):
        raise UserError(
            f"{resolved.algo} needs to know which actions are valid, and {run.env_id} has no action_masks()"
            " method: add one, name rlzoo.ActionMasker as env_wrapper, or train ppo"
        )
    return model


# ---------------------------------------------------------------------- logger


def _open_logger(
    run: RunConfig,
    resolved: ResolvedConfig,
    model: Algorithm,
    folder: Path | None,
    resumed: bool,
    opened: ExitStack,
) -> Logger:
    if folder is None:
        return Logger(None, [])
    if run.track:  # before the logger: it follows TensorBoard writers that are opened after it
        opened.callback(tracking.start(run, resolved, folder).finish)
    logger = _make_logger(run, type(model).__name__, folder, resumed)
    if resumed:
        logger.truncate_csv(model.resume_state.csv_rows)
    opened.callback(logger.close)
    return logger


def _make_logger(run: RunConfig, algorithm: str, folder: Path, append: bool) -> Logger:
    shows_tables = run.verbose > (1 if run.progress else 0)  # a progress bar replaces the tables
    outputs = [make_output_format("stdout", None)] if shows_tables else []
    outputs.append(make_output_format("csv", folder, append=append))
    if run.tensorboard_log or run.track:
        parent = Path(run.tensorboard_log or "runs") / folder.name.rpartition("_")[0]
        try:
            outputs += configure_logger(0, parent, algorithm, not append).output_formats
        except OSError as error:
            raise UserError(f"cannot write TensorBoard files to {parent}: {error.strerror}") from error
    return Logger(str(folder), outputs)


# ---------------------------------------------------------------------- workers of a random search


class _SearchesRandomly(Protocol):
    async_eval: AsyncEval | None


def split_workers(resolved: ResolvedConfig) -> tuple[ResolvedConfig, int]:
    """Return the configuration of the model's own environment, and the number of worker processes.

    In a random search (ARS) `n_envs` is the number of processes that evaluate candidates. With `n_envs` of 1
    the model's own environment evaluates them, since few candidates do not repay the cost of a process.
    """
    if resolved.algorithm.loop is not population or resolved.n_envs == 1:
        return resolved, 0
    return replace(resolved, n_envs=1), resolved.n_envs


def start_candidate_workers(
    resolved: ResolvedConfig, run: RunConfig, folder: Path | None, n_workers: int, policy: nn.Module
) -> AsyncEval:
    """Start processes that evaluate candidates, each with an environment and a monitor file in `folder`.

    Monitor files are appended to, since a resumed run or the successor of a killed worker has the same.
    """
    backend = "auto" if run.vec_env == "subproc" else run.vec_env  # a worker is a process already
    make = partial(build_training_env, resolved, run.env_id, run.seed, backend, folder, append=True)
    return AsyncEval([partial(make, start_index=index) for index in range(n_workers)], policy)

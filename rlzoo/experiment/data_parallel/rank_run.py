"""`rlzoo train` in several ranks: rank 0 trains as one process does, the others follow it.

Rank 0 has the run folder, the logger, the callbacks, the evaluations and the signals. The others hold the
same agent, step their part of the environments, and end when rank 0 ends.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

import rlzoo
from rlzoo.algorithms.base import Algorithm
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import RunFailed, UserError, one_line
from rlzoo.distributed.launch import RENDEZVOUS
from rlzoo.distributed.process_group import RankLost
from rlzoo.distributed.ranks import SUPPORTED, Ranks
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.experiment.factories import build_training_env
from rlzoo.experiment.resolved_config import EnvironmentConfig, ResolvedConfig
from rlzoo.experiment.resumed_run import read_resumed, resume
from rlzoo.experiment.session import Parts, open_session
from rlzoo.experiment.training_run import TrainResult, check, create_run, learn
from rlzoo.processes.safe_path import restore_path_setting
from rlzoo.processes.stop_signals import SIGNALS, StopSignals
from rlzoo.processes.workers import end_with_parent
from rlzoo.runs import run_folder


@dataclass(frozen=True)
class Start:
    """What all ranks start from.

    :param run: the flags, with the seed of rank 0
    :param agent: file of an agent that rank 0 loads; None: a new agent
    """

    run: RunConfig
    resolved: ResolvedConfig
    agent: Path | None = None


def train(ranks: Ranks, run: RunConfig, command: str = "") -> bool:
    """Train one agent in a new run folder together with the other ranks; return whether it was interrupted.

    :raises UserError: the configuration is wrong, or not that of the other ranks
    :raises RunFailed: training failed; the message says what was kept
    """

    def prepare() -> Start:
        agent = Path(run.trained_agent) if run.trained_agent else None
        return Start(run, check(run), agent)

    def lead(start: Start, stop: StopSignals) -> TrainResult:
        with stop.interruptible():
            session = create_run(start.run, command, parts=Parts(training_env=partial(build_part, ranks)))
        return learn(session, stop)

    return _together(ranks, prepare, lead, resumed=False)


def resume_run(ranks: Ranks, folder: str, **changes: Any) -> bool:
    """Continue a run in place together with the other ranks; see `rlzoo.experiment.resumed_run.resume`."""

    def prepare() -> Start:
        run, resolved = read_resumed(Path(folder), changes)
        return Start(run, resolved, run_folder.newest_checkpoint(Path(folder), run.env_id))

    def lead(start: Start, stop: StopSignals) -> TrainResult:
        return resume(folder, stop, Parts(training_env=partial(build_part, ranks)), **changes)

    return _together(ranks, prepare, lead, resumed=True)


def _together(
    ranks: Ranks,
    prepare: Callable[[], Start],
    lead: Callable[[Start, StopSignals], TrainResult],
    resumed: bool,
) -> bool:
    if ranks.rank == 0:
        with StopSignals() as stop:
            with stop.interruptible():
                start = agree_to_start(ranks, prepare)
            return lead(start, stop).interrupted
    follow(ranks, agree_to_start(ranks, prepare), resumed)
    return False


def agree_to_start(ranks: Ranks, prepare: Callable[[], Start]) -> Start:
    """Check the configuration on all ranks, and that it is the same.

    :raises UserError: on all ranks, when it is wrong on one of them, or not the same
    """
    start, error = None, ""
    try:
        start = prepare()
        check_ranks(ranks, start.run, start.resolved)
    except UserError as mistake:
        error = str(mistake)
    told: Any = ranks.group.gather_json(
        {
            "error": error,
            "description": {} if error or start is None else describe(start),
            "seed": secrets.randbelow(2**31) if start is None or start.run.seed < 0 else start.run.seed,
            "agent": "" if start is None or start.agent is None else str(start.agent),
        }
    )
    for rank, answer in enumerate(told):
        if answer["error"]:
            raise UserError(answer["error"] if not (rank and error) else error)
    for rank, answer in enumerate(told):
        for name, value in told[0]["description"].items():
            if (other := answer["description"].get(name)) != value:
                raise UserError(
                    f"the ranks were started differently: {name} is {value} on rank 0"
                    f" and {other} on rank {rank}"
                )
    assert start is not None
    agent = Path(told[0]["agent"]) if told[0]["agent"] else None
    return replace(start, run=replace(start.run, seed=told[0]["seed"]), agent=agent)


def check_ranks(ranks: Ranks, run: RunConfig, resolved: ResolvedConfig) -> None:
    """Check that several ranks can train this.

    :raises UserError: another algorithm, a number of environments that cannot be divided, or a replay buffer
        that is to be saved
    """
    if not resolved.algorithm.data_parallel:
        names = ", ".join(SUPPORTED)
        raise UserError(f"{resolved.algo} cannot be trained by several processes; those that can: {names}")
    ranks.n_local(resolved.n_envs)
    if run.save_replay_buffer:
        raise UserError("--save-replay-buffer: each process has a part of the replay buffer, none has it all")


def describe(start: Start) -> dict[str, str]:
    """Return what must be the same on all ranks, as text."""
    described = {"rlzoo": rlzoo.__version__, "PyTorch": torch.__version__}
    described |= {name: repr(value) for name, value in asdict(start.run).items()}
    return described | {
        f"{name} of the hyperparameters": repr(v) for name, v in start.resolved.values.items()
    }


def build_part(
    ranks: Ranks,
    resolved: EnvironmentConfig,
    env_id: str,
    seed: int,
    backend: str,
    monitor_dir: Path | None,
    append: bool = False,
) -> VecEnv:
    """Build this rank's part of the training environments; see `build_training_env`.

    :param monitor_dir: the run folder, on rank 0; the others write their monitor files there, too
    """
    told: Any = ranks.group.gather_json("" if monitor_dir is None else str(monitor_dir))
    folder = Path(told[0]) if told[0] else None
    part = replace(resolved, n_envs=ranks.n_local(resolved.n_envs))
    first = ranks.first_env(resolved.n_envs)
    return ranks.attach(build_training_env(part, env_id, seed, backend, folder, append, first))


# ---------------------------------------------------------------------- the other ranks


def follow(ranks: Ranks, start: Start, resumed: bool) -> None:
    """Train along with rank 0, without any output."""
    run = replace(
        start.run, verbose=0, progress=False, eval_freq=0, save_freq=-1, track=False, tensorboard_log=""
    )
    parts = Parts(training_env=partial(build_part, ranks), callbacks=lambda *_: [])
    with open_session(run, start.resolved, agent=start.agent, resumed=resumed, parts=parts) as session:
        model: Algorithm = session.model
        first_step = model.num_timesteps if resumed else 0
        model.learn(
            session.resolved.n_timesteps - first_step,
            log_interval=None if run.log_interval == -2 else run.log_interval,
            reset_num_timesteps=not resumed,
        )


def as_rank(ranks: Ranks, work: Callable[[], int]) -> int:
    """Run a command in this rank and return its exit code; ranks other than 0 are silent.

    :raises UserError: on rank 0; so all errors
    """
    if RENDEZVOUS in os.environ:
        restore_path_setting()
        end_with_parent()
    if ranks.rank == 0:
        return work()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # rank 0 decides
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    errors = sys.stderr
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for the life of the process
    try:
        return work()
    except RankLost:
        return 0  # rank 0 says so, or has ended the training
    except (UserError, RunFailed) as error:
        ranks.group.explain(error)
        return 2 if isinstance(error, UserError) else 1
    except Exception as error:
        sys.stderr = errors  # for the traceback
        ranks.group.explain(one_line(f"{type(error).__name__}: {error}"))
        raise

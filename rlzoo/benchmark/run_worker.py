"""A process that does one job of a benchmark: trains an agent, or records the episodes of one.

    python -m rlzoo.benchmark.run_worker TASK

TASK is JSON, see `rlzoo.benchmark.run_list`. SIGTERM, and the end of standard input, end a training. Nothing
of it is kept then, unless the task says that it can be resumed. Exit code 0 done, 1 failed or cut short.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rlzoo.benchmark.finished import (
    interrupted_run,
    is_unfinished,
    mark_begun,
    mark_finished,
    mark_interrupted,
    seconds_so_far,
)
from rlzoo.benchmark.run_list import recorded_mark
from rlzoo.benchmark.scores import digest
from rlzoo.callbacks.callbacks import EvalCallback
from rlzoo.config.run import PlayConfig, RunConfig, find_runs
from rlzoo.config.values_as_text import interpret
from rlzoo.core.errors import RunFailed, UserError, one_line
from rlzoo.experiment.resumed_run import reopen_run
from rlzoo.experiment.session import TrainingSession
from rlzoo.experiment.training_run import TrainResult, create_run, learn
from rlzoo.playback.expert_recording import record_expert
from rlzoo.processes.safe_path import restore_path_setting
from rlzoo.processes.stop_signals import StopSignals
from rlzoo.processes.workers import end_with_parent
from rlzoo.runs.run_folder import locked, replay_path


def main(argv: Sequence[str] | None = None) -> int:
    (text,) = sys.argv[1:] if argv is None else argv
    restore_path_setting()
    end_with_parent()
    task = json.loads(text)
    try:
        if "train" in task:
            return train_agent(task["train"], task["command"], task["name"], task["resume"])
        file = record_expert(PlayConfig(**with_tuples(task["record"])), task["output"])
        recorded_mark(file).write_text(task["agent"] + "\n")
    except (UserError, RunFailed) as error:
        print("rlzoo: error:", one_line(error), file=sys.stderr)
        return 1
    return 0


def with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    """Return values of a configuration whose tuples JSON has made lists."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def train_agent(
    values: dict[str, Any],
    command: list[str],
    name: str | None = None,
    resume: bool = False,
    stop: StopSignals | None = None,
    opened: Callable[[TrainingSession], None] | None = None,
) -> int:
    """Train an agent, and mark it as finished.

    What ends before leaves nothing behind: nobody shall take an agent for trained that is not.

    :param name: of the row, if it has one
    :param resume: save a training that is interrupted, and continue one that was
    :param stop: signals to obey; None: those of this process
    :param opened: called with the training before it begins
    """
    run = RunConfig(**{**with_tuples(values), "hyperparams": interpret(values["hyperparams"])})
    kept = interrupted_run(Path(run.log_folder), run.algo, run.env_id) if resume else None
    remove_unfinished(run, kept)
    began, before = time.monotonic(), (0.0, 0.0) if kept is None else seconds_so_far(kept)
    try:
        with StopSignals() if stop is None else nullcontext(stop) as signals:
            with signals.interruptible():
                session = begin(run, command, name) if kept is None else reopen(kept, run)
            if opened is not None:
                opened(session)
            result = learn_rest(session, signals)
        evaluated = [call.seconds for call in session.callbacks if isinstance(call, EvalCallback)]
        seconds = before[0] + time.monotonic() - began - sum(evaluated)
        evaluation_seconds = before[1] + sum(evaluated) if evaluated else None
        if result.interrupted:
            if resume and result.model_path.is_file():
                mark_interrupted(result.folder, seconds, evaluation_seconds)
            return 1
        if not result.model_path.is_file():
            raise RunFailed("the agent has NaN or infinite parameters")
        expert = digest(Path(run.expert)) if run.expert else None
        mark_finished(result.folder, seconds, expert, evaluation_seconds)
        replay_path(result.folder).unlink(missing_ok=True)  # only kept to resume the training
        return 0
    except RunFailed as error:
        if isinstance(error.__cause__, RunFailed):  # the message without the saved agent
            raise error.__cause__ from None
        raise
    finally:
        resumable = interrupted_run(Path(run.log_folder), run.algo, run.env_id) if resume else None
        remove_unfinished(run, resumable)


def begin(run: RunConfig, command: list[str], name: str | None) -> TrainingSession:
    """Build a new training, in a folder that is marked as started by a benchmark."""
    session = create_run(run, shlex.join(command), trusted=False)
    mark_begun(session.folder, name)
    return session


def reopen(folder: Path, run: RunConfig) -> TrainingSession:
    """Build an interrupted training again, with the number of threads that is asked for now."""
    return reopen_run(folder, {"num_threads": run.num_threads, "gym_packages": run.gym_packages})


def learn_rest(session: TrainingSession, stop: StopSignals) -> TrainResult:
    """Train for the steps that are left, if any: a training may be stopped while it saves its last agent."""
    if not session.complete:
        return learn(session, stop)
    session.close()
    return TrainResult.of(session)


def remove_unfinished(run: RunConfig, kept: Path | None = None) -> None:
    """Remove what a benchmark was stopped in; a run that a person began stays.

    :param kept: a run that is to be resumed
    :raises UserError: another process is still at it
    """
    for _, folder in find_runs(run.log_folder, run.algo, run.env_id):
        if folder != kept and is_unfinished(folder):
            with locked(folder):
                shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())

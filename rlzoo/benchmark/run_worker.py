"""A process that does one job of a benchmark: trains an agent, or records the episodes of one.

    python -m rlzoo.benchmark.run_worker TASK

TASK is JSON, see `rlzoo.benchmark.run_list`. SIGTERM, and the end of standard input, end a training, of
which nothing is kept then. Exit code 0 done, 1 failed or cut short.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlzoo.benchmark.finished import is_unfinished, mark_begun, mark_finished
from rlzoo.benchmark.run_list import recorded_mark
from rlzoo.benchmark.scores import digest
from rlzoo.callbacks.callbacks import EvalCallback
from rlzoo.config.literals import interpret
from rlzoo.config.run import PlayConfig, RunConfig, find_runs
from rlzoo.core.errors import RunFailed, UserError, one_line
from rlzoo.experiment.training_run import create_run, learn
from rlzoo.playback.expert_recording import record_expert
from rlzoo.processes.safe_path import restore_path_setting
from rlzoo.processes.stop_signals import StopSignals
from rlzoo.processes.workers import end_with_parent
from rlzoo.runs.run_folder import locked


def main(argv: Sequence[str] | None = None) -> int:
    (text,) = sys.argv[1:] if argv is None else argv
    restore_path_setting()
    end_with_parent()
    task = json.loads(text)
    try:
        if "train" in task:
            return train_agent(task["train"], task["command"], task["name"])
        file = record_expert(PlayConfig(**with_tuples(task["record"])), task["output"])
        recorded_mark(file).write_text(task["agent"] + "\n")
    except (UserError, RunFailed) as error:
        print("rlzoo: error:", one_line(error), file=sys.stderr)
        return 1
    return 0


def with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    """Return values of a configuration whose tuples JSON has made lists."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def train_agent(values: dict[str, Any], command: list[str], name: str | None = None) -> int:
    """Train an agent from the start, and mark it as finished.

    What ends before leaves nothing behind: nobody shall take an agent for trained that is not.

    :param name: of the row, if it has one
    """
    run = RunConfig(**{**with_tuples(values), "hyperparams": interpret(values["hyperparams"])})
    remove_unfinished(run)
    began = time.monotonic()
    try:
        with StopSignals() as stop:
            with stop.interruptible():
                session = create_run(run, shlex.join(command), trusted=False)
                mark_begun(session.folder, name)
            result = learn(session, stop)
        if result.interrupted:
            return 1
        if not result.model_path.is_file():
            raise RunFailed("the agent has NaN or infinite parameters")
        expert = digest(Path(run.expert)) if run.expert else None
        evaluated = [call.seconds for call in session.callbacks if isinstance(call, EvalCallback)]
        seconds = time.monotonic() - began - sum(evaluated)
        mark_finished(result.folder, seconds, expert, sum(evaluated) if evaluated else None)
        return 0
    except RunFailed as error:
        if isinstance(error.__cause__, RunFailed):  # the message without the saved agent
            raise error.__cause__ from None
        raise
    finally:
        remove_unfinished(run)


def remove_unfinished(run: RunConfig) -> None:
    """Remove what a benchmark was stopped in; a run that a person began stays.

    :raises UserError: another process is still at it
    """
    for _, folder in find_runs(run.log_folder, run.algo, run.env_id):
        if is_unfinished(folder):
            with locked(folder):
                shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())

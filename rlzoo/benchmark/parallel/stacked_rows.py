"""Several seeds of a row of a benchmark in one process, which compute together: see `rlzoo.stacked`.

    python -m rlzoo.benchmark.parallel.stacked_rows TASKS

TASKS is JSON: a list of what `rlzoo.benchmark.run_worker` is told of each training. The last line of output
holds, as JSON, why trainings failed, by their seeds. Exit code 0: all are done.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rlzoo.benchmark.parallel.stacked_seeds import run_together, stack_problem, take_seat
from rlzoo.benchmark.run_list import Claim, Ended, Job, Options, Processes, Training, Worker, worker_file
from rlzoo.benchmark.run_worker import train_agent
from rlzoo.core.errors import RunFailed, UserError, one_line
from rlzoo.processes.job_lock import JobLock
from rlzoo.processes.safe_path import restore_path_setting
from rlzoo.processes.stop_signals import StopSignals
from rlzoo.processes.workers import describe_exit, end_with_parent, last_line, start_command
from rlzoo.stacked.stack import STACKED, Stack
from rlzoo.stacked.turns import Seat

MAX_STACK = 32
"""The most seeds of a process."""
STACK_WORKER = (sys.executable, "-m", "rlzoo.benchmark.parallel.stacked_rows")
STACKED_NAMES = frozenset(algorithm.__name__.lower() for algorithm in STACKED)


class StackingProcesses(Processes):
    """Processes of this machine, each of which trains several seeds of a row where that is possible.

    :param n_jobs: processes at the same time
    :param choice: "on", or "auto" for what is faster that way
    """

    def __init__(self, n_jobs: int, grace: float, choice: str, folder: Path, options: Options) -> None:
        super().__init__(n_jobs, grace)
        self.choice, self.folder, self.options = choice, folder, options
        self._can_stack: dict[tuple[str, str], bool] = {}  # by the key of the row

    def together(self, job: Job, waiting: Sequence[Job], n_free: int) -> Sequence[Job]:
        """Return trainings of other seeds of the row, a fair share of those that wait."""
        if not isinstance(job, Training):
            return ()
        key = job.row.key
        others = [o for o in waiting if isinstance(o, Training) and o.row.key == key and o != job]
        share = min(-(-(1 + len(others)) // n_free), MAX_STACK) - 1
        return others[:share] if share and self.can_stack(job) else ()

    def can_stack(self, job: Training) -> bool:
        """Return whether seeds of a training's row are trained together; found out once for each row."""
        key = job.row.key
        if job.row.algo not in STACKED_NAMES or job.row.expert:
            return False
        if key not in self._can_stack:
            run = job.run_config(self.folder, self.options)
            try:
                problem = stack_problem(run, only_if_faster=self.choice == "auto")
            except (RunFailed, UserError) as error:  # its own process says so
                problem = str(error)
            self._can_stack[key] = problem is None
        return self._can_stack[key]

    def start(self, claims: Sequence[Claim], folder: Path, options: Options) -> Sequence[Worker]:
        """Start the process of a job, or of several trainings."""
        if len(claims) == 1:
            return super().start(claims, folder, options)
        return StackProcess(claims, folder, options).members


class StackProcess:
    """The process that trains several seeds of a row; it holds the claims on them, too."""

    def __init__(self, claims: Sequence[Claim], folder: Path, options: Options) -> None:
        self.folder, self.began = folder, time.monotonic()
        self.log = worker_file(folder, claims[0][0], "log")
        tasks = [job.task(folder, options) for job, _ in claims]
        descriptors = [fd for _, lock in claims for fd in lock.inherited]
        with self.log.open("wb") as log:
            command = [*STACK_WORKER, json.dumps(tasks)]
            self.process = start_command(command, log, options.num_threads, pass_fds=descriptors)
        trainings = [(job, lock) for job, lock in claims if isinstance(job, Training)]
        self.members = [StackMember(self, *claim) for claim in trainings]

    def problem_of(self, job: Training) -> str:
        """Return why a training is not done."""
        try:
            problems = json.loads(last_line(self.log))
            return str(problems[str(job.seed)])
        except (KeyError, TypeError, ValueError):
            return describe_exit(self.process.returncode)


class StackMember:
    """A training in a `StackProcess`."""

    def __init__(self, stack: StackProcess, job: Training, lock: JobLock) -> None:
        self.slot, self.job, self.lock = stack, job, lock
        self.process = stack.process

    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        return self.process.poll() is not None

    def ended(self) -> Ended:
        """Return how the training ended; the log of a process that did its work goes with the last one."""
        stack = self.slot
        seconds = time.monotonic() - stack.began
        self.lock.release()
        if not self.job.is_done(stack.folder):
            return Ended(self.job, seconds, f"{stack.problem_of(self.job)} ({stack.log})")
        if self is stack.members[-1] and self.process.returncode == 0:
            stack.log.unlink()
        return Ended(self.job, seconds)


def main(argv: Sequence[str] | None = None) -> int:
    (text,) = sys.argv[1:] if argv is None else argv
    restore_path_setting()
    end_with_parent()
    problems = train_together(json.loads(text))
    if problems:
        print(json.dumps(problems), flush=True)
    return int(bool(problems))


def train_together(tasks: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Train the agents of several tasks; return why trainings failed, by their seeds."""
    together = Stack()
    problems: dict[str, str] = {}

    def training(task: dict[str, Any], seat: Seat, stop: StopSignals) -> None:
        seed = str(task["train"]["seed"])
        try:
            code = train_agent(
                task["train"],
                task["command"],
                task["name"],
                task["resume"],
                stop,
                partial(take_seat, together, seat),
            )
            if code:
                problems[seed] = "interrupted"
        except KeyboardInterrupt:
            problems[seed] = "interrupted"
        except (UserError, RunFailed) as error:
            problems[seed] = one_line(error)
        except (Exception, SystemExit) as error:
            print(traceback.format_exc(), file=sys.stderr)
            problems[seed] = one_line(f"{type(error).__name__}: {error}")

    run_together([partial(training, task) for task in tasks])
    return problems


if __name__ == "__main__":
    sys.exit(main())

"""Supervisor of a study's worker processes, which it replaces when they die."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from subprocess import Popen

import optuna
from optuna.trial import FrozenTrial, TrialState

from rlzoo.config.run import RunConfig
from rlzoo.core.cpu_cores import available_cores
from rlzoo.core.errors import RunFailed
from rlzoo.processes.workers import last_line, start_command, stop
from rlzoo.tuning.storage.worker_monitor import WorkerMonitor
from rlzoo.tuning.study.display import Display

POLL = 0.5  # seconds between two looks at the study, at least
SHARE = 0.05  # of a core that looking may take; a database lists all waiting trials every time
END = 15.0  # seconds that a worker has to give its trial back
SAME_FAILURES = 5  # in a row end the study
FRUITLESS = 3  # workers that end with an error while none takes a trial
KILLED = 30  # likewise, by a signal; somebody may be killing them


class Supervisor:
    """Runs the trials of a study that wait, in worker processes on this machine.

    A worker hears of its parent's end through its standard input, and gives its trial back then.

    :param n_trials: trials with lower numbers are run
    :param folder: where the workers' messages go
    :param storage: as given by `--storage`; None: the journal in the folder
    :param run: `num_threads` and `verbose` of it
    """

    def __init__(
        self,
        study: optuna.Study,
        n_trials: int,
        folder: Path,
        storage: str | None,
        n_jobs: int,
        run: RunConfig,
    ) -> None:
        self.study, self.n_trials, self.n_jobs = study, n_trials, n_jobs
        self.log = folder / "workers.log"
        self.workers: list[Popen[bytes]] = []
        self.monitor = WorkerMonitor()
        self.display = Display(study, n_trials, run.verbose)
        self.bad_ends: list[int] = []  # exit codes of workers since one last took a trial
        self.taken = 0  # how often workers have taken a trial
        self.threads = run.num_threads if run.num_threads > 0 else max(1, available_cores() // n_jobs)
        # One word each: a name or a folder may begin with a dash.
        self.command = [
            sys.executable,
            "-m",
            "rlzoo.tuning.study.trial_worker",
            f"--study={study.study_name}",
        ]
        self.command += [f"--folder={folder}", f"--threads={self.threads}"]
        # In the environment, for a URL may hold a password, and any user can read a command line.
        self.environment = {"RLZOO_STORAGE": storage or ""}

    def run(self, timeout: float | None = None) -> None:
        """Run until every trial is done, or for `timeout` seconds.

        :raises RunFailed: workers cannot start, or trials fail in a row with the same error
        """
        began = time.monotonic()
        earlier = {trial.number for trial in self._trials() if trial.state.is_finished()}
        self.log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self.display:
                while True:
                    busy = time.process_time()
                    ends = self._reap()
                    self.monitor.release_stale(self.study, self.n_trials)
                    trials = self._trials()
                    self._stop_on_fruitless(ends, trials)
                    self.display.update(trials)
                    stop_on_same_failures([trial for trial in trials if trial.number not in earlier])
                    if all(trial.state.is_finished() for trial in trials):
                        return
                    if timeout is not None and time.monotonic() - began > timeout:
                        return
                    busy = time.process_time() - busy
                    waiting = sum(trial.state == TrialState.WAITING for trial in trials)
                    while waiting > 0 and len(self.workers) < self.n_jobs:
                        self._start()
                        waiting -= 1
                    time.sleep(max(POLL, min(busy / SHARE, 10 * POLL)))
        finally:
            self._end()

    def _trials(self) -> list[FrozenTrial]:
        return [trial for trial in self.study.get_trials(deepcopy=False) if trial.number < self.n_trials]

    def _start(self) -> None:
        """Start a worker."""
        with self.log.open("ab") as log:
            self.workers.append(start_command(self.command, log, self.threads, self.environment))

    def _reap(self) -> list[int]:
        """Return the exit codes of the workers that have ended since the last call."""
        ended = [worker for worker in self.workers if worker.poll() is not None]
        self.workers = [worker for worker in self.workers if worker not in ended]
        return [worker.returncode for worker in ended]

    def _stop_on_fruitless(self, ends: Sequence[int], trials: Sequence[FrozenTrial]) -> None:
        """:raises RunFailed: worker after worker ends before it has taken a trial"""
        self.bad_ends += [code for code in ends if code != 0]
        taken = sum(trial.user_attrs.get("attempts", 0) for trial in trials)
        if taken > self.taken:
            self.taken = taken
            self.bad_ends.clear()
        errors = [code for code in self.bad_ends if code > 0]  # a signal is below zero
        if len(errors) >= FRUITLESS:
            raise RunFailed(
                f"the workers fail: {last_line(self.log) or 'they say nothing'} (all of it in {self.log})"
            )
        if len(self.bad_ends) >= KILLED:
            raise RunFailed(f"the workers are killed before they begin, by signal {-self.bad_ends[-1]}")

    def _end(self) -> None:
        """Stop every worker, and let its trial wait again."""
        stop(self.workers, END)
        self.workers.clear()
        self.monitor.release_stale(self.study, self.n_trials)


def stop_on_same_failures(trials: Sequence[FrozenTrial]) -> None:
    """:raises RunFailed: the last trials of this session all failed with the same error"""
    finished = [trial for trial in trials if trial.state.is_finished() and trial.datetime_complete]
    latest = sorted(finished, key=lambda trial: str(trial.datetime_complete))[-SAME_FAILURES:]
    errors = [trial.user_attrs.get("error") for trial in latest if trial.state == TrialState.FAIL]
    kinds = {"".join(" " if letter.isdigit() else letter for letter in str(error)) for error in errors}
    if len(errors) == SAME_FAILURES and len(kinds) == 1:
        raise RunFailed(f"{SAME_FAILURES} trials in a row failed with the same error: {errors[-1]}")

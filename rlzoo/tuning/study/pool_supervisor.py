"""Supervisor of a study whose trials run as tasks of a pool, such as a Ray cluster.

This process alone reads and writes the study: it claims trials, samples their hyperparameters, records what
they report and decides which are pruned. A trial whose task is lost waits again. When this process is killed
too, the next one finds its trials as it finds those of any dead worker.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial, TrialState

from rlzoo.cluster.tasks import Asked, Ended, Json, Pool, Task
from rlzoo.core.errors import RunFailed
from rlzoo.tuning.storage.optuna_internals import id_of, storage_of
from rlzoo.tuning.storage.study_settings import StudySettings
from rlzoo.tuning.storage.trial_queue import claim_trial, release_trial
from rlzoo.tuning.storage.worker_monitor import Heartbeat, WorkerMonitor, release_after_death, this_worker
from rlzoo.tuning.study import remote_trial
from rlzoo.tuning.study.display import Display
from rlzoo.tuning.study.objective import sample
from rlzoo.tuning.study.supervisor import stop_on_same_failures
from rlzoo.tuning.study.trial_worker import in_one_line, prepare, tell

POLL = 0.5  # seconds between two looks at the study
STATES = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "fail": TrialState.FAIL}


@dataclass
class Running:
    """A trial that runs as a task.

    :param heartbeat: tells other commands that this process is alive
    """

    trial: optuna.Trial
    heartbeat: ExitStack
    reported: set[int]  # steps


class PoolSupervisor:
    """Runs the waiting trials of a study as tasks of a pool.

    :param n_trials: trials with lower numbers are run
    :param folder: of the study; errors of trials go to its workers.log
    :param threads: PyTorch's, of each trial
    :param verbose: 0 shows nothing
    """

    def __init__(
        self,
        study: optuna.Study,
        settings: StudySettings,
        n_trials: int,
        folder: Path,
        pool: Pool,
        threads: int,
        verbose: int,
    ) -> None:
        self.study, self.settings, self.n_trials, self.pool = study, settings, n_trials, pool
        self.threads, self.log = threads, folder / "workers.log"
        self.display = Display(study, n_trials, verbose)
        self.monitor = WorkerMonitor()
        self.sampler, self.worker = prepare(study, settings), this_worker()
        self.running: dict[int, Running] = {}  # by the key of the task

    def run(self, timeout: float | None = None) -> None:
        """Run until every trial is done, or for `timeout` seconds.

        :raises RunFailed: the pool can run no tasks, or trials fail in a row with the same error
        """
        began = time.monotonic()
        earlier = {trial.number for trial in self._trials() if trial.state.is_finished()}
        try:
            with self.display:
                while True:
                    self.monitor.release_stale(self.study, self.n_trials)
                    trials = self._trials()
                    self.display.update(trials)
                    stop_on_same_failures([trial for trial in trials if trial.number not in earlier])
                    if all(trial.state.is_finished() for trial in trials):
                        return
                    if timeout is not None and time.monotonic() - began > timeout:
                        return
                    self._handle_events(time.monotonic() + POLL)
        finally:
            self._end()

    def _trials(self) -> list[FrozenTrial]:
        return [trial for trial in self.study.get_trials(deepcopy=False) if trial.number < self.n_trials]

    def _handle_events(self, deadline: float) -> None:
        """Keep the slots of the pool filled, and handle events until the deadline."""
        while self._fill_slots() and (left := deadline - time.monotonic()) > 0:
            for event in self.pool.wait(left):
                if isinstance(event, Asked):
                    self._answer(event)
                else:
                    self._finish(event)

    def _fill_slots(self) -> bool:
        """Submit waiting trials while there are free slots; return whether any trial runs."""
        while len(self.running) < self.pool.slots():
            trial = claim_trial(self.study, self.n_trials, self.worker, self.sampler)
            if trial is None:
                break
            self._submit(trial)
        if not self.running:
            time.sleep(POLL)  # other commands run the last trials, or no node is there
        return bool(self.running)

    def _submit(self, trial: optuna.Trial) -> None:
        """Sample the hyperparameters of a trial, and submit its task; one that cannot be sampled fails."""
        with ExitStack() as heartbeat:
            heartbeat.enter_context(Heartbeat(trial.storage, id_of(trial)))
            try:
                if not self.settings.retrain:
                    sample(trial, self.settings)
            except Exception as failure:
                tell(self.study, trial, TrialState.FAIL, None, in_one_line(failure))
                return
            except BaseException:  # a signal
                release_trial(self.study, trial)
                raise
            payload = remote_trial.payload_of(trial, self.settings, trial.params, self.threads)
            inputs = (self.settings.expert,) if self.settings.expert else ()
            key = self.pool.submit(Task(remote_trial.TARGET, payload, inputs, self.settings.log_path))
            self.running[key] = Running(trial, heartbeat.pop_all(), set(payload["known"]))

    def _answer(self, asked: Asked) -> None:
        """Record what a trial reports, and tell it whether to go on."""
        if (running := self.running.get(asked.key)) is None:
            return
        self._record(running, asked.message)
        if asked.ticket:
            self.pool.answer(asked, {"prune": bool(running.trial.should_prune())})

    def _record(self, running: Running, message: Json) -> None:
        """Write the reports and attributes of a message into the study."""
        for value, step in message.get("reports", ()):
            if step not in running.reported:
                running.reported.add(step)
                running.trial.report(value, step)
        for name, value in message.get("attributes", {}).items():
            if running.trial.user_attrs.get(name) != value:
                running.trial.set_user_attr(name, value)

    def _finish(self, ended: Ended) -> None:
        """Tell the study how a trial ended; a lost one waits again."""
        if (running := self.running.pop(ended.key, None)) is None:
            return
        with running.heartbeat:
            if ended.log or ended.lost:
                self._write_log(f"trial {running.trial.number}: {ended.log or ended.error}")
            if ended.lost:
                release_after_death(storage_of(self.study), running.trial)
                return
            result = ended.result or {"state": "fail", "error": ended.error}
            self._record(running, result)
            if result.get("log"):
                self._write_log(f"trial {running.trial.number}: {result['log']}")
            if result["state"] not in STATES:
                raise RunFailed(f"trial {running.trial.number} ended as {str(result['state'])[:40]!r}")
            tell(self.study, running.trial, STATES[result["state"]], result.get("values"), result["error"])

    def _write_log(self, text: str) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as file:
            file.write(f"{text.rstrip()}\n")

    def _end(self) -> None:
        """Let the trials wait again that still run; the pool stops their tasks."""
        for running in self.running.values():
            running.heartbeat.close()
            release_trial(self.study, running.trial)
        self.running.clear()

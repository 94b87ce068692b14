"""The list of a study's trials, worked off by any number of processes on any number of machines.

Trials 0 .. n-1 are made waiting; a worker takes one (waiting -> running), and the storage decides who. A
trial that its worker did not finish waits again, with the parameters it had drawn, so none is lost and none
counts twice. A trial carries who runs it (`worker`; empty while nobody has signed), how often it was taken
(`attempts`), a count that grows while it runs (`heartbeat`), and how often its worker died (`deaths`).
"""

from __future__ import annotations

import functools
import hashlib
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import optuna
import psutil
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

FINISHED = RuntimeError  # what a storage raises that is to change a finished trial; a subclass since 4.2
FIXED = "fixed_params"  # where Optuna looks for the parameters of `Study.enqueue_trial`
MAX_DEATHS = 5  # of the workers of one trial
SIGNING = 15.0  # seconds that a worker has to sign for a trial it has taken
SAME_START = 5.0  # seconds by which the start time of one process may seem to vary


@dataclass(frozen=True)
class Counts:
    """How many of the trials of a study are in which state."""

    waiting: int = 0
    running: int = 0
    complete: int = 0
    pruned: int = 0
    failed: int = 0

    @property
    def finished(self) -> int:
        return self.complete + self.pruned + self.failed


def counts(study: optuna.Study, n_trials: int) -> Counts:
    """The states of trials 0 .. n_trials - 1."""
    trials = study.get_trials(deepcopy=False)
    states = Counter(trial.state for trial in trials if trial.number < n_trials)
    return Counts(
        states[TrialState.WAITING],
        states[TrialState.RUNNING],
        states[TrialState.COMPLETE],
        states[TrialState.PRUNED],
        states[TrialState.FAIL],
    )


def fill(study: optuna.Study, n_trials: int, points: Sequence[Mapping[str, Any]] | None = None) -> None:
    """Add waiting trials until numbers 0 .. n_trials - 1 exist.

    Several processes may do so at once; what they add beyond that is never taken.

    :param points: fixed parameters: of trial k those of `points[k]`, where there are so many
    """
    fixed = [{FIXED: dict(point)} for point in (points or ())[:n_trials]]
    while (made := len(study.get_trials(deepcopy=False))) < n_trials:
        for number in range(made, n_trials):
            attrs = fixed[number] if number < len(fixed) else {}
            study.add_trial(create_trial(state=TrialState.WAITING, system_attrs=attrs))
    # Where others added trials in between, the numbers came out differently.
    for trial, attrs in zip(study.get_trials(deepcopy=False), fixed, strict=False):
        if trial.state == TrialState.WAITING and trial.system_attrs.get(FIXED) != attrs[FIXED]:
            study._storage.set_trial_system_attr(trial._trial_id, FIXED, attrs[FIXED])


def take(
    study: optuna.Study,
    n_trials: int,
    worker: str,
    sampler: Callable[[int], BaseSampler] | None = None,
) -> optuna.Trial | None:
    """The waiting trial with the lowest number below `n_trials`, now running; None where none waits.

    :param worker: `this_worker()`
    :param sampler: makes the study's sampler for the trial of that number
    """
    storage = study._storage
    for waiting in study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
        if waiting.number >= n_trials:
            break
        try:
            if not storage.set_trial_state_values(waiting._trial_id, TrialState.RUNNING):
                continue
        except FINISHED:
            continue
        storage.set_trial_user_attr(waiting._trial_id, "worker", worker)
        attempts = storage.get_trial(waiting._trial_id).user_attrs.get("attempts", 0)
        storage.set_trial_user_attr(waiting._trial_id, "attempts", attempts + 1)
        if sampler is not None:
            study.sampler = sampler(waiting.number)
        study._thread_local.cached_all_trials = (
            None  # as `Study.ask` does: the sampler is to see today's trials
        )
        return optuna.Trial(study, waiting._trial_id)
    return None


def give_back(study: optuna.Study, trial: optuna.Trial) -> None:
    """Let a running trial wait again; nothing where it is finished or another worker's by now."""
    _release(study._storage, trial._trial_id, trial.user_attrs.get("worker", ""))


def _release(storage: BaseStorage, trial_id: int, worker: str) -> bool:
    """Running -> waiting, if `worker` has the trial; whether that was done."""
    now = storage.get_trial(trial_id)
    if now.state != TrialState.RUNNING or now.user_attrs.get("worker", "") != worker:
        return False
    try:
        # Unsigned first: the next to take it must not be taken for this one before it has signed.
        storage.set_trial_user_attr(trial_id, "worker", "")
        return storage.set_trial_state_values(trial_id, TrialState.WAITING)
    except FINISHED:
        return False


# ---- who lives


def this_worker() -> str:
    """The name of this process, which no other process of any machine has: HOST:PID:START."""
    return f"{_host()}:{os.getpid()}:{_start(psutil.Process()):.2f}"


def is_alive(worker: str) -> bool | None:
    """Whether that process runs; None where that cannot be seen from here: it is on another host."""
    host, pid, start = _split(worker)
    if host != _host():
        return None
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return False
        return abs(_start(process) - start) < SAME_START
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _start(process: psutil.Process) -> float:
    """When a process began: on Linux in seconds since the machine did, whatever the clock is set to."""
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
    except OSError:  # another system
        return float(process.create_time())
    return int(stat.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")


def _split(worker: str) -> tuple[str, int, float]:
    try:
        host, pid, start = worker.rsplit(":", 2)
        return host, int(pid), float(start)
    except ValueError:
        return "", -1, 0.0


@functools.cache
def _host() -> str:
    """The host name, and what tells apart machines and containers of the same name."""
    name = socket.gethostname()
    marks = [name]
    with suppress(OSError):  # Linux
        marks.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        marks.append(os.readlink("/proc/self/ns/pid"))
    return f"{name}-{hashlib.sha256(' '.join(marks).encode()).hexdigest()[:8]}"


class Heartbeat:
    """While the block runs, a thread counts in the trial, for those who cannot see this process.

    A storage that is out of reach for a moment is tried again at the next beat.

    :param interval: seconds
    """

    def __init__(self, storage: BaseStorage, trial_id: int, interval: float = 5.0) -> None:
        self._storage, self._trial_id, self._interval = storage, trial_id, interval
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join(self._interval)  # a storage that hangs is not waited for

    def _beat(self) -> None:
        count = 0
        while not self._end.wait(self._interval):
            count += 1
            try:
                self._storage.set_trial_user_attr(self._trial_id, "heartbeat", count)
            except (FINISHED, KeyError):
                return
            except Exception:
                continue


class Watch:
    """Finds the running trials whose workers are gone. Make it before the workers that it is to watch.

    :param grace: seconds without a heartbeat after which a worker of another host counts as dead
    """

    def __init__(self, grace: float = 60.0) -> None:
        self._grace = grace
        self._own_start = _start(psutil.Process())
        self._seen_alive: set[str] = set()
        self._silence: dict[
            int, tuple[tuple[Any, ...], float]
        ] = {}  # of a trial: its marks, seconds unchanged
        self._looked = time.monotonic()

    def release_stale(self, study: optuna.Study, n_trials: int) -> list[int]:
        """Let the trials of dead workers wait again, or fail where that has happened `MAX_DEATHS` times.

        To be called every few seconds. A worker of this host is missed at once.

        :return: the numbers of these trials
        """
        now = time.monotonic()
        # After a pause of our own (a storage out of reach, a stopped process) the others' hearts may have
        # stood still as well: no pause counts for more than a part of the grace.
        passed, self._looked = now - self._looked, now
        silence: dict[int, tuple[tuple[Any, ...], float]] = {}
        stale = []
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if trial.number >= n_trials:
                continue
            worker = trial.user_attrs.get("worker", "")
            alive = is_alive(worker)
            if alive:
                self._seen_alive.add(worker)
                continue
            if alive is False:
                stale.append(trial)
                continue
            grace = self._grace if worker else min(SIGNING, self._grace)
            marks = (worker, *(trial.user_attrs.get(name) for name in ("attempts", "heartbeat")))
            before, seconds = self._silence.get(trial.number, (None, 0.0))
            seconds = seconds + min(passed, grace / 4) if marks == before else 0.0
            silence[trial.number] = (marks, seconds)
            if seconds >= grace:
                stale.append(trial)
        self._silence = silence
        return [trial.number for trial in stale if self._put_back(study._storage, trial)]

    def _put_back(self, storage: BaseStorage, trial: FrozenTrial) -> bool:
        trial_id, worker = trial._trial_id, trial.user_attrs.get("worker", "")
        deaths = trial.user_attrs.get("deaths", 0) + self._died(worker)
        try:
            if self._died(worker):
                storage.set_trial_user_attr(trial_id, "deaths", deaths)
            if deaths >= MAX_DEATHS:
                storage.set_trial_user_attr(trial_id, "error", f"its worker died {deaths} times")
                return storage.set_trial_state_values(trial_id, TrialState.FAIL)
        except FINISHED:
            return False
        return _release(storage, trial_id, worker)

    def _died(self, worker: str) -> bool:
        """Whether it died while this process watched, and not together with its own parent or machine."""
        if is_alive(worker) is not False:
            return False
        return worker in self._seen_alive or _split(worker)[2] > self._own_start

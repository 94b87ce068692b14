"""Names and heartbeats of a study's workers, and the release of the trials of dead ones."""

from __future__ import annotations

import functools
import hashlib
import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

import optuna
import psutil
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from rlzoo.tuning.storage.optuna_internals import id_of, storage_of
from rlzoo.tuning.storage.trial_queue import ALREADY_FINISHED_ERROR, release

MAX_DEATHS = 5  # of the workers of one trial
CLAIM_TIMEOUT = 15.0  # seconds between the claim of a trial and the worker's signature
SAME_START = 5.0  # seconds by which the start time of one process may vary

Signs: TypeAlias = tuple[str, int | None, int | None]
"""Worker, attempts and heartbeat of a running trial: one of them changes while somebody runs it."""


def this_worker() -> str:
    """Return the name of this process, unique over all machines: HOST:PID:START."""
    return f"{_host()}:{os.getpid()}:{_start(psutil.Process()):.2f}"


def is_alive(worker: str) -> bool | None:
    """Return whether a worker's process runs; None if it is on another host, which cannot be seen here."""
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
    """Return when a process started: on Linux in seconds since boot, which do not depend on the clock."""
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
    except OSError:  # another system
        return float(process.create_time())
    return int(stat.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")


def _split(worker: str) -> tuple[str, int, float]:
    """Return host, process id and start time of a worker's name."""
    try:
        host, pid, start = worker.rsplit(":", 2)
        return host, int(pid), float(start)
    except ValueError:
        return "", -1, 0.0


@functools.cache
def _host() -> str:
    """Return the host name with a hash that distinguishes machines and containers of the same name."""
    name = socket.gethostname()
    marks = [name]
    with suppress(OSError):  # Linux
        marks.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        marks.append(os.readlink("/proc/self/ns/pid"))
    return f"{name}-{hashlib.sha256(' '.join(marks).encode()).hexdigest()[:8]}"


class Heartbeat:
    """Thread that counts in a trial while the block runs: a sign of life for workers on other hosts.

    If the storage cannot be reached, the next beat tries again.

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
            except (ALREADY_FINISHED_ERROR, KeyError):
                return
            except Exception:
                continue


def release_after_death(storage: BaseStorage, trial: FrozenTrial | optuna.Trial, died: bool = True) -> bool:
    """Release a trial whose worker is gone, or let it fail after `MAX_DEATHS` deaths of its workers.

    :param died: the worker died while it was monitored, which counts as a death
    :return: whether the state of the trial has changed
    """
    trial_id, worker = id_of(trial), trial.user_attrs.get("worker", "")
    deaths = trial.user_attrs.get("deaths", 0) + died
    try:
        if died:
            storage.set_trial_user_attr(trial_id, "deaths", deaths)
        if deaths >= MAX_DEATHS:
            storage.set_trial_user_attr(trial_id, "error", f"its worker died {deaths} times")
            return storage.set_trial_state_values(trial_id, TrialState.FAIL)
    except ALREADY_FINISHED_ERROR:
        return False
    return release(storage, trial_id, worker)


class WorkerMonitor:
    """Release the trials of dead workers. Create it before the workers that it monitors.

    :param grace: seconds without a heartbeat after which a worker of another host counts as dead
    """

    def __init__(self, grace: float = 60.0) -> None:
        self._grace = grace
        self._own_start = _start(psutil.Process())
        self._seen_alive: set[str] = set()
        self._silence: dict[int, tuple[Signs, float]] = {}  # trial -> its signs of life, seconds unchanged
        self._looked = time.monotonic()

    def release_stale(self, study: optuna.Study, n_trials: int) -> list[int]:
        """Release the trials of dead workers; a trial whose worker died `MAX_DEATHS` times fails instead.

        Call it every few seconds. The death of a worker on this host is noticed at once.

        :return: the numbers of these trials
        """
        now = time.monotonic()
        # After a pause of this process (unreachable storage, SIGSTOP) the others may have paused as well:
        # no pause counts for more than a quarter of the grace period.
        passed, self._looked = now - self._looked, now
        silence: dict[int, tuple[Signs, float]] = {}
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
            grace = self._grace if worker else min(CLAIM_TIMEOUT, self._grace)
            signs = (worker, trial.user_attrs.get("attempts"), trial.user_attrs.get("heartbeat"))
            before, seconds = self._silence.get(trial.number, (None, 0.0))
            seconds = seconds + min(passed, grace / 4) if signs == before else 0.0
            silence[trial.number] = (signs, seconds)
            if seconds >= grace:
                stale.append(trial)
        self._silence = silence
        return [trial.number for trial in stale if self._release(storage_of(study), trial)]

    def _release(self, storage: BaseStorage, trial: FrozenTrial) -> bool:
        """Release or fail the trial of a dead worker; return whether its state has changed."""
        return release_after_death(storage, trial, self._died(trial.user_attrs.get("worker", "")))

    def _died(self, worker: str) -> bool:
        """Return whether a worker died while this process monitored it.

        One that died with its parent, or with its machine, does not count.
        """
        if is_alive(worker) is not False:
            return False
        return worker in self._seen_alive or _split(worker)[2] > self._own_start

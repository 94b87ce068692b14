"""Tasks in worker processes of this machine."""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from subprocess import Popen

from rlzoo.cluster.tasks import Asked, Ended, Json, Task, ended
from rlzoo.core.errors import RunFailed
from rlzoo.processes.workers import describe_exit, last_line, start_command, stop

END = 5.0  # seconds that a worker has to end
FRUITLESS = 3  # workers in a row that end with an error before their first message


class _Worker:
    """A process, its end of the socket, and the task that it runs."""

    def __init__(self, log: Path, n_threads: int) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "rlzoo.cluster.local_worker", str(theirs.fileno())]
        with log.open("ab") as file, theirs:
            self.process: Popen[bytes] = start_command(command, file, n_threads, pass_fds=[theirs.fileno()])
        self.socket, self.received = ours, b""
        self.key: int | None = None

    def send(self, message: Json) -> None:
        """Send a message; a dead worker is noticed when it is read from."""
        with suppress(OSError):
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def lines(self) -> list[bytes] | None:
        """Return the lines that have arrived; None: the process has ended."""
        try:
            content = self.socket.recv(1 << 20)
        except ConnectionResetError:
            content = b""
        *lines, self.received = (self.received + content).split(b"\n")
        return lines if content else None


class LocalPool:
    """Runs tasks in worker processes of this machine, each of which runs many; a context manager.

    :param n_jobs: processes
    :param n_threads: PyTorch's, of each
    :param log: the file for their messages
    """

    def __init__(self, n_jobs: int, n_threads: int, log: Path) -> None:
        self.n_jobs, self.n_threads, self.log = n_jobs, n_threads, log
        self._waiting: deque[tuple[int, Task]] = deque()
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._n_submitted = self._n_fruitless = 0

    def __enter__(self) -> LocalPool:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._waiting.clear()
        stop([worker.process for worker in self._workers], END)
        for worker in list(self._workers):
            self._remove(worker)
        self._selector.close()
        if self.log.is_file() and not self.log.stat().st_size:
            self.log.unlink()

    @property
    def processes(self) -> list[Popen[bytes]]:
        """The worker processes."""
        return [worker.process for worker in self._workers]

    def slots(self) -> int:
        """Return the number of processes."""
        return self.n_jobs

    def submit(self, task: Task) -> int:
        """Give a task to a process, or let it wait for one."""
        self._n_submitted += 1
        self._waiting.append((self._n_submitted, task))
        self._start_tasks()
        return self._n_submitted

    def wait(self, timeout: float) -> list[Ended | Asked]:
        """Return what has happened within `timeout` seconds.

        :raises RunFailed: worker after worker ends before its first message
        """
        events: list[Ended | Asked] = []
        if not self._workers:
            time.sleep(timeout)
        for key, _ in self._selector.select(timeout) if self._workers else ():
            worker = key.data
            lines = worker.lines()
            for line in lines or ():
                events.append(self._event(worker, json.loads(line)))
            if lines is None:
                events += self._lost(worker)
        self._start_tasks()
        return events

    def answer(self, asked: Asked, reply: Json) -> None:
        """Answer a task that waits."""
        for worker in self._workers:
            if worker.key == asked.key and asked.ticket:
                worker.send(reply)

    def interrupt(self, grace: float) -> list[Ended | Asked]:
        """Send SIGTERM to the processes with a task, and return what happens until they have ended."""
        self._waiting.clear()
        busy = [worker for worker in self._workers if worker.key is not None]
        for worker in busy:
            worker.process.terminate()
        deadline = time.monotonic() + grace
        events: list[Ended | Asked] = []
        while any(worker.key is not None for worker in self._workers) and time.monotonic() < deadline:
            events += self.wait(0.2)
        return events

    def _start_tasks(self) -> None:
        """Give waiting tasks to free processes; start processes up to `n_jobs`."""
        while self._waiting:
            worker = next((worker for worker in self._workers if worker.key is None), None)
            if worker is None:
                if len(self._workers) >= self.n_jobs:
                    return
                worker = _Worker(self.log, self.n_threads)
                self._workers.append(worker)
                self._selector.register(worker.socket, selectors.EVENT_READ, worker)
            worker.key, task = self._waiting.popleft()
            worker.send(asdict(task))

    def _event(self, worker: _Worker, message: Json) -> Ended | Asked:
        """Return the event of a message."""
        self._n_fruitless = 0
        key = worker.key
        assert key is not None
        if "message" in message:
            return Asked(key, message["message"], int(message["wait"]))
        worker.key = None
        return ended(key, message["outcome"])

    def _lost(self, worker: _Worker) -> list[Ended]:
        """Remove a process that has ended, and return the end of its task.

        :raises RunFailed: this happens before anything was done, again and again
        """
        self._remove(worker)
        code = worker.process.returncode
        reason = (last_line(self.log) if code > 0 else "") or describe_exit(code)
        self._n_fruitless += code > 0
        if self._n_fruitless >= FRUITLESS:
            raise RunFailed(f"the workers fail: {reason} (all of it in {self.log})")
        return [] if worker.key is None else [Ended(worker.key, error=reason, lost=True)]

    def _remove(self, worker: _Worker) -> None:
        """Remove a process from the pool; kill it if it still runs."""
        self._workers.remove(worker)
        self._selector.unregister(worker.socket)
        worker.socket.close()
        stop([worker.process], END)

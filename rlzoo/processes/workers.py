"""Worker processes: start them, exchange messages with them, and end them with their parent.

Two kinds of worker. A `PipeWorker` runs a function of this program (`multiprocessing`) and answers messages
over a pipe. A command (`start_command`) is a new Python interpreter with a log file. Both end when their
parent has ended, however it ended: see `end_with_parent`.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen, TimeoutExpired
from typing import BinaryIO

from rlzoo.core.errors import UserError
from rlzoo.processes.safe_path import child_environment, restore_path_setting, safe_path_in_children
from rlzoo.processes.stop_signals import exit_at_once

CLOSE_TIMEOUT = 5.0  # seconds that workers have to end by themselves


def describe_exit(code: int | None) -> str:
    """Describe the exit code of a process: "killed by signal 9" or "exit code 1"."""
    return f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"


# In the worker


def end_with_parent() -> None:
    """End this worker process as soon as its parent has ended, also by `kill -9`.

    A worker of `multiprocessing` exits at once. A command gets SIGTERM, which it may handle: the end of its
    parent closes its standard input, to which nobody writes.
    """
    is_command = multiprocessing.parent_process() is None
    threading.Thread(target=_wait_for_stdin if is_command else _wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    exit_at_once(1)


def _wait_for_stdin() -> None:
    try:
        while os.read(0, 4096):
            pass
    except OSError as error:
        print(f"rlzoo: standard input: {error}", file=sys.stderr)
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGTERM)  # to that thread, so that it wakes from what it waits for


def prepare_worker(n_threads: int) -> None:
    """Prepare the process of a `PipeWorker`: ignore Ctrl-C, end with the parent, limit the threads."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that owns the run
    restore_path_setting()
    end_with_parent()
    os.environ.setdefault("OMP_NUM_THREADS", str(n_threads))
    limit_torch_threads(n_threads)


def limit_torch_threads(n_threads: int) -> None:
    """Set the number of PyTorch's threads, if PyTorch has been imported."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(n_threads)


class Unsendable(AttributeError):
    """A value that cannot be sent from a worker."""


def answer(connection: Connection, value: object) -> None:
    """Send `(True, value)` from a worker.

    :raises Unsendable: the value cannot be pickled
    """
    try:
        connection.send((True, value))
    except (EOFError, OSError):
        raise
    except Exception as error:  # pickle raises all sorts
        raise Unsendable(f"{type(value).__name__} cannot be sent between processes: {error}") from error


def answer_error(connection: Connection, error: Exception) -> None:
    """Send `(False, (error, traceback))` from a worker, in the handler of the error."""
    trace = traceback.format_exc()
    try:
        connection.send((False, (error, trace)))
    except (EOFError, OSError):
        raise
    except Exception:
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        connection.send((False, (RuntimeError(text), trace)))


# In the parent: workers that answer over a pipe


class _RemoteTraceback(Exception):
    """Shows the traceback of the worker as the cause of the error here."""


def remote_error(failure: tuple[Exception, str]) -> Exception:
    """Return the error that `answer_error` sent, with its traceback as the cause."""
    error, trace = failure
    error.__cause__ = _RemoteTraceback(trace)
    return error


def worker_context(start_method: str | None, preload: str) -> BaseContext:
    """Return the `multiprocessing` context of a start method.

    :param start_method: None: forkserver if the system has it, else spawn
    :param preload: the module that the workers run; a fork server imports it once for all
    :raises UserError: the system does not have this start method
    """
    methods = multiprocessing.get_all_start_methods()
    if start_method is None:
        start_method = "forkserver" if "forkserver" in methods else "spawn"
    if start_method not in methods:
        raise UserError(
            f"cannot find context for {start_method!r}: start_method is one of {', '.join(methods)}"
        )
    context = multiprocessing.get_context(start_method)
    if start_method == "forkserver":
        context.set_forkserver_preload(["__main__", preload])
    return context


class PipeWorker:
    """A process that runs `target(connection, *arguments)` and sends its results with `answer`."""

    def __init__(self, context: BaseContext, target: Callable[..., None], *arguments: object) -> None:
        self.connection, theirs = context.Pipe()
        # Process is an attribute of the subclasses of BaseContext only
        self.process: multiprocessing.Process = context.Process(  # type: ignore[attr-defined]
            target=target, args=(theirs, *arguments), daemon=True
        )
        with safe_path_in_children():
            self.process.start()
        theirs.close()  # so that a dead worker is an end of file here
        self._poller = select.poll() if hasattr(select, "poll") else None
        if self._poller is not None:
            self._poller.register(self.connection, select.POLLIN)

    def wait(self) -> None:
        """Wait until there is something to receive, where the system has `poll`.

        Ctrl-C while waiting here leaves no message half read.
        """
        if self._poller is not None:
            self._poller.poll()

    def describe_exit(self) -> str:
        """Describe how the process ended; it is given `CLOSE_TIMEOUT` seconds to end."""
        self.process.join(CLOSE_TIMEOUT)
        return describe_exit(self.process.exitcode)

    def kill(self) -> None:
        """End the process at once, if it has not ended, and close the connection."""
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.connection.close()


# In the parent: workers that are commands


def start_command(
    command: Sequence[str],
    log: BinaryIO,
    n_threads: int,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> Popen[bytes]:
    """Start a Python command as a worker, in a separate session: Ctrl-C reaches only the parent.

    The command calls `restore_path_setting` and `end_with_parent` first.

    :param log: the file for its messages
    :param environment: variables besides those of this process
    """
    threads = {"OMP_NUM_THREADS": str(n_threads)}
    return Popen(
        command,
        stdin=PIPE,  # its end tells the worker that this process has ended
        stdout=log,
        stderr=STDOUT,
        env={**os.environ, **child_environment(), **threads, **(environment or {})},
        start_new_session=True,
        pass_fds=pass_fds,
    )


def stop(processes: Iterable[Popen[bytes]], grace: float) -> None:
    """Terminate processes and wait for them; kill those that have not ended after `grace` seconds."""
    processes = list(processes)
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + grace
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except TimeoutExpired:
            process.kill()
            process.wait()


def last_line(log: Path) -> str:
    """Return the last line of a log that is not blank; "" if there is none."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""

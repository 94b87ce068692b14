"""Worker processes end with their parent, are stopped in time, and say how they ended."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from rlzoo.core.errors import UserError
from rlzoo.processes.workers import PipeWorker, describe_exit, last_line, start_command, stop, worker_context

ENDS = "from rlzoo.processes.workers import end_with_parent; end_with_parent(); import time; time.sleep(60)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); input()"


def test_exit_codes_are_described() -> None:
    assert [describe_exit(code) for code in (-9, 1, 0)] == [
        "killed by signal 9",
        "exit code 1",
        "exit code 0",
    ]


def test_a_command_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as log:
        process = start_command([sys.executable, "-c", DEAF], log, 1)
    while not last_line(path):
        time.sleep(0.01)
    began = time.monotonic()
    stop([process], grace=0.2)
    assert process.returncode == -signal.SIGKILL and time.monotonic() - began < 10


def test_a_command_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    code = f"""
import sys
from rlzoo.processes.workers import start_command
with open({str(tmp_path / "log")!r}, "wb") as log:
    print(start_command([sys.executable, "-c", {ENDS!r}], log, 1).pid, flush=True)
    input()
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    psutil.wait_procs([worker], timeout=30)
    assert not worker.is_running()


def test_an_unknown_start_method_is_refused() -> None:
    with pytest.raises(UserError, match="cannot find context for 'thread'"):
        worker_context("thread", preload="json")


def _exit(connection: object, code: int) -> None:
    raise SystemExit(code)


def test_a_pipe_worker_says_how_it_ended() -> None:
    worker = PipeWorker(worker_context("fork", preload="json"), _exit, 3)
    assert worker.describe_exit() == "exit code 3"
    worker.kill()

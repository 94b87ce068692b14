"""Start the ranks of `rlzoo train --n-procs N` on this machine, and watch over them.

Rank 0 prints, saves and takes the signals; the other ranks end when it does. When a rank dies, the others see
its connections close, and rank 0 saves the agent and ends.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory
from types import FrameType

from rlzoo.processes.safe_path import child_environment
from rlzoo.processes.stop_signals import SIGNALS
from rlzoo.processes.workers import describe_exit

RENDEZVOUS = "RLZOO_RENDEZVOUS"
"""Environment variable with the file through which the ranks of `rlzoo train --n-procs` find each other."""
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables that torchrun sets in every rank."""

POLL = 0.05  # seconds between two looks at the ranks
TO_NOTICE = 10.0  # seconds that ranks have to end after one has ended
TO_SAVE = 60.0  # seconds that rank 0 has to save when it is told to end
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


def is_rank(environment: Mapping[str, str] | None = None) -> bool:
    """Return whether torchrun, or `rlzoo train --n-procs`, has started this process as one of several.

    :param environment: environment variables; None: those of this process
    """
    variables = os.environ if environment is None else environment
    several = variables.get("WORLD_SIZE", "1") != "1"
    return several and (RENDEZVOUS in variables or all(name in variables for name in VARIABLES))


def launch(n_procs: int, arguments: Sequence[str]) -> int:
    """Run `rlzoo <arguments>` in several ranks until all have ended; return the exit code.

    :param n_procs: number of ranks
    """
    ranks: list[Popen[bytes]] = []
    with TemporaryDirectory(prefix="rlzoo-ranks-") as folder, _signals_to_rank_0(ranks):
        try:
            for rank in range(n_procs):
                ranks.append(_start(rank, n_procs, Path(folder) / "store", arguments))
            told = _wait(ranks)
        finally:
            for process in ranks:
                process.kill()
                process.wait()
    code: int = ranks[0].returncode
    if code < 0:
        print(f"rlzoo: error: rank 0 was {describe_exit(code)}; see --resume", file=sys.stderr)
        return 1
    return code or int(told)


def _start(rank: int, n_procs: int, store: Path, arguments: Sequence[str]) -> Popen[bytes]:
    threads = max(1, len(os.sched_getaffinity(0)) // n_procs) if hasattr(os, "sched_getaffinity") else 1
    variables = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(n_procs),
        RENDEZVOUS: str(store),
        "GLOO_SOCKET_IFNAME": LOOPBACK,  # no other machine can connect
    }
    return Popen(
        [sys.executable, "-m", "rlzoo", *arguments],
        stdin=PIPE,  # its end tells the rank that this process has ended
        env={"OMP_NUM_THREADS": str(threads), **os.environ, **child_environment(), **variables},
        start_new_session=True,  # Ctrl-C reaches this process only
    )


def _wait(ranks: Sequence[Popen[bytes]]) -> bool:
    """Wait until all ranks have ended; return whether rank 0 was told to, since another one had died."""
    told, deadline = False, 0.0
    while None in (codes := [process.poll() for process in ranks]):
        if codes[0] is not None or any(codes[1:]):
            deadline = deadline or time.monotonic() + TO_NOTICE
        if deadline and time.monotonic() > deadline:
            if told or codes[0] is not None:
                break  # the caller kills those that are left
            ranks[0].terminate()
            told, deadline = True, time.monotonic() + TO_SAVE
        time.sleep(POLL)
    return told


@contextmanager
def _signals_to_rank_0(ranks: Sequence[Popen[bytes]]) -> Iterator[None]:
    """Pass Ctrl-C, SIGTERM and SIGHUP on to rank 0, which saves the agent and ends."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        for process in ranks[:1]:
            process.send_signal(number)

    wanted = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, on_signal) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

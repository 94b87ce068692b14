"""Start the ranks of a training, and find their processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def environment(**variables: str) -> dict[str, str]:
    """Return the environment of a process that imports this checkout."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}


def run_script(folder: Path, script: Path, *arguments: str, n_ranks: int = 2) -> list[str]:
    """Run a script as several ranks; return what each printed, and assert that all have succeeded."""
    command = [sys.executable, "-W", "ignore", str(script), *arguments]
    shared = {"WORLD_SIZE": str(n_ranks), "RLZOO_RENDEZVOUS": str(folder / "store")}
    processes = [
        subprocess.Popen(
            command,
            env=environment(RANK=str(rank), LOCAL_RANK=str(rank), GLOO_SOCKET_IFNAME="lo", **shared),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(n_ranks)
    ]
    try:
        output = [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * n_ranks, "\n".join(output)
    return output


def ranks_of(launcher: int) -> list[int]:
    """Return the ids of the ranks that a process has started, in their order."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return sorted(map(int, children))

"""Compare the time and memory of several seeds, stacked and not stacked, with those of one seed.

    python scripts/compare_seeds.py --algo ppo --env CartPole-v1 -n 25000 --seeds 0-9 --n-jobs 2

Prints a row for each way: wall time, processor time of all processes, and the most memory that they held
together (proportional set size, read twice a second). Nothing is evaluated during the trainings.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def memory_of(pid: int) -> float:
    """Return the MiB that a process and its descendants hold; 0 for those that have ended."""
    total = 0.0
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:")) / 1024
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(memory_of(int(child)) for child in (task / "children").read_text().split())
    except (FileNotFoundError, ProcessLookupError):
        return total
    return total


def measure(command: list[str]) -> tuple[float, float, float]:
    """Run a command; return wall time and processor time in seconds, and memory in MiB."""
    before, began, peak = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, memory_of(process.pid))
            time.sleep(0.5)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} failed with exit code {process.returncode}")
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--algo", default="ppo")
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("-n", "--n-timesteps", default="25000")
    parser.add_argument("--seeds", default="0-9")
    parser.add_argument("--n-jobs", default="2")
    parser.add_argument("-params", "--hyperparams", nargs="+", default=[], metavar="KEY:VALUE")
    args = parser.parse_args()
    base = [sys.executable, "-m", "rlzoo", "train", "--algo", args.algo, "--env", args.env]
    base += ["-n", args.n_timesteps, "--eval-freq", "0", "--verbose", "0"]
    base += ["--hyperparams", *args.hyperparams] if args.hyperparams else []
    several = ["--seeds", args.seeds, "--n-jobs", args.n_jobs]
    ways = {
        "one seed": ["--seed", "0", "--num-threads", "1"],
        "stacked": [*several, "--stack-seeds", "on"],
        "not stacked": [*several, "--stack-seeds", "off"],
    }
    print(f"{'':16}{'wall':>10}{'processor':>12}{'memory':>12}")
    for name, flags in ways.items():
        with tempfile.TemporaryDirectory() as folder:
            wall, processor, memory = measure([*base, *flags, "-f", folder])
        print(f"{name:16}{wall:>8.1f} s{processor:>10.1f} s{memory:>8.0f} MiB", flush=True)


if __name__ == "__main__":
    main()

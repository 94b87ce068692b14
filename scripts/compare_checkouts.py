"""Compare the speed of this checkout of rlzoo with another one, in short pieces that take turns.

    python scripts/compare_checkouts.py ../other-checkout                          # every case
    python scripts/compare_checkouts.py ../other-checkout --cases ppo-cartpole help --rounds 60

The cases are those of scripts/compare_speed.py. One process on each side trains the same task, a fortieth of
the case's steps at a time (`--pieces`): first one, then the other, in an order that alternates. Each pair of
pieces gives a ratio of processor times, which other programs disturb less than two whole runs after each
other: on a busy machine the median of a case scatters by about 3%, and whole runs by 10%. Two processes of
one checkout differ by 3% themselves (the first is the slower one), so both are started several times, each
side first in half of the starts, and the table also has the median of each start.
Commands (`help`, `train-cold`) are compared by their processor time likewise, one command at a time.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compare_speed import CASES, ROOT, WORKER, Training, process_environment, run_cold, specification
from speed_worker import processor_time


class Side:
    """A process that trains one case with one checkout, a piece at a time."""

    def __init__(self, checkout: Path, spec: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), "chunks", json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=process_environment(checkout, spec["threads"]),
        )
        assert self.process.stdin and self.process.stdout
        self.requests, self.answers = self.process.stdin, self.process.stdout
        while self.read() != "ready":  # libraries may print before
            pass

    def read(self) -> str:
        line = self.answers.readline()
        if not line:
            assert self.process.stderr
            raise SystemExit(f"a training failed:\n{self.process.stderr.read()}")
        return line.strip()

    def train(self) -> float:
        """Train a piece; return the processor time per step, in seconds."""
        print("train", file=self.requests, flush=True)
        return float(json.loads(self.read()))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def take_turns(ours: Callable[[], float], before: Callable[[], float], rounds: int) -> list[float]:
    """Measure both sides in turn; return the speed of ours over the one before for each round."""
    ratios = []
    for i in range(rounds):
        if i % 2:
            cost, cost_before = ours(), before()
        else:
            cost_before, cost = before(), ours()
        ratios.append(cost_before / cost)
    return ratios


def compare(name: str, checkout: Path, rounds: int, pieces: int, ours_first: bool) -> list[float]:
    """Return the speed ratios of one case, in new processes.

    :param pieces: of the case's steps; each pays once for what `learn` prepares
    :param ours_first: start this checkout first; of two equal processes the first is 3 to 4% slower
    """
    case = CASES[name]
    if isinstance(case, Training):
        spec = specification(case, None)
        spec["chunk"] = math.ceil(spec["steps"] / pieces)
        order = (ROOT, checkout) if ours_first else (checkout, ROOT)
        sides = {where: Side(where, spec) for where in order}
        try:
            return take_turns(sides[ROOT].train, sides[checkout].train, rounds)
        finally:
            for side in sides.values():
                side.close()

    def command(where: Path) -> Callable[[], float]:
        def run() -> float:
            before = processor_time()
            run_cold(sys.executable, case.ours, where)
            return processor_time() - before

        return run

    return take_turns(command(ROOT), command(checkout), 2)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("checkout", type=Path, help="another checkout of rlzoo")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument(
        "--starts", type=int, default=6, help="pairs of processes, an even number (default: 6)"
    )
    parser.add_argument("--rounds", type=int, default=8, help="pairs of pieces in each (default: 8)")
    parser.add_argument(
        "--pieces",
        type=int,
        default=40,
        help="pieces of a whole training; fewer where they take less than 0.2 s, since calling learn() takes"
        " up to 1 ms (default: 40)",
    )
    args = parser.parse_args()
    if not (args.checkout / "rlzoo").is_dir():
        parser.error(f"{args.checkout} is not a checkout of rlzoo")
    if args.checkout.resolve() == ROOT:
        parser.error(f"{args.checkout} is this checkout: give another one")
    sys.path.insert(0, str(ROOT))
    print("| case | speed over the other checkout: median | middle half of the pairs | each start |")
    print("|---|---|---|---|")
    for name in args.cases:
        starts = [
            compare(name, args.checkout.resolve(), args.rounds, args.pieces, ours_first=start % 2 == 0)
            for start in range(args.starts)
        ]
        low, median, high = statistics.quantiles([ratio for ratios in starts for ratio in ratios], n=4)
        each = ", ".join(f"{statistics.median(ratios):.3f}" for ratios in starts)
        print(f"| {name} | **{median:.3f}** | {low:.3f} to {high:.3f} | {each} |", flush=True)


if __name__ == "__main__":
    main()

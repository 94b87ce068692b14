"""The command line of the fuzzers; see the package."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.sandbox import SECONDS, Outcome, run_files


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    kinds = parser.add_subparsers(dest="what", required=True)
    files = kinds.add_parser("files", help="mutated files of every loader")
    files.add_argument("--loader", nargs="+", default=[], metavar="NAME", help="only these")
    files.add_argument(
        "--first", type=int, default=0, metavar="K", help="number of the first case (default: 0)"
    )
    files.add_argument("--seconds", type=float, default=SECONDS, help="longest time for a case (default: 20)")
    for command in (files,):
        command.add_argument(
            "--count", type=int, default=1000, metavar="N", help="cases, of all loaders together"
        )
        command.add_argument("--seed", type=int, default=0)
        command.add_argument(
            "--out", type=Path, default=None, metavar="FILE", help="append each outcome, as JSON lines"
        )
    args = parser.parse_args()
    return fuzz_files(args)


def fuzz_files(args: argparse.Namespace) -> int:
    from tests.fuzz.loaders import BY_NAME

    names = args.loader or list(BY_NAME)
    total = sum(BY_NAME[name].share for name in names)
    counts = {name: max(1, round(args.count * BY_NAME[name].share / total)) for name in names}
    found: list[Outcome] = []
    for name, count in counts.items():
        found += follow(run_files([name], args.seed, count, args.first, args.seconds), args.out)
    print(table(found))
    return int(any(outcome.is_break for outcome in found))


def follow(outcomes: Iterable[Outcome], out: Path | None) -> list[Outcome]:
    """Print each break of a new kind as it comes, and append all outcomes to a file."""
    found = []
    seen: Counter[tuple[str, str, str]] = Counter()
    for outcome in outcomes:
        found.append(outcome)
        key = (outcome.loader, outcome.kind, outcome.where)
        seen[key] += 1
        if outcome.is_break and seen[key] == 1:
            print(
                f"{outcome.kind}: {outcome.where}: {outcome.text[-300:]!r}\n    {outcome.repeat()}",
                flush=True,
            )
        if out is not None:
            with out.open("a") as file:
                file.write(json.dumps({**asdict(outcome), "time": round(time.time())}) + "\n")
    return found


def table(outcomes: Sequence[Outcome]) -> str:
    """A row for each loader: how many cases, how many were refused, and what broke."""
    lines = [f"{'loader':16} {'tried':>7} {'refused':>8} {'broke':>6}  kinds"]
    for name in dict.fromkeys(outcome.loader for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.loader == name]
        broke = Counter(f"{outcome.kind} {outcome.where}".strip() for outcome in mine if outcome.is_break)
        refused = sum(outcome.kind == "refused" for outcome in mine)
        kinds = "; ".join(f"{count} {kind}" for kind, count in broke.most_common(4))
        lines.append(f"{name:16} {len(mine):7} {refused:8} {sum(broke.values()):6}  {kinds}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

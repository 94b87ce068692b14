"""The command line of the fuzzers; see the package."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from tests.fuzz.sandbox import MODULES, SECONDS, Batch, Outcome, run_cases


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("what", choices=list(MODULES))
    parser.add_argument(
        "--loader", nargs="+", default=[], metavar="NAME", help="only these loaders, or commands"
    )
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="cases, of all loaders together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--first", type=int, default=0, metavar="K", help="number of the first case (default: 0)"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="longest time for a case (default: 20)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="append each outcome, as a line of JSON")
    args = parser.parse_args(arguments)
    table = {loader.name: loader for loader in import_module(MODULES[args.what]).LOADERS}
    names = args.loader or list(table)
    total = sum(table[name].share for name in names)
    found: list[Outcome] = []
    for name in names:
        count = max(1, round(args.count * table[name].share / total))
        batch = Batch(args.what, (name,), args.seed, args.first, count, args.seconds)
        found += follow(run_cases(batch), args.out)
    print(summary(found))
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
            print(outcome, flush=True)
        if out is not None:
            with out.open("a") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
    return found


def summary(outcomes: Sequence[Outcome]) -> str:
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

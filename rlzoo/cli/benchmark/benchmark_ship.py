"""`rlzoo benchmark ship`: copy trained agents to the pretrained agents of rlzoo."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rlzoo.cli.benchmark.benchmark_flags import (
    add_jobs_flag,
    choose_jobs,
    folder_for_results,
)
from rlzoo.cli.flags.list_flags import add_packages_flag
from rlzoo.cli.flags.parser import IntInRange

if TYPE_CHECKING:
    from rlzoo.benchmark.model_zoo import NotPublished, Published

EPILOG = """\
examples:
  rlzoo benchmark ship logs/benchmark --list benchmarks/learning.yml
  rlzoo benchmark ship logs -o my_agents
  rlzoo benchmark ship logs --seed 1 -o my_agents   # this seed, learned or not
  rlzoo benchmark ship                              # only rewrite the registry

The best seed of each row is copied, selected on other episodes than those of
its published score. A row is skipped if it has `below` or `ship: false`, or if
no seed has learned: its best agent misses `required` or, without `required`, is
not better by one standard deviation than random actions (and, for continuous
actions, than zero actions).

An agent larger than 2 MB is copied without critics and optimisers: it can be
evaluated, but not trained.
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "places",
        nargs="*",
        type=Path,
        metavar="DIR",
        help="folders of runs; none: only rewrite the registry",
    )
    parser.add_argument(
        "--seed",
        type=IntInRange(0),
        default=None,
        metavar="N",
        help="copy the runs with this seed (default: the best seed of each row)",
    )
    parser.add_argument(
        "--list",
        default=None,
        metavar="LIST",
        help="benchmark list (YAML): copy only its agents",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("trained_agents"),
        metavar="DIR",
        help="folder of the collection (default: trained_agents)",
    )
    add_packages_flag(parser)
    add_jobs_flag(parser, "agents")


def run(args: argparse.Namespace) -> int:
    from rlzoo.benchmark.model_zoo import NotPublished, Published, index, publish
    from rlzoo.config.benchmark import read_list
    from rlzoo.config.hyperparams import benchmark_file
    from rlzoo.core.errors import RunFailed, UserError

    listed = read_list(benchmark_file(args.list)) if args.list else None
    rows = None if listed is None else [row for row in listed if row.ship and row.below is None]
    n_changes = n_failed = 0
    if args.places:
        with folder_for_results(args.output):
            jobs = choose_jobs(args.n_jobs)
            for result in publish(args.places, args.seed, args.output, rows=rows, n_jobs=jobs):
                n_changes += isinstance(result, Published) or result.removed is not None
                n_failed += isinstance(result, NotPublished) and result.failed
                say(result)
            if not n_changes:  # not a UserError: the agents were evaluated, and the scores are stored
                reason = "agents could not be evaluated" if n_failed else "no agent has learned"
                raise RunFailed(f"nothing is shipped: {reason}")
    elif not args.output.is_dir():
        raise UserError(f"no collection {args.output}")
    entries = index(args.output)
    size = sum(entry.bytes for entry in entries) / 1e6
    print(f"{args.output} has {len(entries)} agent{'s' * (len(entries) != 1)}, {size:.1f} MB")
    if n_failed:
        raise RunFailed(f"{n_failed} row{'s' * (n_failed != 1)} could not be evaluated")
    return 0


def say(result: Published | NotPublished) -> None:
    """Print whether a row was copied, and if not, why."""
    from rlzoo.benchmark.model_zoo import Published

    if isinstance(result, Published):
        what = "is there already" if result.unchanged else "the actor only" if result.actor_only else "whole"
        score = result.score
        among = f" of {score.n_candidates}" if score.n_candidates and score.n_candidates > 1 else ""
        print(f"{result.folder}: {what}, seed {score.seed}{among}", flush=True)
        return
    row, removed = result.row, f"; {result.removed}, one of them, is removed" if result.removed else ""
    print(f"rlzoo: {row.label} on {row.env} is not shipped: {result.reason}{removed}", file=sys.stderr)

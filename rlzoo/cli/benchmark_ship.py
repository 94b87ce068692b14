"""`rlzoo benchmark ship`: put trained agents into the collection that comes with rlzoo."""

from __future__ import annotations

import argparse
from pathlib import Path

from rlzoo.cli.benchmark_flags import folder_for_results
from rlzoo.cli.parser import Whole

HELP = "copy trained agents into a collection and write its registry"
EPILOG = """\
examples:
  rlzoo benchmark ship logs/benchmark --list benchmarks/learning.yml
  rlzoo benchmark ship logs --seed 1 -o my_agents
  rlzoo benchmark ship                                      # only the registry again

An agent larger than 2 MB goes without what only training needs: it plays, but cannot be trained on.
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "places",
        nargs="*",
        type=Path,
        metavar="DIR",
        help="folders with runs in them; none: only the registry",
    )
    parser.add_argument(
        "--seed", type=Whole(0), default=0, metavar="N", help="take the runs with this seed (default: 0)"
    )
    parser.add_argument(
        "--list",
        default=None,
        metavar="LIST",
        help="the YAML file of a benchmark: only its agents, without those that are there to fail (`below`)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("trained_agents"),
        metavar="DIR",
        help="the collection (default: trained_agents)",
    )


def run(args: argparse.Namespace) -> int:
    from rlzoo.config.benchmark import read_list
    from rlzoo.config.shipped import benchmark_file
    from rlzoo.core.errors import UserError
    from rlzoo.report.collection import index, ship

    rows = [row for row in read_list(benchmark_file(args.list)) if row.below is None] if args.list else None
    if args.places:
        with folder_for_results(args.output):
            for agent in ship(args.places, args.seed, args.output, rows=rows):
                new = "the actor only" if agent.actor_only else "whole"
                print(f"{agent.folder}: {'is there already' if agent.unchanged else new}", flush=True)
    elif not args.output.is_dir():
        raise UserError(f"there is no collection {args.output}")
    entries = index(args.output)
    size = sum(entry.bytes for entry in entries) / 1e6
    print(f"{args.output} has {len(entries)} agent{'s' * (len(entries) != 1)}, {size:.1f} MB")
    return 0

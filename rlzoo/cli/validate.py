"""`rlzoo validate`: check hyperparameter files without training."""

from __future__ import annotations

import argparse
import sys

from rlzoo.cli.flags.parser import Choice
from rlzoo.config import catalog

EPILOG = """\
examples:
  rlzoo validate hyperparams/ppo.yml
  rlzoo validate --algo ppo my_hyperparams.yml my_config.py

Exit code 0: no problems; 2: problems, one per line.
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("files", nargs="+", metavar="FILE", help="YAML or Python file")
    parser.add_argument(
        "--algo",
        type=Choice("algorithm", catalog.names()),
        metavar="ALGO",
        help="algorithm of the files (default: from the name of each file)",
    )


def run(args: argparse.Namespace) -> int:
    from rlzoo.experiment.validate_hyperparams import validate_file

    n_problems = 0
    for path in args.files:
        report = validate_file(path, args.algo)
        n_problems += len(report.problems)
        for line in (*report.problems, *report.notes):
            print(line, file=sys.stderr)
        count = f"{len(report.problems)} problem{'s' if len(report.problems) != 1 else ''}"
        entries = f"{report.n_entries} entr{'ies' if report.n_entries != 1 else 'y'}"
        print(f"{path}: {entries}, {count if report.problems else 'no problems'}")
    return 2 if n_problems else 0

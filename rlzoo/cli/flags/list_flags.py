"""Flags of commands that train the rows of a benchmark list: `benchmark run` and `jobs`."""

from __future__ import annotations

import argparse
from pathlib import Path

from rlzoo.cli.flags.parser import FlagGroup, IntInRange
from rlzoo.config.benchmark import FOLDER, MAX_SEED, parse_key
from rlzoo.core.errors import UserError


def add_list_flags(parser: FlagGroup, where: str = "") -> None:
    """Add the folder, the rows and seeds, and how each training runs and is evaluated.

    :param where: follows "folder of the runs" in the help
    """
    parser.add_argument(
        "-f",
        "--folder",
        type=Path,
        default=Path(FOLDER),
        metavar="DIR",
        help=f"folder of the runs{where} (default: {FOLDER})",
    )
    add_rows_flag(parser)
    parser.add_argument(
        "--seeds",
        nargs="+",
        type=IntInRange(0, MAX_SEED),
        default=None,
        metavar="SEED",
        help="training seeds (default: those of the list)",
    )
    parser.add_argument(
        "--num-threads",
        type=IntInRange(1),
        default=1,
        metavar="N",
        help="PyTorch threads per training (default: 1)",
    )
    parser.add_argument(
        "--n-evaluations",
        type=IntInRange(0),
        default=20,
        metavar="N",
        help="evaluations per training for the learning curve, without effect on the agent; 0: none"
        " (default: 20)",
    )
    parser.add_argument(
        "--eval-episodes",
        type=IntInRange(1),
        default=5,
        metavar="N",
        help="episodes per evaluation (default: 5)",
    )
    add_packages_flag(parser)


def add_rows_flag(parser: FlagGroup) -> None:
    """Add `--rows`, which selects rows of the list."""
    parser.add_argument(
        "--rows",
        nargs="+",
        type=_row,
        default=[],
        metavar="NAME:ENV",
        help="only these rows; NAME is the name of the row, or its algorithm (default: all)",
    )


def add_packages_flag(parser: FlagGroup) -> None:
    """Add `--gym-packages`, whose modules `rlzoo.cli.main` trusts."""
    parser.add_argument(
        "--gym-packages",
        nargs="+",
        default=[],
        metavar="MODULE",
        help="modules that register environments; imported first",
    )


def _row(text: str) -> tuple[str, str]:
    try:
        return parse_key(text)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None

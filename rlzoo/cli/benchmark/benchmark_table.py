"""`rlzoo benchmark table`: print a table of scores, with published ones for comparison."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rlzoo.cli.flags.list_flags import add_rows_flag
from rlzoo.cli.flags.parser import Choice, output_width
from rlzoo.core.errors import UserError, unknown

if TYPE_CHECKING:
    from rlzoo.benchmark.score_table import TableRow
    from rlzoo.benchmark.scores import Score
    from rlzoo.config.benchmark import Row

EPILOG = """\
examples:
  rlzoo benchmark table                       # the published results of rlzoo
  rlzoo benchmark table logs/benchmark --list my_list.yml -o results.md
  rlzoo benchmark table logs --rows ppo:CartPole-v1 a2c:CartPole-v1
  rlzoo benchmark table logs/benchmark --format latex

A row is an algorithm on an environment, over all training seeds. With a list,
rows are in its order and show the required score, and Markdown becomes a page
that names the commands.
"""
SCORES = "benchmarks/learning_scores.json"
LIST = "benchmarks/learning.yml"


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "places",
        nargs="*",
        metavar="PLACE",
        help="files of `rlzoo benchmark score -o`, or folders of scored runs (default: "
        f"{SCORES} of rlzoo, with its list)",
    )
    parser.add_argument("--list", default=None, metavar="LIST", help="benchmark list (YAML)")
    add_rows_flag(parser)
    parser.add_argument(
        "--format",
        type=Choice("format", ("markdown", "text", "short", "csv", "json", "latex")),
        default=None,
        metavar="FORMAT",
        help="markdown, text (aligned columns), short (medians per environment), csv, json or latex (default:"
        " by the suffix of FILE; text in a terminal, else markdown)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=None,
        metavar="FILE",
        help="file to write (default: standard output)",
    )


def run(args: argparse.Namespace) -> int:
    from rlzoo.benchmark.table_formats import FORMATS
    from rlzoo.io.atomic import atomic_write

    if not args.places:
        args.places, args.list = [SCORES], args.list or LIST
    format_name = args.format or _format_of(args.output)
    wanted, rows = read_table(args.places, args.list, args.rows)
    if format_name == "markdown" and wanted is not None:
        from rlzoo.benchmark.results_text import page

        text = page(rows, wanted, args.list, args.places, args.rows)
    else:
        text = FORMATS[format_name](rows)
    if args.output is None:
        print(text)
    else:
        with atomic_write(args.output) as file:
            file.write((text + "\n").encode())
    return 0


def read_table(
    places: list[str], list_path: str | None, keys: list[tuple[str, str]]
) -> tuple[list[Row] | None, list[TableRow]]:
    """Read the scores in files and folders as a table, and print which are missing or left out.

    :param list_path: the benchmark list; None: no list
    :param keys: rows to select; empty: all
    :return: the selected rows of the list (None without a list), and the rows that have scores
    :raises UserError: no row has a score
    """
    from rlzoo.benchmark.score_table import table
    from rlzoo.benchmark.scores import read_scores
    from rlzoo.config.benchmark import choose, experts_of, read_list
    from rlzoo.config.hyperparams import benchmark_file

    listed = read_list(benchmark_file(list_path)) if list_path else None
    wanted = None if listed is None else choose(listed, keys)
    found = _choose(read_scores(map(benchmark_file, places)), keys, wanted)
    rows = table(found, wanted, experts_of(listed or ()))
    if not rows:
        where, of = " ".join(places), " ".join(map(":".join, keys)) or f"a row of {list_path}"
        raise UserError(
            f"none of the scores in {where} is of {of}" if found else f"there are no scores in {where}"
        )
    if wanted is not None:
        others = (row.row.key for row in rows if not row.is_as_listed)
        _say("trained or evaluated differently from the list", others)
    return wanted, rows


def _format_of(output: Path | None) -> str:
    from rlzoo.benchmark.table_formats import SUFFIXES

    if output is None:
        return "markdown" if output_width() is None else "text"
    if output.suffix in SUFFIXES:
        return SUFFIXES[output.suffix]
    raise UserError(f"-o {output}: --format is needed, as its name ends in none of {', '.join(SUFFIXES)}")


def _choose(scores: list[Score], keys: list[tuple[str, str]], rows: list[Row] | None) -> list[Score]:
    """Select scores by key; print which rows have no score, and which scores belong to no row."""
    found = dict.fromkeys(score.key for score in scores)
    if rows is None:
        for key in keys:
            if key not in found:
                raise unknown("row", ":".join(key), map(":".join, found))
        return [score for score in scores if not keys or score.key in keys]
    listed = [row.key for row in rows]
    _say("without a score", (key for key in listed if key not in found))
    if not keys:
        _say("not in the list, and left out", (key for key in found if key not in listed))
    return scores


def _say(what: str, keys: Iterable[tuple[str, str]]) -> None:
    if names := sorted(map(":".join, keys)):
        print(f"rlzoo: {what}: {', '.join(names)}", file=sys.stderr)

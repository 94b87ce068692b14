"""`rlzoo benchmark table`: a table of scores, beside those that others have published."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rlzoo.cli.benchmark.benchmark_flags import add_rows_flag
from rlzoo.cli.flags.parser import OneOf
from rlzoo.core.errors import UserError, unknown

if TYPE_CHECKING:
    from rlzoo.benchmark.score_table import TableRow
    from rlzoo.benchmark.scores import Score
    from rlzoo.config.benchmark import Row

HELP = "make a table of scores"
EPILOG = """\
examples:
  rlzoo benchmark table                                         # the published results of rlzoo
  rlzoo benchmark table logs/benchmark --list benchmarks/learning.yml -o results.md
  rlzoo benchmark table logs --rows ppo:CartPole-v1 a2c:CartPole-v1
  rlzoo benchmark table logs/benchmark --format latex

A row is an algorithm on an environment, over all its training seeds. With a list, its rows are shown in its
order, with what they require, and Markdown becomes a page that names the commands.
"""
SCORES = "benchmarks/learning_scores.json"
LIST = "benchmarks/learning.yml"


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "places",
        nargs="*",
        metavar="PLACE",
        help="files of `rlzoo benchmark score -o`, or folders with runs that it has played (default: "
        f"{SCORES} of rlzoo, with its list)",
    )
    parser.add_argument("--list", default=None, metavar="LIST", help="the YAML file of the benchmark")
    add_rows_flag(parser)
    parser.add_argument(
        "--format",
        type=OneOf("format", ("markdown", "short", "csv", "json", "latex")),
        default=None,
        metavar="FORMAT",
        help="markdown, short (the medians of each environment), csv, json or latex (default: by the name of"
        " FILE; markdown where it is printed)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=None,
        metavar="FILE",
        help="where it goes (default: printed)",
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
    """Read the scores in files and folders as a table, and say which are missing or left out.

    :param list_path: the YAML file of the benchmark; None: there is none
    :param keys: the only rows that are wanted; empty: all
    :return: the wanted rows of the list (None without one), and the rows that have scores
    :raises UserError: there is none
    """
    from rlzoo.benchmark.score_table import table
    from rlzoo.benchmark.scores import read_scores
    from rlzoo.config.benchmark import choose, experts_of, read_list
    from rlzoo.config.shipped import benchmark_file

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
        _say("not trained or not played as the list says", others)
    return wanted, rows


def _format_of(output: Path | None) -> str:
    from rlzoo.benchmark.table_formats import SUFFIXES

    if output is None or output.suffix in SUFFIXES:
        return SUFFIXES[output.suffix] if output else "markdown"
    raise UserError(f"-o {output}: --format is needed, as its name ends in none of {', '.join(SUFFIXES)}")


def _choose(scores: list[Score], keys: list[tuple[str, str]], rows: list[Row] | None) -> list[Score]:
    """The scores of these keys; says which rows have none, and which scores are of no row."""
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

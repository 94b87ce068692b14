"""`rlzoo benchmark table`: a table of scores, beside those that others have published."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rlzoo.cli.benchmark_flags import add_rows_flag
from rlzoo.cli.parser import OneOf
from rlzoo.core.errors import UserError, unknown

if TYPE_CHECKING:
    from rlzoo.config.benchmark import Row
    from rlzoo.report.scores import Score

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
        " FILE, else markdown)",
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
    from rlzoo.config.benchmark import choose, read_list
    from rlzoo.core.atomic import atomic_write
    from rlzoo.report.score_table import table
    from rlzoo.report.scores import read_scores
    from rlzoo.report.table_formats import FORMATS

    if not args.places:
        args.places, args.list = [SCORES], args.list or LIST
    format_name = args.format or _format_of(args.output)
    wanted = choose(read_list(_path(args.list)), args.rows) if args.list else None
    found = _choose(read_scores(map(_path, args.places)), args.rows, wanted)
    rows = table(found, wanted)
    if not rows:
        places = " ".join(args.places)
        raise UserError(
            f"none of the scores in {places} is of a row of {args.list}"
            if found
            else f"there are no scores in {places}"
        )
    if format_name == "markdown" and args.list:
        from rlzoo.report.results_page import page

        text = page(rows, args.list, args.places)
    else:
        text = FORMATS[format_name](rows)
    if args.output is None:
        print(text)
    else:
        with atomic_write(args.output) as file:
            file.write((text + "\n").encode())
    return 0


def _path(place: str) -> Path:
    """A file by its name; the two that come with rlzoo are found from everywhere."""
    from rlzoo.config.shipped import shipped_folder

    path = Path(place)
    if place in (SCORES, LIST) and not path.exists():
        return shipped_folder(path.parent.name) / path.name
    return path


def _format_of(output: Path | None) -> str:
    from rlzoo.report.table_formats import SUFFIXES

    return SUFFIXES.get(output.suffix, "markdown") if output else "markdown"


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

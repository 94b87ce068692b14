"""The table of a benchmark as a page, with an explanation of its columns and the commands to reproduce it."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from rlzoo.benchmark.run_list import expert_command, record_command, training_command
from rlzoo.benchmark.score_table import TableRow
from rlzoo.benchmark.table_formats import markdown
from rlzoo.config.benchmark import FOLDER, Row

WIDTH = 100

EXPLANATIONS = (
    "**each seed**: the mean return (or success rate) of the trainings with seeds 0, 1, ... in this order;"
    " other seeds are given in brackets, and ± after a single value is the standard deviation over its"
    " episodes",
    "**other statistics** are over the seeds: the mean with its 95% bootstrap interval (with three seeds or"
    " fewer, their range), the standard deviation, the interquartile mean (IQM) of four seeds or more, and"
    " the median",
    "**requirement**: applies to the median of the seeds in the list, which is given where other seeds were"
    " added",
    "**training**: wall time in seconds, with or without start-up, median over the seeds whose time is known;"
    " the machine was shared, so it does not measure speed",
    "**reference**: the published result of this algorithm, ± the standard deviation over episodes, with its"
    " version of the environment if that differs",
)
"""What the columns mean."""


def page(
    rows: Sequence[TableRow],
    listed: Sequence[Row],
    list_path: str,
    places: Sequence[str],
    chosen: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the page in Markdown, without a line break at its end.

    :param rows: at least one
    :param listed: all tasks of the list
    :param list_path: the list of the benchmark, as the commands name it
    :param places: the files and folders that the scores are in, likewise
    :param chosen: keys of the tasks that `--rows` selects; empty: all
    """
    folders = [place for place in places if Path(place).is_dir() or not place.endswith(".json")] or [FOLDER]
    files = [place for place in places if place not in folders]
    folder = Path(folders[0])
    there = ["-f", folders[0]] if folders[0] != FOLDER else []
    only = ["--rows", *map(":".join, chosen)] if chosen else []
    commands = [
        ["benchmark", "run", list_path, *only, *there],
        *(["benchmark", "run", list_path, *more, *there] for more in _added_seeds(rows)),
        ["benchmark", "score", *folders, "--list", list_path, *(["-o", files[0]] if len(files) == 1 else [])],
        ["benchmark", "table", *places, "--list", list_path, *only],
    ]
    found = {row.row.key for row in rows}
    without = ", ".join(f"{row.label} {row.env}" for row in listed if row.key not in found)
    trainings = [training_command(row.row, "SEED", folder) for row in rows]
    experts = [row.row for row in rows if row.row.expert]
    recordings = [
        command for row in experts for command in (expert_command(row, folder), record_command(row, folder))
    ]
    notes = "\n".join(
        _filled(f"- {row.row.label} on {row.row.env}: {row.row.note}", "  ") for row in rows if row.row.note
    )
    paragraphs = [
        f"# Results of {list_path}",
        _filled(_playing(rows)),
        "\n".join(_filled(f"- {text}", "  ") for text in EXPLANATIONS),
        markdown(rows),
        *([notes] if notes else []),
        *([_filled(f"In the list, without a score yet: {without}.")] if without else []),
        "Made by",
        _indented(commands),
        "which trains agents by",
        _indented(trainings),
    ]
    if recordings:
        paragraphs += [
            "and experts, with their demonstrations for those that imitate, by",
            _indented(recordings),
        ]
    return "\n\n".join(paragraphs)


def _added_seeds(rows: Iterable[TableRow]) -> list[list[str]]:
    """Return the flags of `rlzoo benchmark run` for seeds that are not in the list."""
    added: dict[tuple[int, ...], list[str]] = {}
    for row in rows:
        if seeds := tuple(seed for seed in row.seeds if seed not in row.row.seeds):
            added.setdefault(seeds, []).append(":".join(row.row.key))
    return [["--rows", *names, "--seeds", *map(str, seeds)] for seeds, names in added.items()]


def _filled(text: str, indent: str = "") -> str:
    """Wrap text to the width of the page, and indent all lines but the first."""
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def _playing(rows: Iterable[TableRow]) -> str:
    """Describe how the agents of all rows were evaluated."""
    scores = [score for row in rows for score in row.scores]
    drawn = sorted({score.env_id for score in scores if not score.deterministic})
    seeds = sorted({score.evaluation_seed for score in scores})
    exception = f" (actions are sampled in {', '.join(drawn)})" if drawn else ""
    return (
        f"Final models, evaluated with deterministic actions{exception} on held-out environment seeds, from "
        f"{' or '.join(f'{seed:,}' for seed in seeds)} on."
    )


def _indented(commands: Iterable[list[str]]) -> str:
    """Return commands of rlzoo as indented lines, each once."""
    lines = (f"    rlzoo {shlex.join(command)}" for command in commands)
    return "\n".join(dict.fromkeys(lines))

"""Tables of scores: Markdown, LaTeX and aligned text for readers, CSV and JSON for programs."""

from __future__ import annotations

import csv
import io
import json
import shutil
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rlzoo.benchmark.score_table import TableRow
from rlzoo.io.csv_cells import cell
from rlzoo.metrics.short_count import short_count
from rlzoo.plots.aggregates import MIDDLE_HALF, Interval
from rlzoo.plots.tables import escape_markdown, latex_table, markdown_table

NOTHING = "-"
MISSED = "missed"


@dataclass(frozen=True)
class Column:
    """One column of a table for readers.

    :param least_seeds: the column is left out if no row has this many seeds
    """

    heading: str
    cell: Callable[[TableRow], str]
    is_number: bool = True
    least_seeds: int = 1


def markdown(rows: Sequence[TableRow]) -> str:
    """Format rows as a Markdown table, without a line break at its end."""
    return markdown_table(*_parts(rows)).replace(MISSED, f"**{MISSED}**")


def short(rows: Sequence[TableRow]) -> str:
    """Format rows as a Markdown table with a line per environment: medians over the seeds, best first.

    The number of seeds is given where it differs from that of most rows.
    """
    usual = statistics.mode(len(row.seeds) for row in rows)
    by_env: dict[str, list[TableRow]] = {}
    for row in rows:
        by_env.setdefault(_environment(row), []).append(row)
    seeds = f"median of {usual} seeds unless said" if usual > 1 else "one seed unless said"
    lines = [f"| environment | algorithm, {seeds} (steps of the training) |", "|---|---|"]
    for env, found in by_env.items():
        best_first = sorted(found, key=lambda row: -row.aggregate.median)
        cells = [
            f"{row.row.label} {number(row, row.aggregate.median)} ({', '.join(_remarks(row, usual))})"
            for row in best_first
        ]
        lines.append(f"| {escape_markdown(env)} | {', '.join(cells)} |")
    return "\n".join(lines)


def _remarks(row: TableRow, usual: int) -> list[str]:
    """Return training steps, the number of seeds if it is unusual, and a missed requirement."""
    n = len(row.seeds)
    seeds = [] if n == usual else [f"{n} seed{'s' * (n != 1)}"]
    verdict = [f"**{MISSED}** {_required(row)}{_listed_median(row)}"] if row.reached is False else []
    return [short_count(row.n_timesteps), *seeds, *verdict]


def latex(rows: Sequence[TableRow]) -> str:
    r"""Format rows as a LaTeX tabular with booktabs, without a line break at its end."""
    return latex_table(*_parts(rows)).replace(MISSED, rf"\textbf{{{MISSED}}}")


def to_json(rows: Sequence[TableRow]) -> str:
    """Format rows as a JSON list with an object per row."""
    return json.dumps([record(row) for row in rows], indent=1, allow_nan=False)


def to_csv(rows: Sequence[TableRow]) -> str:
    """Format rows as CSV, lists separated by spaces, without a line break at its end."""
    records = [record(row) for row in rows]
    file = io.StringIO()
    writer = csv.DictWriter(file, list(records[0]), lineterminator="\n")
    writer.writeheader()
    for values in records:
        joined = {k: " ".join(map(str, v)) if isinstance(v, list) else v for k, v in values.items()}
        writer.writerow({key: cell(value) for key, value in joined.items()})
    return file.getvalue().rstrip("\n")


def text(rows: Sequence[TableRow], width: int | None = None) -> str:
    """Format a table with aligned columns for a terminal; columns that do not fit are left out.

    :param width: characters in a line; None: those of the terminal, at least 80
    """
    width = max(80, shutil.get_terminal_size().columns) if width is None else width
    lines = [""] * (len(rows) + 1)
    for column in (*FIRST_COLUMNS, *(other for other in COLUMNS if other.heading not in _FIRST_HEADINGS)):
        cells = [column.heading, *(column.cell(row) for row in rows)]
        if column.least_seeds > max(len(row.seeds) for row in rows) or not any(cells[1:]):
            continue
        longest = max(map(len, cells))
        if len(lines[0]) + 2 + longest <= width:
            align = str.rjust if column.is_number else str.ljust
            gap = "  " if lines[0] else ""
            lines = [line + gap + align(cell, longest) for line, cell in zip(lines, cells, strict=True)]
    return "\n".join(line.rstrip() for line in lines)


FORMATS = {
    "markdown": markdown,
    "text": text,
    "short": short,
    "csv": to_csv,
    "json": to_json,
    "latex": latex,
}
SUFFIXES = {".md": "markdown", ".txt": "markdown", ".csv": "csv", ".json": "json", ".tex": "latex"}


def record(row: TableRow) -> dict[str, object]:
    """Return the values of a row for programs; unknown values are None."""
    over_seeds, known = row.aggregate, row.reference
    mean_low, mean_high = over_seeds.mean_interval or (None, None)
    iqm_low, iqm_high = over_seeds.iqm_interval or (None, None)
    return {
        "algo": row.row.algo,
        "name": row.row.name,
        "env_id": row.row.env,
        "measure": row.row.measure,
        "n_timesteps": row.n_timesteps,
        "training_seconds": row.training_seconds,
        "episodes": row.episodes,
        "seeds": row.seeds,
        "means": row.means,
        "stds": row.stds,
        "mean": over_seeds.mean,
        "mean_low": mean_low,
        "mean_high": mean_high,
        "std": over_seeds.std,
        "median": over_seeds.median,
        "iqm": over_seeds.iqm,
        "iqm_low": iqm_low,
        "iqm_high": iqm_high,
        "reference_mean": known and known.mean,
        "reference_std": known and known.std,
        "reference_n_timesteps": known and known.n_timesteps,
        "reference_env_id": known and known.env_id,
        "reference_source": known and known.source,
        "required": row.row.required,
        "below": row.row.below,
        "median_of_listed_seeds": row.median_of_listed_seeds,
        "reached": row.reached,
    }


def columns_of(rows: Sequence[TableRow]) -> list[Column]:
    """Return the columns that are not empty for these rows."""
    most = max(len(row.seeds) for row in rows)
    return [
        column
        for column in COLUMNS
        if column.least_seeds <= most and any(column.cell(row) not in ("", NOTHING) for row in rows)
    ]


def _parts(rows: Sequence[TableRow]) -> tuple[list[str], list[list[str]], list[bool]]:
    """Return headings, cells, and which columns hold numbers."""
    columns = columns_of(rows)
    return (
        [column.heading for column in columns],
        cells_of(rows, columns),
        [column.is_number for column in columns],
    )


def cells_of(rows: Iterable[TableRow], columns: Iterable[Column]) -> list[list[str]]:
    """Return the cells of each row as text."""
    return [[column.cell(row) for column in columns] for row in rows]


def number(row: TableRow, value: float | None) -> str:
    """Format a value with one decimal, or two if the row's values are small."""
    if value is None:
        return NOTHING
    digits = 1 if abs(row.aggregate.median) >= 10 else 2
    return f"{round(value, digits) + 0.0:.{digits}f}"  # + 0.0: no "-0.00"


def _with_interval(row: TableRow, value: float, interval: Interval | None) -> str:
    if interval is None:
        return number(row, value)
    low, high = interval
    return f"{number(row, value)} [{number(row, low)}, {number(row, high)}]"


def _environment(row: TableRow) -> str:
    return row.row.env + (", success" if row.row.measure == "success" else "")


def _each_seed(row: TableRow) -> str:
    """Return the mean of each seed; seeds other than 0, 1, 2, ... in this order are given in brackets."""
    means = [number(row, mean) for mean in row.means]
    if len(means) == 1:
        means = [f"{means[0]} ± {number(row, row.stds[0])}"]
    named = enumerate(zip(means, row.seeds, strict=True))
    return ", ".join(mean if seed == place else f"{mean} ({seed})" for place, (mean, seed) in named)


def _interquartile_mean(row: TableRow) -> str:
    if len(row.seeds) < MIDDLE_HALF:
        return NOTHING
    return _with_interval(row, row.aggregate.iqm, row.aggregate.iqm_interval)


def _reference(row: TableRow) -> str:
    known = row.reference
    if known is None:
        return NOTHING
    where = [known.source]
    if known.env_id != row.row.env:
        where.append(known.env_id)
    if known.n_timesteps is not None:
        where.append(f"{known.n_timesteps:,} steps")
    return f"{number(row, known.mean)} ± {number(row, known.std)} ({', '.join(where)})"


def _required(row: TableRow) -> str:
    if row.row.required is not None:
        return f"{row.row.required:g}"
    return NOTHING if row.row.below is None else f"below {row.row.below:g}"


def _verdict(row: TableRow) -> str:
    if _required(row) == NOTHING:
        return ""
    if row.n_missing:
        return f"{len(row.row.seeds) - row.n_missing} of {len(row.row.seeds)} seeds"
    if not row.is_as_listed:
        return "otherwise trained or played"
    return ("reached" if row.reached else MISSED) + _listed_median(row)


def _is_met(row: TableRow) -> str:
    if _required(row) == NOTHING or row.reached is None:
        return ""
    return "yes" if row.reached else "no"


def _listed_median(row: TableRow) -> str:
    """Return the median that is compared with the requirement, if it is not that of all seeds."""
    median, seeds = row.median_of_listed_seeds, row.row.seeds
    if median is None or set(row.seeds) <= set(seeds):
        return ""
    return f" with {number(row, median)} on seeds {', '.join(map(str, seeds))}"


def _seconds(row: TableRow) -> str:
    return NOTHING if row.training_seconds is None else f"{row.training_seconds:,.0f} s"


MEAN = Column(
    "mean [95%]",
    lambda row: _with_interval(row, row.aggregate.mean, row.aggregate.mean_interval),
    least_seeds=2,
)
COLUMNS = (
    Column("algorithm", lambda row: row.row.label, is_number=False),
    Column("environment", _environment, is_number=False),
    Column("steps", lambda row: f"{row.n_timesteps:,}"),
    Column("training", _seconds),
    Column("episodes", lambda row: f"{row.episodes:,}"),
    Column("each seed", _each_seed, is_number=False),
    MEAN,
    Column("std", lambda row: number(row, row.aggregate.std), least_seeds=2),
    Column("IQM [95%]", _interquartile_mean, least_seeds=MIDDLE_HALF),
    Column("median", lambda row: number(row, row.aggregate.median), least_seeds=2),
    Column("required", _required),
    Column("", _verdict, is_number=False),
    Column("reference", _reference, is_number=False),
)
FIRST_COLUMNS = (
    Column("algorithm", lambda row: row.row.label, is_number=False),
    Column("environment", _environment, is_number=False),
    Column("steps", lambda row: short_count(row.n_timesteps)),
    Column("seeds", lambda row: str(len(row.seeds))),
    Column("median", lambda row: number(row, row.aggregate.median)),
    Column("required", lambda row: _required(row).replace("below ", "<")),
    Column("met", _is_met, is_number=False),
    MEAN,
)
"""Columns of the text format, before those of `COLUMNS` that fit too."""
_FIRST_HEADINGS = {column.heading for column in FIRST_COLUMNS}

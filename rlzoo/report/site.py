"""`rlzoo benchmark page`: the results of a benchmark as a static site.

    <site>/index.html               the table, and aggregate figures for each suite
    <site>/rows/<label>-<env>.html  a row: its curve, video, hyperparameters, commands and trainings
    <site>/style.css, sort.js

Everything a page shows is a file beside it, so it works from a disk and sends no request anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

import rlzoo
from rlzoo.config.run import PlayConfig, VideoConfig
from rlzoo.core.atomic import atomic_write
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.core.system_info import utc_now
from rlzoo.report.site_figures import learning_curve, suite_figures
from rlzoo.report.site_rows import SiteRow
from rlzoo.report.table_formats import cells_of, columns_of

TEMPLATES = Path(__file__).with_name("site_templates")
STATIC = ("style.css", "sort.js")
ONLY_ON_ROWS = ("each seed", "std", "IQM [95%]", "training", "episodes")
"""Columns of the table of results that only the page of a row shows."""
VERDICT = ""
"""Heading of the column that says whether a requirement is reached, and with which seeds."""
VIDEO_STEPS = 500

EXPLANATION = (
    "Mean returns (or shares of successes) of final agents, in environments that training never used: the"
    " mean over the training seeds with its 95% bootstrap interval, and their median. References are what"
    " others have published."
)


@dataclass(frozen=True)
class SiteOptions:
    """How a site is made."""

    title: str
    videos: bool = True
    video_steps: int = VIDEO_STEPS


def write_site(
    rows: Sequence[SiteRow], folder: Path, options: SiteOptions, on_row: Callable[[str], None] = print
) -> Path:
    """Write the site, and return its first page. Files of another site of the same rows are replaced.

    :param rows: at least one
    :param on_row: is told of each page, and of each video that could not be recorded
    :raises RunFailed: the folder cannot be written
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    shared = {"title": options.title, "version": rlzoo.__version__, "date": utc_now().partition("T")[0]}
    try:
        (folder / "rows").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}") from None
    for row in rows:
        video = _video(row, folder, options, on_row) if options.videos else ""
        text = environment.get_template("row.html").render(
            row=_row(row, folder, video, options), top="../", **shared
        )
        _write(folder / "rows" / f"{row.slug}.html", text)
    for name in STATIC:
        _write(folder / name, (TEMPLATES / name).read_text(encoding="utf-8"))
    index = environment.get_template("index.html").render(
        explanation=EXPLANATION,
        headings=_headings(rows),
        rows=[{"cells": cells} for cells in _cells(rows)],
        suites=list(_suites(rows, folder)),
        top="",
        **shared,
    )
    _write(folder / "index.html", index)
    return folder / "index.html"


def _row(row: SiteRow, folder: Path, video: str, options: SiteOptions) -> dict[str, Any]:
    curve, caption = learning_curve(row, folder / "rows")
    shown = row.shown
    return {
        "label": row.row.label,
        "env": row.row.env,
        "suite": row.suite,
        "note": row.row.note,
        "facts": row.facts(),
        "curve": curve,
        "curve_caption": caption,
        "video": video,
        "video_caption": f"The agent of training seed {shown[0].seed}, {options.video_steps:,} steps."
        if shown
        else "",
        "seeds": row.seeds(),
        "hyperparams": row.hyperparams(),
        "command": row.command(),
    }


def _video(row: SiteRow, folder: Path, options: SiteOptions, on_row: Callable[[str], None]) -> str:
    """Record the best agent of a row; returns the file's name, "" where that is not possible."""
    from rlzoo.experiment.record_video import record

    if row.shown is None:
        return ""
    score, run = row.shown
    path = folder / "rows" / f"{row.slug}.mp4"
    root, number = run.parents[1], int(run.name.rpartition("_")[2])
    play = PlayConfig(
        algo=score.algo,
        env_id=score.env_id,
        folder=str(root),
        exp_id=number,
        n_timesteps=options.video_steps,
        seed=score.evaluation_seed,
        num_threads=1,
        verbose=0,
    )
    on_row(f"recording {row.row.label} on {row.row.env}")
    try:
        record(VideoConfig(play=play, output=str(path)))
    except (UserError, RunFailed) as error:
        on_row(f"no video of {row.row.label} on {row.row.env}: {error}")
        return ""
    return path.name


def _headings(rows: Sequence[SiteRow]) -> list[dict[str, Any]]:
    columns = [
        column for column in columns_of([row.table for row in rows]) if column.heading not in ONLY_ON_ROWS
    ]
    headings = [{"text": column.heading or "verdict", "is_number": column.is_number} for column in columns]
    return [*headings, {"text": "suite", "is_number": False}]


def _cells(rows: Sequence[SiteRow]) -> Iterator[list[dict[str, Any]]]:
    columns = [
        column for column in columns_of([row.table for row in rows]) if column.heading not in ONLY_ON_ROWS
    ]
    for row, texts in zip(rows, cells_of([row.table for row in rows], columns), strict=True):
        cells = [
            {
                "text": text.partition(" with ")[0] if column.heading == VERDICT else text,
                "is_number": column.is_number,
                "link": f"rows/{row.slug}.html" if column.heading == "environment" else "",
            }
            for text, column in zip(texts, columns, strict=True)
        ]
        yield [*cells, {"text": row.suite, "is_number": False, "link": ""}]


def _suites(rows: Sequence[SiteRow], folder: Path) -> Iterator[dict[str, Any]]:
    """The suites in which several environments and labels can be compared, with their figures."""
    for name in dict.fromkeys(row.suite for row in rows):
        own = [row for row in rows if row.suite == name]
        if figures := suite_figures(own, name, folder):
            yield {"name": name, **figures}


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text.encode())

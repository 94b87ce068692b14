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
from rlzoo.benchmark.site.site_figures import learning_curve, suite_figures
from rlzoo.benchmark.site.site_rows import SiteRow
from rlzoo.benchmark.table_formats import cells_of, columns_of
from rlzoo.config.run import PlayConfig, VideoConfig
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.core.runtime import utc_now
from rlzoo.io.atomic import atomic_write, check_writable
from rlzoo.plots.style import write_files

TEMPLATES = Path(__file__).with_name("site_templates")
STATIC = ("style.css", "sort.js")
ONLY_ON_ROWS = ("each seed", "std", "IQM [95%]", "training", "episodes")
"""Columns of the table of results that only the page of a row shows."""
VERDICT = ""
"""Heading of the column that says whether a requirement is reached, and with which seeds."""
VIDEO_STEPS = 500
MADE_BY = "Made by rlzoo "
"""What a page of ours is known by."""

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
    """Write the site, and return its first page. An older site is replaced, with the pages of its other rows.

    Everything that can be wrong with the runs is found before the first file is written.

    :param rows: at least one
    :param on_row: called after each video, and after each that could not be recorded
    :raises UserError: the folder cannot be written, or a file of a run is damaged
    :raises RunFailed: the folder cannot be written
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    shared = {"title": options.title, "version": rlzoo.__version__, "date": utc_now().partition("T")[0]}
    check_writable(folder / "index.html")
    figures: dict[str, bytes] = {}  # by their place in the site
    contents = [_row(row, options, figures) for row in rows]
    suites = list(_suites(rows, figures, on_row))
    _remove_old_pages(folder / "rows", {row.slug for row in rows})
    write_files({folder / place: content for place, content in figures.items()})
    for row, content in zip(rows, contents, strict=True):
        video = _video(row, folder, options, on_row) if options.videos else ""
        text = environment.get_template("row.html").render(
            row={**content, "video": video}, top="../", **shared
        )
        _write(folder / "rows" / f"{row.slug}.html", text)
    for name in STATIC:
        _write(folder / name, (TEMPLATES / name).read_text(encoding="utf-8"))
    index = environment.get_template("index.html").render(
        explanation=EXPLANATION,
        headings=_headings(rows),
        rows=[{"cells": cells} for cells in _cells(rows)],
        suites=suites,
        top="",
        **shared,
    )
    _write(folder / "index.html", index)
    return folder / "index.html"


def _row(row: SiteRow, options: SiteOptions, figures: dict[str, bytes]) -> dict[str, Any]:
    """Return what the page of a row shows, but for its video; its learning curve is added to `figures`."""
    curve, caption = learning_curve(row)
    if curve:
        figures[f"rows/{row.slug}.svg"] = curve
    shown = row.shown
    return {
        "label": row.row.label,
        "env": row.row.env,
        "suite": row.suite,
        "note": row.row.note,
        "facts": row.facts(),
        "curve": f"{row.slug}.svg" if curve else "",
        "has_agent": shown is not None,
        "curve_caption": caption,
        "video_caption": f"The agent of training seed {shown[0].seed}, {options.video_steps:,} steps."
        if shown
        else "",
        "seeds": row.seeds(),
        "hyperparams": row.hyperparams(),
        "command": row.command(),
    }


def _video(row: SiteRow, folder: Path, options: SiteOptions, on_row: Callable[[str], None]) -> str:
    """Record the best agent of a row; returns the file's name, "" where that is not possible."""
    from rlzoo.envs.single_env.registration import import_packages_of
    from rlzoo.playback.video_recording import record
    from rlzoo.runs.run_folder import read_run

    if row.shown is None:
        return ""
    score, run = row.shown
    path = folder / "rows" / f"{row.slug}.mp4"
    run, number = run.absolute(), run.name.rpartition("_")[2]
    if not number.isdecimal():
        on_row(f"no video of {row.row.label} on {row.row.env}: {run} is not called ENV_NUMBER")
        return ""
    play = PlayConfig(
        algo=score.algo,
        env_id=score.env_id,
        folder=str(run.parents[1]),
        exp_id=int(number),
        n_timesteps=options.video_steps,
        seed=score.evaluation_seed,
        num_threads=1,
        verbose=0,
    )
    on_row(f"recording {row.row.label} on {row.row.env}")
    try:
        import_packages_of(str(run), read_run(run).gym_packages, score.env_id)
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


def _suites(
    rows: Sequence[SiteRow], figures: dict[str, bytes], on_row: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Return the suites in which several environments and labels can be compared; their figures are added."""
    for name in dict.fromkeys(row.suite for row in rows):
        of_suite = [row for row in rows if row.suite == name]
        try:
            shown = suite_figures(of_suite, name, figures)
        except UserError as error:  # scores that are all equal
            on_row(f"no figures of {name}: {str(error).partition(':')[0]}")
            continue
        if shown:
            yield {"name": name, **shown}


def _remove_old_pages(folder: Path, slugs: set[str]) -> None:
    """Remove what an older site shows of rows that this one has not."""
    for page in folder.glob("*.html"):
        if page.stem not in slugs and MADE_BY in page.read_text(encoding="utf-8", errors="replace"):
            for suffix in (".html", ".svg", ".mp4"):
                page.with_suffix(suffix).unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text.encode())

"""Flags that the commands `rlzoo plot ...` share, and the files they write."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rlzoo.cli.flags.parser import Choice, IntInRange
from rlzoo.core.errors import UserError, unknown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
TEXTS = ("json", "md", "pkl", "tex")


def add_runs_flags(parser: argparse.ArgumentParser) -> None:
    """Add `-a` and `-e`, which select runs."""
    parser.add_argument(
        "-a",
        "--algo",
        "--algos",
        dest="algos",
        nargs="+",
        default=[],
        metavar="ALGO",
        help="algorithms or names of variants (default: all)",
    )
    parser.add_argument(
        "-e",
        "--env",
        "--envs",
        dest="envs",
        nargs="+",
        default=[],
        metavar="ENV",
        help="environment ids or parts of ids (default: all)",
    )


def add_steps_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--max-timesteps` and `--no-million`."""
    parser.add_argument(
        "-max",
        "--max-timesteps",
        type=IntInRange(1),
        default=None,
        metavar="STEPS",
        help="only steps up to this one",
    )
    add_million_flag(parser)


def add_million_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--no-million`."""
    parser.add_argument(
        "--no-million",
        dest="plain_steps",
        action="store_true",
        help="label steps without k and M",
    )


def add_confidence_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--ci-size`."""
    parser.add_argument(
        "-ci",
        "--ci-size",
        dest="confidence",
        type=_confidence,
        default=0.95,
        metavar="SHARE",
        help="confidence level of the intervals (default: 0.95)",
    )


def add_figure_flags(parser: argparse.ArgumentParser, output: str) -> None:
    """Add the files, the format and the style of figures.

    :param output: help of `-o`
    """
    figure = parser.add_argument_group("output")
    figure.add_argument("-o", "--output", default=None, metavar="PLACE", help=output)
    figure.add_argument(
        "--format",
        type=Choice("format", FORMATS),
        default=None,
        metavar="|".join(FORMATS),
        help="image format (default: png)",
    )
    figure.add_argument(
        "--figsize",
        type=float,
        nargs=2,
        default=None,
        metavar=("WIDTH", "HEIGHT"),
        help="inches (default: one column of a paper per panel)",
    )
    figure.add_argument(
        "--fontsize", type=float, default=8.0, metavar="POINTS", help="font size (default: 8)"
    )
    figure.add_argument("--show", action="store_true", help="also show the figure in a window")
    figure.add_argument("--no-display", action="store_false", dest="show", help="no window (default)")


def stem_and_format(output: str | None, default: Path, kind: str | None) -> tuple[Path, str]:
    """Return the path of the files without suffix, and the image format.

    :param output: value of `-o`: a folder (one that exists, or with a slash at its end), or a file with or
        without a known suffix
    :param kind: value of `--format`
    :raises UserError: `-o` and `--format` contradict each other
    """
    if output is None:
        return default, kind or "png"
    place = Path(output)
    if output.endswith(("/", os.sep)) or place.is_dir():
        return place / default.name, kind or "png"
    suffix = place.suffix.lower().removeprefix(".")
    if suffix in FORMATS:
        if kind not in (None, suffix):
            raise UserError(f"-o {output} and --format {kind} contradict each other")
        return place.with_suffix(""), suffix
    if suffix in ("jpg", "jpeg", "gif", "eps", "ps", "tif", "tiff", "webp"):
        raise unknown("format of pictures", suffix, FORMATS)
    return (place.with_suffix("") if suffix in TEXTS else place), kind or "png"


def with_ending(stem: Path, ending: str) -> Path:
    """Append an ending to the name of a path, which may contain dots."""
    return stem.with_name(stem.name + ending)


def check_show(wanted: bool) -> None:
    """Raise if `--show` is not possible, before any work is done."""
    if wanted:
        from rlzoo.plots.style import require_window

        require_window()


def write_and_show(
    texts: dict[Path, str], figures: dict[Path, Figure], kind: str, show_windows: bool
) -> None:
    """Render all files, write them, print their paths, and open windows if `show_windows`.

    :param figures: by their file
    """
    from rlzoo.io.atomic import check_writable
    from rlzoo.plots.style import rendered, show, write_files

    contents = {path: rendered(figure, kind) for path, figure in figures.items()}
    contents |= {path: text.encode() for path, text in texts.items()}
    for path in contents:
        check_writable(path)
    write_files(contents)
    _say(contents)
    if show_windows:
        show(figures.values())


def _say(paths: Iterable[Path]) -> None:
    for path in paths:
        print(f"wrote {path}")


def _confidence(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1, such as 0.95, not {text!r}")
    return share

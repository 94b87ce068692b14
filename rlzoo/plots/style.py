"""How figures look: sizes, colours, fonts, legends; and how they become files.

Figures are matplotlib's `Figure`, without pyplot: nothing global changes, and no display is needed.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlzoo.core.errors import UserError, one_line
from rlzoo.io.atomic import atomic_write

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN_WIDTH = 3.4  # inches, of one column of a paper
PANEL_HEIGHT = 2.3
FONT_SIZE = 8.0  # points
DPI = 200
FORMATS = ("png", "svg", "pdf")
LONGEST_NAME = 30  # characters
LARGEST_FIGURE = 100.0  # inches

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Colours that people with any colour vision tell apart: Okabe and Ito (2008), "Color Universal Design",
without the yellow, which is too bright for lines on white."""
LINES = ("-", "--", ":", "-.")
"""After the last colour they begin again with another kind of line."""
GREY = "#555555"
_NO_DATE = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


def looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return colour and kind of line of each name, by its place."""
    return {
        name: {
            "color": PALETTE[place % len(PALETTE)],
            "linestyle": LINES[place // len(PALETTE) % len(LINES)],
        }
        for place, name in enumerate(names)
    }


def panels(
    n: int,
    figsize: Sequence[float] | None = None,
    fontsize: float = FONT_SIZE,
    height: float = PANEL_HEIGHT,
    n_columns: int | None = None,
) -> tuple[Figure, list[Axes]]:
    """Make a figure with n panels, two or three beside each other, each as wide as a column of a paper.

    :param figsize: width and height in inches; None: chosen by the number of panels
    :param height: of a panel, in inches
    :raises UserError: the size is not one of a figure
    """
    import matplotlib
    from matplotlib.figure import Figure

    columns = n_columns or (n if n < 3 else 2 if n == 4 else 3)
    rows = math.ceil(n / columns)
    width = (
        COLUMN_WIDTH if n_columns or columns == 1 else columns * COLUMN_WIDTH * (1 if columns == 2 else 0.8)
    )
    size = tuple(map(float, figsize or (width, rows * height + 0.35)))
    if len(size) != 2 or not all(0.5 <= length <= LARGEST_FIGURE for length in size):
        raise UserError(f"a figure is from 0.5 to {LARGEST_FIGURE:g} inches wide and high, not {size}")
    if not 1 <= fontsize <= 100:
        raise UserError(f"a font size is from 1 to 100 points, not {fontsize:g}")
    with matplotlib.rc_context({"font.size": fontsize, "axes.linewidth": 0.6, "mathtext.default": "regular"}):
        figure = Figure(figsize=size, layout="constrained")
        found = [figure.add_subplot(rows, columns, place + 1) for place in range(n)]
        for axes in found:
            axes.tick_params(labelsize=fontsize * 0.9, width=0.6, length=2.5)
            axes.grid(True, color="#DDDDDD", linewidth=0.5)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
    return figure, found


def describe(axes: Axes, x: str, y: str, title: str = "", fontsize: float = FONT_SIZE) -> None:
    """Set the labels of both axes and the title."""
    axes.set_xlabel(x, fontsize=fontsize)
    axes.set_ylabel(y, fontsize=fontsize)
    axes.set_title(shown(title), fontsize=fontsize * 1.1)


def legend_below(figure: Figure, handles: Sequence[Artist], fontsize: float, grow: bool) -> None:
    """Put one legend for all panels below them, in as many columns as fit.

    :param grow: make the figure higher for it, so that the panels stay as they are
    """
    if not handles:
        return
    widths = [(len(str(handle.get_label())) * 0.56 + 4) * fontsize / 72 for handle in handles]  # inches
    for columns in range(len(handles), 0, -1):
        rows = math.ceil(len(handles) / columns)
        width = sum(max(widths[first : first + rows]) for first in range(0, len(widths), rows))
        if width <= figure.get_figwidth():
            break
    if grow:
        figure.set_figheight(figure.get_figheight() + (rows - 1) * fontsize * 1.6 / 72)
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=columns,
        fontsize=fontsize,
        frameon=False,
        handlelength=1.8,
        columnspacing=1.4,
    )


def steps_axis(axes: Axes, largest: float, what: str = "environment steps", plain: bool = False) -> str:
    """Let the x axis count thousands or millions of steps where there are so many; return its label."""
    divisor, unit = 1.0, ""
    if not plain and largest >= 1e4:
        divisor, unit = (1e6, " (millions)") if largest >= 1e6 else (1e3, " (thousands)")
    if divisor == 1 and largest >= 1e4:
        axes.locator_params(axis="x", nbins=4)  # the numbers are long
    pattern = "{:g}" if divisor > 1 else "{:,.0f}"
    axes.xaxis.set_major_formatter(lambda value, _: pattern.format(round(value / divisor, 9)))
    return what + unit


def note(figure: Figure, text: str, fontsize: float = FONT_SIZE) -> None:
    """Put a small line above everything: what the values are."""
    width = int(figure.get_figwidth() * 72 / (fontsize * 0.85 * 0.58))
    figure.suptitle(textwrap.fill(shown(text, 300), width), fontsize=fontsize * 0.85, color=GREY)


def shown(text: str, longest: int = LONGEST_NAME) -> str:
    """Return a name as it can be drawn: without the middle of a long one, and no formula."""
    text, end = one_line(text), longest // 3
    cut = text if len(text) <= longest else f"{text[: longest - end - 1]}…{text[-end:]}"
    return cut.replace("$", r"\$")


def rendered(figure: Figure, kind: str) -> bytes:
    """Return a figure as a file: png, svg or pdf; the same bytes each time.

    :raises UserError: another kind
    """
    import matplotlib

    if kind not in FORMATS:
        raise UserError(f"figures are {', '.join(FORMATS)}, not {kind!r}")
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "rlzoo", "pdf.fonttype": 42}):
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=_NO_DATE[kind])
    return buffer.getvalue()


def write_files(contents: dict[Path, bytes]) -> None:
    """Write files, each whole or not at all."""
    for path, content in contents.items():
        with atomic_write(path, len(content)) as file:
            file.write(content)


def require_window() -> None:
    """Check that windows can be opened.

    :raises UserError: there is no display
    """
    from matplotlib import pyplot

    try:
        figure = pyplot.figure()
    except ImportError as error:  # MPLBACKEND names a toolkit that cannot be used
        raise UserError(f"--show: {error}") from None
    framework = figure.canvas.required_interactive_framework
    pyplot.close(figure)
    if framework is None:
        raise UserError("--show needs a display and a toolkit such as tkinter; without it a file is written")


def show(figures: Iterable[Figure]) -> None:
    """Open a window for each figure, and wait until they are closed."""
    from matplotlib import pyplot

    for figure in figures:
        manager = pyplot.figure(figsize=figure.get_size_inches()).canvas.manager
        assert manager is not None
        manager.canvas.figure = figure
        figure.set_canvas(manager.canvas)
    pyplot.show()

"""Figures as PNG images, drawn by matplotlib."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rlzoo.tuning.report.figures import Axis, Figure, Panel, Parallel, Series
from rlzoo.tuning.report.plotly_figures import INK, LINE, SHADES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

DPI = 130
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#eceff2",
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}


def png(figure: Figure) -> bytes:
    """Draw a figure without a window and without the state of pyplot."""
    import matplotlib
    from matplotlib.figure import Figure as Picture

    with matplotlib.rc_context(STYLE):
        n = max(len(figure.panels), 1)
        columns = min(n, 3 if n > 4 else 2)
        rows = math.ceil(n / columns)
        size = (8.0, 4.2) if n == 1 else (3.9 * columns, 2.9 * rows + 0.4)
        tall = max((len(panel.y.names) for panel in figure.panels), default=0)
        picture = Picture(figsize=(size[0], max(size[1], 1.2 + 0.28 * tall * rows)), layout="constrained")
        if figure.parallel:
            _parallel(picture.subplots(), figure.parallel)
        else:
            axes = picture.subplots(rows, columns, squeeze=False).ravel()
            for axis, panel in zip(axes, figure.panels, strict=False):
                _panel(axis, panel)
            for axis in axes[len(figure.panels) :]:
                axis.set_visible(False)
        picture.suptitle(figure.title, fontsize=11)
        file = io.BytesIO()
        picture.savefig(file, format="png", dpi=DPI)
        return file.getvalue()


def _panel(axes: Axes, panel: Panel) -> None:
    for series in panel.series:
        _draw(axes, series)
    for name, axis in (("x", panel.x), ("y", panel.y)):
        _set_axis(axes, name, axis)
    if sum(bool(series.label) for series in panel.series) > 1:
        axes.legend(fontsize=8)


def _set_axis(axes: Axes, which: str, axis: Axis) -> None:
    settings: dict[str, object] = {f"{which}label": _plain(axis.title)}
    if axis.log:
        axes.set(**{f"{which}scale": "log"})
    if axis.ticks and not axis.names:
        low, high = getattr(axes, f"get_{which}lim")()
        shown = [(place, label) for place, label in axis.ticks if low <= place <= high] or list(axis.ticks)
        settings[f"{which}ticks"] = [place for place, _ in shown]
        settings[f"{which}ticklabels"] = [label for _, label in shown]
        if axis.log:
            getattr(axes, f"{which}axis").set_minor_formatter("")
    if axis.names:
        settings[f"{which}ticks"] = range(len(axis.names))
        settings[f"{which}ticklabels"] = [_plain(name[:24]) for name in axis.names]
        settings[f"{which}lim"] = (-0.6, len(axis.names) - 0.4)
        if which == "x" and sum(map(len, axis.names)) > 36:
            axes.tick_params(axis="x", rotation=60)
    if axis.range:
        settings[f"{which}lim"] = axis.range
    axes.set(**settings)
    if axis.reversed:
        getattr(axes, f"invert_{which}axis")()


def _plain(text: str) -> str:
    """Escape dollar signs, which would start a formula."""
    return text.replace("$", r"\$")


def _draw(axes: Axes, series: Series) -> None:
    if series.kind == "bars":
        axes.barh(series.y, series.x, color=series.color, height=0.7)
        axes.grid(axis="y", visible=False)
    elif series.kind == "spans":
        lengths = np.subtract(series.ends, series.x)
        axes.barh(
            series.y,
            lengths,
            left=series.x,
            color=series.color,
            height=0.7,
            label=series.label,
            edgecolor="w",
        )
        axes.grid(axis="y", visible=False)
    elif series.kind == "points":
        axes.scatter(
            series.x,
            series.y,
            s=series.width**2 * 0.6,
            label=series.label,
            edgecolors="w",
            linewidths=0.4,
            c=series.shades or series.color,
            cmap=_shades() if series.shades else None,
        )
    else:
        style = "steps-post" if series.kind == "steps" else "default"
        alpha = 1.0 if series.width > 1 else 0.5
        axes.plot(
            series.x,
            series.y,
            color=series.color,
            linewidth=series.width,
            drawstyle=style,
            label=series.label,
            alpha=alpha,
        )


def _shades() -> Colormap:
    """Return the colours of low to high values."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("returns", SHADES)


def _parallel(axes: Axes, parallel: Parallel) -> None:
    from matplotlib.collections import LineCollection

    columns = []
    for place, dimension in enumerate(parallel.dimensions):
        low = min(*dimension.positions, *dimension.ticks)
        high = max(*dimension.positions, *dimension.ticks)
        scale = (high - low) or 1.0
        columns.append([(position - low) / scale if high > low else 0.5 for position in dimension.positions])
        axes.axvline(place, color=LINE, linewidth=1)
        for tick, name in zip(dimension.ticks, dimension.names, strict=True):
            height = (tick - low) / scale if high > low else 0.5
            axes.text(place + 0.03, height, _plain(name[:14]), fontsize=7, va="center")
    paths = np.stack(
        [np.broadcast_to(np.arange(len(columns)), np.shape(columns)[::-1]), np.transpose(columns)], -1
    )
    low, high = parallel.range
    lines = LineCollection(list(paths), array=parallel.values, cmap=_shades(), linewidths=1, alpha=0.8)
    lines.set_clim(low, high if high > low else low + 1)
    axes.add_collection(lines)
    axes.set(xlim=(-0.1, len(columns) - 0.6), ylim=(-0.04, 1.04), yticks=[])
    names = [_plain(dimension.title) for dimension in parallel.dimensions]
    axes.set_xticks(range(len(columns)), names, rotation=20, ha="right")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)

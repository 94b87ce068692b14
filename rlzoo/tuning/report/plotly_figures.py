"""Figures as data and layout for plotly.js.

These are plain dictionaries: plotly's Python classes would add a second per page for checks and copies.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias, TypedDict

from rlzoo.tuning.report.figures import Axis, Figure, Panel, Parallel, Series
from rlzoo.tuning.report.study_results import shorten

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
INK, FAINT, LINE = "#39424e", "#eceff2", "#c9d0d8"
SHADES: list[tuple[float, str]] = [(0.0, "#c6d9eb"), (0.5, "#5b93c8"), (1.0, "#123f73")]


Json: TypeAlias = dict[str, object]


class PlotlySpec(TypedDict):
    """Arguments of `Plotly.newPlot`."""

    data: list[Json]
    layout: Json


def plotly_specs(figure: Figure) -> list[PlotlySpec]:
    """Return the specification of each panel, ready for JSON: NaN and infinity become null."""
    if figure.parallel:
        return [_parallel(figure.parallel)]
    return [_panel(panel) for panel in figure.panels]


def _panel(panel: Panel) -> PlotlySpec:
    data = [_trace(series, panel) for series in panel.series]
    labelled = sum(bool(series.label) for series in panel.series) > 1
    layout: Json = {
        **_base_layout(),
        "xaxis": _axis(panel.x),
        "yaxis": _axis(panel.y),
        "showlegend": labelled,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hovermode": "closest",
        "barmode": "overlay",
        "bargap": 0.3,
    }
    if any(series.kind in ("bars", "spans") for series in panel.series):
        layout["height"] = max(220, 110 + 26 * len(panel.y.names))
    return {"data": data, "layout": layout}


def _base_layout() -> Json:
    return {
        "font": {"family": FONT, "size": 12, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 60, "r": 18, "t": 28, "b": 48},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": LINE, "activecolor": INK},
        "hoverlabel": {"font": {"family": FONT, "size": 12}, "align": "left"},
    }


def _axis(axis: Axis) -> Json:
    layout: Json = {
        "title": {"text": html.escape(axis.title), "standoff": 8},
        "automargin": True,
        "gridcolor": FAINT,
        "linecolor": LINE,
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": LINE,
        "ticklen": 4,
    }
    if axis.log:
        layout |= {"type": "log", "dtick": 1, "exponentformat": "e"}
    if axis.ticks:
        layout |= {
            "tickmode": "array",
            "tickvals": [place for place, _ in axis.ticks],
            "ticktext": [html.escape(label) for _, label in axis.ticks],
        }
    if axis.reversed:
        layout["autorange"] = "reversed"
    if axis.names:
        layout |= {
            "tickmode": "array",
            "tickvals": list(range(len(axis.names))),
            "ticktext": [html.escape(shorten(name, 32)) for name in axis.names],
            "range": [-0.6, len(axis.names) - 0.4],
        }
    if axis.range:
        layout["range"] = list(axis.range)
    return layout


def _trace(series: Series, panel: Panel) -> Json:
    trace: Json = {"name": series.label, "showlegend": bool(series.label)}
    if series.texts:
        trace["hovertext"] = [html.escape(text).replace("\n", "<br>") for text in series.texts]
        trace["hoverinfo"] = "text"
    if series.kind in ("bars", "spans"):
        marker: Json = {"color": series.color}
        trace |= {"type": "bar", "orientation": "h", "marker": marker, "y": list(series.y)}
        trace["x"] = numbers(series.x)
        if series.kind == "spans":
            lengths = [end - start for start, end in zip(series.x, series.ends, strict=True)]
            trace |= {"base": numbers(series.x), "x": numbers(lengths)}
            marker["line"] = {"color": "#ffffff", "width": 1}
        else:
            trace |= {"text": [f"{x:.2f}" for x in series.x], "textposition": "outside", "cliponaxis": False}
            trace["hovertext"] = [
                f"{panel.y.names[int(y)]}: {x:.3f}" for x, y in zip(series.x, series.y, strict=True)
            ]
            trace["hoverinfo"] = "text"
        return trace
    trace |= {"type": "scatter", "x": numbers(series.x), "y": numbers(series.y)}
    if series.kind == "points":
        trace |= {"mode": "markers", "marker": _marker(series)}
    else:
        shape = "hv" if series.kind == "steps" else "linear"
        line = {"color": series.color, "width": series.width, "shape": shape}
        trace |= {"mode": "lines", "line": line, "connectgaps": False}
        trace["opacity"] = 1.0 if series.width > 1 else 0.55
        if not series.texts:
            trace["hoverinfo"] = "x+y"
    return trace


def _marker(series: Series) -> Json:
    marker: Json = {"size": series.width, "line": {"color": "#ffffff", "width": 0.5}}
    if not series.shades:
        return {**marker, "color": series.color}
    return {**marker, "color": numbers(series.shades), "colorscale": SHADES}


def _parallel(parallel: Parallel) -> PlotlySpec:
    low, high = parallel.range
    line = {
        "color": parallel.values,
        "colorscale": SHADES,
        "cmin": low,
        "cmax": high if high > low else low + 1,
        "showscale": False,
    }
    dimensions = [
        {
            "label": html.escape(shorten(dimension.title, 18)),
            "values": dimension.positions,
            "tickvals": dimension.ticks,
            "ticktext": [html.escape(shorten(name, 14)) for name in dimension.names],
            "range": _padded(dimension.positions, dimension.ticks),
        }
        for dimension in parallel.dimensions
    ]
    layout = {**_base_layout(), "margin": {"l": 64, "r": 64, "t": 64, "b": 28}, "height": 430}
    trace: Json = {"type": "parcoords", "line": line, "dimensions": dimensions, "labelangle": 0}
    return {"data": [trace], "layout": layout}


def _padded(positions: Sequence[float], ticks: Sequence[float]) -> list[float]:
    low, high = min(*positions, *ticks), max(*positions, *ticks)
    return [low, high] if high > low else [low - 0.5, high + 0.5]


def numbers(values: Iterable[float]) -> list[float | None]:
    """Replace NaN and infinity, which JSON does not have, by None."""
    return [value if math.isfinite(value) else None for value in map(float, values)]

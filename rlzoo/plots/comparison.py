"""Learning curves over seeds, algorithms and environments, and a table of their ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlzoo.core.errors import one_line
from rlzoo.plots.aggregates import CONFIDENCE, Aggregate, Values, aggregate, bootstrap_interval
from rlzoo.plots.aggregates import iqm as interquartile_mean
from rlzoo.plots.results import Curve, Results, Source, as_results
from rlzoo.plots.style import FONT_SIZE, describe, legend_below, looks, panels, shown, steps_axis
from rlzoo.plots.tables import TABLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE_RESAMPLES = 2_000
"""Of the bands of curves: what the eye sees does not change with more."""
MEASURES = {"return": "return", "length": "episode length (steps)", "success": "success rate"}


def compare(
    source: Source,
    *,
    iqm: bool = False,
    confidence: float = CONFIDENCE,
    plain_steps: bool = False,
    figsize: Sequence[float] | None = None,
    fontsize: float = FONT_SIZE,
) -> Figure:
    """Draw learning curves: the mean or IQM over the seeds, with a bootstrap interval, by environment.

    :param source: results, a table of `load_runs`, a results file or a folder of runs
    :param iqm: the interquartile mean instead of the mean
    :param confidence: of the shaded interval; a single seed has none
    :param plain_steps: no thousands or millions of steps
    :raises UserError: the source holds no evaluations

    >>> figure = rlzoo.plots.compare("logs", iqm=True)
    """
    from matplotlib.lines import Line2D

    results = as_results(source)
    look = looks(results.names)
    figure, axes_of = panels(len(results.environments), figsize, fontsize)
    what = MEASURES.get(results.measure, results.measure)
    for axes, environment in zip(axes_of, results.environments, strict=True):
        for curve in results.of(environment):
            middle, low, high = band(curve.scores, iqm, confidence)
            kind = look[curve.name]
            marker = "." if len(curve.steps) == 1 else ""
            axes.plot(curve.steps, middle, linewidth=1.3, marker=marker, **kind)
            axes.fill_between(curve.steps, low, high, color=kind["color"], alpha=0.2, linewidth=0)
        label = steps_axis(axes, max(c.steps[-1] for c in results.of(environment)), plain=plain_steps)
        describe(axes, label, f"{'IQM' if iqm else 'mean'} {shown(what)}", environment, fontsize)
    handles = [Line2D([], [], label=_with_seeds(results, name), **look[name]) for name in results.names]
    legend_below(figure, handles, fontsize, grow=figsize is None)
    return figure


def band(
    scores: Values, use_iqm: bool = False, confidence: float = CONFIDENCE
) -> tuple[Values, Values, Values]:
    """Compute the mean or IQM over the runs, and its interval, at each evaluation.

    :param scores: [n_runs, n_evaluations]
    :return: middle, lower and upper bound, each [n_evaluations]
    """
    statistic: Callable[..., Any] = interquartile_mean if use_iqm else np.mean
    low, high = bootstrap_interval(
        scores, lambda drawn: statistic(drawn, axis=1), FIGURE_RESAMPLES, confidence
    )
    return statistic(scores, axis=0), low, high


def comparison_table(results: Results, kind: str = "md", median_only: bool = False) -> str:
    """Return a table of the last evaluation of each curve, over the seeds, with 95% intervals.

    :param kind: "md" (Markdown) or "tex" (LaTeX)
    :param median_only: leave out the mean and the IQM
    """
    headings = ["environment", "algorithm", "seeds", "steps", "mean [95%]", "IQM [95%]", "median"]
    chosen = [0, 1, 2, 3, 6] if median_only else range(len(headings))
    lines = [_line(curve) for environment in results.environments for curve in results.of(environment)]
    cells = [[line[column] for column in chosen] for line in lines]
    return TABLES[kind]([headings[c] for c in chosen], cells, [c > 1 for c in chosen])


def number(value: float, scale: float) -> str:
    """Format a value with one digit, more where the values around it, as large as `scale`, are small."""
    digits = 1 if abs(scale) >= 10 else 2 if abs(scale) >= 1 else 3
    return f"{round(value, digits) + 0.0:.{digits}f}"  # + 0.0: no "-0.0"


def with_interval(value: float, interval: tuple[float, float] | None, scale: float) -> str:
    """Format a value with its interval, if it has one."""
    if interval is None:
        return number(value, scale)
    return f"{number(value, scale)} [{number(interval[0], scale)}, {number(interval[1], scale)}]"


def _line(curve: Curve) -> list[str]:
    found: Aggregate = aggregate(curve.final.tolist())
    scale = max(map(abs, curve.final.tolist()))
    return [
        one_line(curve.environment),
        one_line(curve.name),
        str(len(curve.seeds)),
        f"{curve.steps[-1]:,}",
        with_interval(found.mean, found.mean_interval, scale),
        with_interval(found.iqm, found.iqm_interval, scale),
        number(found.median, scale),
    ]


def _with_seeds(results: Results, name: str) -> str:
    """Return a name with its number of seeds; of several numbers the smallest and the largest."""
    counts = {len(curve.seeds) for curve in results.curves if curve.name == name}
    fewest, most = min(counts), max(counts)
    number = str(most) if fewest == most else f"{fewest}-{most}"
    return f"{shown(name)} ({number} seed{'s' * (most > 1)})"

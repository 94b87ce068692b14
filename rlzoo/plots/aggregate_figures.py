"""Figures of scores over several environments: aggregates, profiles, improvement, sample efficiency, boxes.

What they show is recommended by Agarwal et al. (2021), arXiv:2108.13264; see `rlzoo.plots.aggregates`.
Intervals are those of the stratified bootstrap, 95% unless said.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlzoo.core.errors import UserError
from rlzoo.plots.aggregates import (
    CONFIDENCE,
    RESAMPLES,
    Interval,
    Values,
    iqm,
    performance_profile,
    probability_of_improvement,
    stratified_bootstrap,
)
from rlzoo.plots.comparison import FIGURE_RESAMPLES, MEASURES
from rlzoo.plots.normalisation import METRICS, Choice, NormalisedScores, normalise
from rlzoo.plots.results import Source, as_results
from rlzoo.plots.style import FONT_SIZE, GREY, describe, legend_below, looks, note, panels, shown, steps_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_THRESHOLDS = 101
LONGEST_OF_BARS = 20  # characters of a name
Size: TypeAlias = "Sequence[float] | None"
Bar: TypeAlias = "tuple[str, float, Interval | None]"


def intervals(
    source: Source | NormalisedScores,
    *,
    normalize: Choice = "auto",
    confidence: float = CONFIDENCE,
    figsize: Size = None,
    fontsize: float = FONT_SIZE,
) -> Figure:
    """Draw IQM, median, mean and optimality gap of normalised scores, with bootstrap intervals.

    An arrow says whether high or low values are good.

    :param source: results, a table of `load_runs`, a results file, a folder of runs, or normalised scores
    :param normalize: see `rlzoo.plots.normalisation.normalise`
    :raises UserError: there are no evaluations, or they cannot be normalised

    >>> figure = rlzoo.plots.intervals("results.json", normalize={"CartPole-v1": (22, 500)})
    """
    scores = as_normalised(source, normalize)
    estimates = scores.aggregates(confidence)
    figure, axes_of = panels(4, figsize, fontsize, 0.55 + 0.2 * len(scores.names), n_columns=2)
    look = looks(scores.names)
    for place, (axes, metric) in enumerate(zip(axes_of, METRICS, strict=True)):
        bars = [(shown(name, LONGEST_OF_BARS), *estimates[name][metric]) for name in scores.names]
        _bars(axes, bars, [look[name]["color"] for name in scores.names], fontsize, place % 2 == 0)
        better = "\N{DOWNWARDS ARROW}" if metric == "optimality gap" else "\N{UPWARDS ARROW}"
        describe(axes, "", "", f"{metric} {better}", fontsize)
    if figsize is None:  # so that the panels do not shrink for long names
        longest = min(LONGEST_OF_BARS, max(map(len, scores.names)))
        figure.set_figwidth(figure.get_figwidth() + max(0, longest - 6) * 0.56 * fontsize / 72)
    figure.supxlabel(_score_label(scores), fontsize=fontsize)
    note(figure, scores.caption, fontsize)
    return figure


def profiles(
    source: Source | NormalisedScores,
    *,
    normalize: Choice = "auto",
    confidence: float = CONFIDENCE,
    figsize: Size = None,
    fontsize: float = FONT_SIZE,
) -> Figure:
    """Draw performance profiles: the share of runs, of all environments, that score above each threshold.

    The arguments are those of `intervals`.
    """
    scores = as_normalised(source, normalize)
    lowest, highest = (reach(scores.final[name]) for name, reach in _extremes(scores))
    thresholds = np.linspace(min(0.0, lowest), max(1.0, highest), N_THRESHOLDS)
    figure, (axes,) = panels(1, figsize, fontsize)
    look = looks(scores.names)
    for name, values in scores.final.items():
        low, high = stratified_bootstrap(
            values, lambda drawn: performance_profile(drawn, thresholds), FIGURE_RESAMPLES, confidence
        )
        share = performance_profile(values, thresholds)
        axes.plot(thresholds, share, linewidth=1.3, drawstyle="steps-post", **look[name])
        axes.fill_between(
            thresholds, low, high, step="post", color=look[name]["color"], alpha=0.2, linewidth=0
        )
    axes.set_ylim(-0.02, 1.02)
    describe(axes, _score_label(scores) + r" $\tau$", r"share of runs above $\tau$", "", fontsize)
    _finish(figure, scores, look, fontsize, grow=figsize is None)
    return figure


def improvement(
    source: Source | NormalisedScores,
    *,
    normalize: Choice = "auto",
    confidence: float = CONFIDENCE,
    figsize: Size = None,
    fontsize: float = FONT_SIZE,
) -> Figure:
    """Draw the probability that a run of one algorithm beats a run of another, for each pair.

    The arguments are those of `intervals`.

    :raises UserError: there is only one algorithm
    """
    scores = as_normalised(source, normalize)
    if len(scores.names) < 2:
        raise UserError(f"there is only {scores.names[0]}: nothing to compare it with")
    bars: list[Bar] = []
    for first, second in itertools.combinations(scores.names, 2):
        pair = (scores.final[first], scores.final[second])
        low, high = stratified_bootstrap(pair, probability_of_improvement, RESAMPLES, confidence)
        names = f"{shown(first, LONGEST_OF_BARS)} > {shown(second, LONGEST_OF_BARS)}"
        bars.append((names, probability_of_improvement(*pair), (float(low), float(high))))
    figure, (axes,) = panels(1, figsize, fontsize, 0.5 + 0.22 * len(bars))
    _bars(axes, bars, [looks("a")["a"]["color"]] * len(bars), fontsize)
    axes.axvline(0.5, color=GREY, linewidth=0.8, linestyle="--")
    axes.set_xlim(-0.02, 1.02)
    describe(axes, "probability of improvement", "", "", fontsize)
    return figure


def efficiency(
    source: Source | NormalisedScores,
    *,
    normalize: Choice = "auto",
    confidence: float = CONFIDENCE,
    plain_steps: bool = False,
    figsize: Size = None,
    fontsize: float = FONT_SIZE,
) -> Figure:
    """Draw the IQM of normalised scores over the training: sample efficiency over all environments.

    The arguments are those of `intervals`. Where environments have trainings of different lengths, the x axis
    is the share of the longest training in each.
    """
    scores = as_normalised(source, normalize)
    figure, (axes,) = panels(1, figsize, fontsize)
    look = looks(scores.names)
    for name, curves in scores.curves.items():
        steps = scores.steps[: curves.shape[-1]]
        low, high = stratified_bootstrap(curves, _iqm_of_curves, FIGURE_RESAMPLES, confidence)
        marker = "." if len(steps) == 1 else ""
        axes.plot(steps, _iqm_of_curves(curves), linewidth=1.3, marker=marker, **look[name])
        axes.fill_between(steps, low, high, color=look[name]["color"], alpha=0.2, linewidth=0)
    label = "share of the training (%)"
    if not scores.in_percent:
        label = steps_axis(axes, float(scores.steps[-1]), plain=plain_steps)
    describe(axes, label, f"IQM, {_score_label(scores)}", "", fontsize)
    _finish(figure, scores, look, fontsize, grow=figsize is None)
    return figure


def boxes(source: Source, *, figsize: Size = None, fontsize: float = FONT_SIZE) -> Figure:
    """Draw box plots of the last evaluations, a panel for each environment; each dot is a run.

    A box goes from the first to the third quartile with a line at the median; the whiskers reach the furthest
    run within 1.5 times the height of the box.

    :param source: results, a table of `load_runs`, a results file or a folder of runs
    """
    results = as_results(source)
    look = looks(results.names)
    figure, axes_of = panels(len(results.environments), figsize, fontsize)
    for axes, environment in zip(axes_of, results.environments, strict=True):
        curves = results.of(environment)
        drawn = axes.boxplot(
            [curve.final for curve in curves], widths=0.55, patch_artist=True, showfliers=False
        )
        for part in ("whiskers", "caps", "medians"):
            for line in drawn[part]:
                line.set(color="black", linewidth=0.8)
        for place, (box, curve) in enumerate(zip(drawn["boxes"], curves, strict=True), 1):
            box.set(facecolor=look[curve.name]["color"], alpha=0.45, linewidth=0.8)
            spread = np.linspace(-0.15, 0.15, len(curve.final)) if len(curve.final) > 1 else [0.0]
            axes.plot(place + np.asarray(spread), curve.final, ".", color=look[curve.name]["color"], ms=3.5)
        names = [shown(curve.name, LONGEST_OF_BARS) for curve in curves]
        crowded = sum(map(len, names)) > 30
        axes.set_xticklabels(names, rotation=30 if crowded else 0, ha="right" if crowded else "center")
        axes.grid(False, axis="x")
        what = MEASURES.get(results.measure, results.measure)
        describe(axes, "", f"{shown(what)}, last evaluation", environment, fontsize)
    return figure


def as_normalised(source: Source | NormalisedScores, normalize: Choice) -> NormalisedScores:
    """Return normalised scores as such, or those of anything that `as_results` takes."""
    if isinstance(source, NormalisedScores):
        return source
    return normalise(as_results(source), normalize)


def _iqm_of_curves(curves: Values) -> Values:
    """Compute the IQM over runs and tasks at each point: [n_runs, n_tasks, n_points] -> [n_points]."""
    found: Values = iqm(curves.reshape(-1, curves.shape[-1]), axis=0)
    return found


def _extremes(scores: NormalisedScores) -> list[tuple[str, Any]]:
    """Return the names with the lowest and the highest score, each with the function that finds it."""
    lowest = min(scores.names, key=lambda name: float(scores.final[name].min()))
    highest = max(scores.names, key=lambda name: float(scores.final[name].max()))
    return [(lowest, np.min), (highest, np.max)]


def _bars(
    axes: Axes, bars: Sequence[Bar], colors: Sequence[str], fontsize: float, named: bool = True
) -> None:
    """Draw horizontal intervals from top to bottom, each with a mark at the estimate."""
    for place, ((_, value, interval), color) in enumerate(zip(bars, colors, strict=True)):
        low, high = interval or (value, value)
        axes.barh(place, high - low, left=low, height=0.6, color=color, alpha=0.45, linewidth=0)
        axes.plot([value, value], [place - 0.3, place + 0.3], color="black", linewidth=1.2)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_yticks(range(len(bars)), [bar[0] if named else "" for bar in bars])
    axes.tick_params(axis="y", labelsize=fontsize, length=0)
    axes.grid(False, axis="y")
    axes.use_sticky_edges = False
    axes.margins(x=0.08)
    axes.locator_params(axis="x", nbins=3)


def _score_label(scores: NormalisedScores) -> str:
    same = all((scale.low, scale.high) == (0.0, 1.0) for scale in scores.scales.values())
    return "score" if same else "normalised score"


def _finish(
    figure: Figure, scores: NormalisedScores, look: dict[str, Any], fontsize: float, grow: bool
) -> None:
    """Add legend and caption."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=shown(name), **look[name]) for name in scores.names]
    legend_below(figure, handles, fontsize, grow)
    note(figure, scores.caption, fontsize)

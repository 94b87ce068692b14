"""Content of a study's figures as plain data; `plotly_figures` and `png_figures` draw it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from rlzoo.tuning.report.natural_units import (
    Ticks,
    is_one_minus,
    natural_name,
    natural_text,
    natural_ticks,
    whole_ticks,
)
from rlzoo.tuning.report.study_results import NOTHING, importances, parameters, ranked, short_names, text

BLUE, ORANGE, GREY, RED = "#2f6db5", "#d9731a", "#9aa4b0", "#c8403f"
COLORS = {TrialState.COMPLETE: BLUE, TrialState.PRUNED: GREY, TrialState.FAIL: RED}
Kind = Literal["points", "line", "steps", "bars", "spans"]
MOST_PARALLEL_AXES = 9
MAX_CURVES = 300  # more cannot be distinguished


@dataclass(frozen=True)
class Axis:
    """One axis of a panel.

    :param names: labels of the positions 0, 1, ... of an axis of categories
    :param ticks: positions and their labels; empty: chosen by the library that draws
    :param reversed: whether values fall to the right
    """

    title: str
    log: bool = False
    names: tuple[str, ...] = ()
    range: tuple[float, float] | None = None
    ticks: Ticks = ()
    reversed: bool = False


@dataclass(frozen=True)
class Series:
    """Points, a line (with gaps at NaN), horizontal bars from 0, or horizontal spans from `x` to `ends`."""

    kind: Kind
    x: Sequence[float]
    y: Sequence[float]
    label: str = ""
    color: str = BLUE
    shades: Sequence[float] = ()  # a value per point, shown by its colour
    texts: Sequence[str] = ()  # tooltips
    ends: Sequence[float] = ()
    width: float = 1.0


@dataclass(frozen=True)
class Panel:
    """Series with common axes."""

    series: tuple[Series, ...]
    x: Axis
    y: Axis


@dataclass(frozen=True)
class Dimension:
    """One axis of parallel coordinates: a position per trial, and the labels of the ticks."""

    title: str
    positions: list[float]
    ticks: list[float]
    names: list[str]


@dataclass(frozen=True)
class Parallel:
    """Parallel coordinates: a line per trial through all dimensions, coloured by its value."""

    dimensions: list[Dimension]
    values: list[float]
    range: tuple[float, float]


@dataclass(frozen=True)
class Figure:
    """A figure of one or more panels; `missing` gives the reason if there is nothing to draw."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...] = ()
    parallel: Parallel | None = None
    missing: str = ""
    notes: tuple[str, ...] = ()

    @property
    def drawable(self) -> bool:
        """Whether there is something to draw."""
        return bool(self.panels or self.parallel)


def make_figures(trials: Sequence[FrozenTrial], objectives: Sequence[str]) -> list[Figure]:
    """Build all figures of a study with these objectives.

    :param trials: the trials of the study, in any state
    :param objectives: titles of the values' axes, such as ("return",) or ("return", "seconds")
    """
    return [
        _history(trials, objectives),
        *([_front(trials, objectives)] if len(objectives) > 1 else []),
        _importances(trials, objectives),
        _parallel(trials, objectives[0]),
        _slices(trials, objectives[0]),
        _intermediate_values(trials, objectives[0]),
        _timeline(trials),
    ]


# -- trials as points ---------------------------------------------------------------------------


def _finite(trials: Iterable[FrozenTrial], objective: int = 0) -> list[FrozenTrial]:
    """Return the complete trials with a finite value."""
    return [
        trial
        for trial in trials
        if trial.state == TrialState.COMPLETE and math.isfinite(trial.values[objective])
    ]


def _tooltip(trial: FrozenTrial) -> str:
    """Return the tooltip of a trial."""
    lines = [f"trial {trial.number}, {trial.state.name.lower()}"]
    if trial.state == TrialState.COMPLETE:
        lines.append("value " + ", ".join(text(value) for value in trial.values))
    tried = (f"{natural_name(name)}: {natural_text(name, value)}" for name, value in trial.params.items())
    return "\n".join([*lines, *tried])


def usual_range(values: Sequence[float], high_is_good: bool = True) -> tuple[float, float] | None:
    """Return the range of an axis without outliers among the bad values; None if there are none.

    One diverged training with a return of minus a million would hide the differences of all others.
    """
    if len(values) < 5:
        return None
    good = np.asarray(values) if high_is_good else -np.asarray(values)
    low, tenth, high = good.min(), np.quantile(good, 0.1), good.max()
    if tenth - low <= 2 * (high - tenth) or high == tenth:
        return None
    margin = 0.08 * (high - tenth)
    ends = (float(tenth - margin), float(high + margin))
    return ends if high_is_good else (-ends[1], -ends[0])


def cut_note(values: Sequence[float], shown: tuple[float, float] | None, what: str = "trial") -> list[str]:
    """Return how many values are outside of an axis, in words; empty if none are."""
    if shown is None:
        return []
    outside = sum(not shown[0] <= value <= shown[1] for value in values)
    noun = f"{what} is" if outside == 1 else f"{what}s are"
    return [f"{outside} {noun} outside the axis range; double-click to show all."]


def axis_of(name: str, distribution: BaseDistribution, title: str) -> Axis:
    """Return the axis of a parameter.

    :param name: as it was sampled, such as `log2(n_steps)`
    """
    if isinstance(distribution, CategoricalDistribution):
        return Axis(title, names=tuple(natural_text(name, choice) for choice in distribution.choices))
    log = isinstance(distribution, FloatDistribution | IntDistribution) and distribution.log
    return Axis(title, log=log, ticks=natural_ticks(name, distribution), reversed=is_one_minus(name))


def _position(trial: FrozenTrial, name: str) -> float:
    """Return the position of a trial on the axis of a parameter."""
    distribution, value = trial.distributions[name], trial.params[name]
    return float(distribution.to_internal_repr(value))


def _too_few(trials: Sequence[FrozenTrial], needed: int) -> str:
    n = len(_finite(trials))
    have = "none has" if n == 0 else "one has" if n == 1 else f"{n} have"
    need = "one complete trial" if needed == 1 else f"{needed} complete trials"
    return f"This figure needs {need}; so far {have} finished."


# -- the figures --------------------------------------------------------------------------------


def _history(trials: Sequence[FrozenTrial], objectives: Sequence[str]) -> Figure:
    caption = "The value of each trial by its number, and the best so far."
    figure = Figure("history", "Optimisation history", caption)
    notes: list[str] = []
    panels = []
    for objective, title in enumerate(objectives):
        done, high_is_good = _finite(trials, objective), objective == 0
        if not done:
            continue
        x = [trial.number for trial in done]
        y = [trial.values[objective] for trial in done]
        best = np.maximum.accumulate(y) if high_is_good else np.minimum.accumulate(y)
        series = [
            Series("points", x, y, "complete", BLUE, texts=[_tooltip(trial) for trial in done], width=7),
            Series("steps", x, best.tolist(), "best so far", ORANGE, width=2),
        ]
        stopped = [trial for trial in trials if trial.state == TrialState.PRUNED and _last_report(trial)]
        if stopped and objective == 0:
            last = [_last_report(trial)[0] for trial in stopped]
            texts = [_tooltip(trial) for trial in stopped]
            numbers = [trial.number for trial in stopped]
            series.insert(
                0, Series("points", numbers, last, "pruned, when stopped", GREY, texts=texts, width=5)
            )
            y = y + last
        shown = usual_range(y, high_is_good)
        notes += cut_note(y, shown)
        panels.append(
            Panel(tuple(series), Axis("trial", ticks=whole_ticks(min(x), max(x))), Axis(title, range=shown))
        )
    if not panels:
        return replace(figure, missing=_too_few(trials, 1))
    return replace(figure, panels=tuple(panels), notes=tuple(notes))


def _last_report(trial: FrozenTrial) -> list[float]:
    """Return the last finite value that a trial reported, in a list; empty if there is none."""
    reports = [value for _, value in sorted(trial.intermediate_values.items()) if math.isfinite(value)]
    return reports[-1:]


def _front(trials: Sequence[FrozenTrial], objectives: Sequence[str]) -> Figure:
    caption = (
        "Every complete trial by its two objectives. No other trial is better in both than one on the front."
    )
    figure = Figure("pareto_front", "Pareto front", caption)
    done = [trial for trial in _finite(trials) if math.isfinite(trial.values[1])]
    if not done:
        return replace(figure, missing=_too_few(trials, 1))
    by_seconds = sorted(done, key=lambda trial: (trial.values[1], -trial.values[0]))
    front: list[FrozenTrial] = []
    for trial in by_seconds:
        if not front or trial.values[0] > front[-1].values[0]:
            front.append(trial)
    dominated = [trial for trial in done if trial not in front]
    series = (
        _in_the_plane("points", dominated, "dominated", GREY, 6),
        _in_the_plane("steps", front, "", ORANGE, 1.5),
        _in_the_plane("points", front, "front", ORANGE, 9),
    )
    values = [trial.values[0] for trial in done]
    shown = usual_range(values)
    panel = Panel(series, Axis(objectives[1]), Axis(objectives[0], range=shown))
    return replace(figure, panels=(panel,), notes=tuple(cut_note(values, shown)))


def _in_the_plane(kind: Kind, trials: Sequence[FrozenTrial], label: str, color: str, width: float) -> Series:
    """Return trials by seconds (x) and return (y)."""
    x, y = [trial.values[1] for trial in trials], [trial.values[0] for trial in trials]
    return Series(kind, x, y, label, color, texts=[_tooltip(trial) for trial in trials], width=width)


def _importances(trials: Sequence[FrozenTrial], objectives: Sequence[str]) -> Figure:
    caption = (
        "How much each parameter contributed to a trial being among the best tenth (PED-ANOVA), "
        "as fractions that sum to 1. With few trials this is a rough estimate."
    )
    figure = Figure("importances", "Importance of the parameters", caption)
    panels = []
    for objective, title in enumerate(objectives):
        shares = importances(trials, objective)
        if shares:
            names = list(shares)[::-1]  # the most important at the top
            bars = Series("bars", [shares[name] for name in names], list(range(len(names))))
            label = "share" if len(objectives) == 1 else f"share in the {title}"
            labels = tuple(map(natural_name, names))
            panels.append(Panel((bars,), Axis(label), Axis("", names=labels)))
    if not panels:
        few = len(_finite(trials)) < 4
        flat = "In these trials no parameter distinguishes the best from the rest."
        return replace(figure, missing=_too_few(trials, 4) if few else flat)
    compared = {name for panel in panels for name in panel.y.names}
    sampled = map(natural_name, parameters(_finite(trials)))
    left_out = [name for name in sampled if name not in compared]
    notes = [f"Not shown, because only some trials have them: {', '.join(left_out)}."] if left_out else []
    return replace(figure, panels=tuple(panels), notes=tuple(notes))


def _parallel(trials: Sequence[FrozenTrial], objective: str) -> Figure:
    caption = (
        "A line per trial; darker lines have higher returns. On the page, drag along an axis to select "
        "trials; drag the name of an axis to move it."
    )
    figure = Figure("parallel_coordinates", "Parallel coordinates", caption)
    done = ranked(_finite(trials))[::-1]  # the best is drawn last, on top
    known = parameters(done)
    if len(done) < 2 or not known:
        return replace(figure, missing=_too_few(trials, 2) if len(done) < 2 else "No parameter was sampled.")
    shares = importances(trials)
    names = sorted(known, key=lambda name: -shares.get(name, 0.0))[:MOST_PARALLEL_AXES]
    values = [trial.values[0] for trial in done]
    low, high = usual_range(values) or (min(values), max(values))
    clipped = np.clip(values, low, high).tolist()
    short = short_names(list(known))
    dimensions = [_dimension(name, natural_name(short[name]), known[name], done) for name in names]
    dimensions.append(Dimension(objective, clipped, *_plain_ticks(low, high)))
    notes = (
        [] if len(names) == len(known) else [f"The {len(names)} most important of {len(known)} parameters."]
    )
    return replace(figure, parallel=Parallel(dimensions, clipped, (low, high)), notes=tuple(notes))


def _dimension(
    name: str, title: str, distribution: BaseDistribution, trials: Sequence[FrozenTrial]
) -> Dimension:
    """Build the axis of a parameter; trials without it pass below the low end."""
    axis = axis_of(name, distribution, title)
    found = [_position(trial, name) if name in trial.params else math.nan for trial in trials]
    sign = -1.0 if axis.reversed else 1.0
    positions = [sign * math.log10(value) for value in found] if axis.log else found
    present = [value for value in positions if not math.isnan(value)]
    low, high = min(present), max(present)
    if axis.names:
        ticks, names = list(map(float, range(len(axis.names)))), list(axis.names)
        low, high = 0.0, len(ticks) - 1.0
    elif axis.ticks:
        places = [(sign * math.log10(place) if axis.log else place, label) for place, label in axis.ticks]
        shown = [(place, label) for place, label in places if low - 0.1 <= place <= high + 0.1] or places
        ticks, names = [place for place, _ in shown], [label for _, label in shown]
    elif axis.log:
        ticks, names = _log_ticks(low, high)
    else:
        ticks, names = _plain_ticks(low, high, whole=isinstance(distribution, IntDistribution))
    if len(present) < len(positions):
        below = low - 0.15 * ((high - low) or 1.0)
        positions = [below if math.isnan(value) else value for value in positions]
        ticks, names = [below, *ticks], [NOTHING, *names]
    return Dimension(title, positions, ticks, names)


def _plain_ticks(low: float, high: float, whole: bool = False) -> tuple[list[float], list[str]]:
    """Return positions and labels of ticks.

    :param whole: an axis of integers
    """
    ticks = np.linspace(low, high, 5).tolist() if high > low else [low]
    if whole:
        ticks = sorted({float(round(tick)) for tick in ticks})
    return ticks, [f"{tick:,.4g}" if abs(tick) < 1e5 else f"{tick:.3g}" for tick in ticks]


def _log_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Return ticks at powers of ten, and at the ends if these are few; positions are log10."""
    powers = [float(power) for power in range(math.ceil(low), math.floor(high) + 1)]
    if len(powers) < 3:
        ends = [end for end in sorted({low, high}) if all(abs(end - power) > 0.2 for power in powers)]
        powers = sorted(powers + ends)
    return powers, [f"{10**power:.2g}" for power in powers]


def _slices(trials: Sequence[FrozenTrial], objective: str) -> Figure:
    caption = "The value against each parameter; later trials are darker, which shows the course of search."
    figure = Figure("slices", "Slices", caption)
    done = _finite(trials)
    known = parameters(done)
    if not done or not known:
        return replace(figure, missing=_too_few(trials, 1) if not done else "No parameter was sampled.")
    values = [trial.values[0] for trial in done]
    shown = usual_range(values)
    panels = []
    for name, distribution in known.items():
        having = [trial for trial in done if name in trial.params]
        points = Series(
            "points",
            [_position(trial, name) for trial in having],
            [trial.values[0] for trial in having],
            shades=[trial.number for trial in having],
            texts=[_tooltip(trial) for trial in having],
            width=6,
        )
        panels.append(
            Panel((points,), axis_of(name, distribution, natural_name(name)), Axis(objective, range=shown))
        )
    return replace(figure, panels=tuple(panels), notes=tuple(cut_note(values, shown)))


def _intermediate_values(trials: Sequence[FrozenTrial], objective: str) -> Figure:
    caption = (
        "Values that each trial reported during training: the best trial, other complete ones, pruned ones."
    )
    figure = Figure("intermediate_values", "Intermediate values", caption)
    reported = [
        trial
        for trial in trials
        if trial.intermediate_values and trial.state in (TrialState.COMPLETE, TrialState.PRUNED)
    ]
    if not reported:
        return replace(figure, missing="No finished trial has reported intermediate values.")
    best = ranked(reported)
    kept = (best + [trial for trial in reported if trial.state == TrialState.PRUNED])[:MAX_CURVES]
    notes = [f"{len(kept)} of {len(reported)} trials are shown."] if len(kept) < len(reported) else []
    groups = (
        ("complete", BLUE, 1.0, [trial for trial in kept if trial in best[1:]]),
        ("pruned", GREY, 1.0, [trial for trial in kept if trial.state == TrialState.PRUNED]),
        (f"best (trial {best[0].number})" if best else "", ORANGE, 2.5, best[:1]),
    )
    series = tuple(_curves(label, color, width, group) for label, color, width, group in groups if group)
    lasts = [value for trial in kept for value in _last_report(trial)]
    shown = usual_range(lasts)
    steps = [step for trial in kept for step in trial.intermediate_values]
    axis = Axis("evaluation", ticks=whole_ticks(min(steps), max(steps)))
    panel = Panel(series, axis, Axis(objective, range=shown))
    return replace(figure, panels=(panel,), notes=(*notes, *cut_note(lasts, shown)))


def _curves(label: str, color: str, width: float, trials: Sequence[FrozenTrial]) -> Series:
    """Return the reports of several trials as one line with gaps."""
    x: list[float] = []
    y: list[float] = []
    texts: list[str] = []
    for trial in trials:
        steps = sorted(trial.intermediate_values)
        x += [*steps, math.nan]
        y += [*(trial.intermediate_values[step] for step in steps), math.nan]
        texts += [_tooltip(trial)] * len(steps) + [""]
    finite = [value if math.isfinite(value) else math.nan for value in y]
    return Series("line", x, finite, label, color, texts=texts, width=width)


def _timeline(trials: Sequence[FrozenTrial]) -> Figure:
    caption = "When each trial ran; stacked bars ran in parallel."
    figure = Figure("timeline", "Timeline", caption)
    ran = [
        (trial.datetime_start, trial.datetime_complete, trial)
        for trial in trials
        if trial.state in COLORS and trial.datetime_start and trial.datetime_complete
    ]
    if not ran:
        return replace(figure, missing="No trial has finished yet.")
    ran.sort(key=lambda run: (run[0], run[2].number))
    began = ran[0][0]
    total = max((end - began).total_seconds() for _, end, _ in ran)
    unit, seconds = ("hours", 3600) if total > 7200 else ("minutes", 60) if total > 180 else ("seconds", 1)
    rows = _rows([(start, end) for start, end, _ in ran])
    series = []
    for state, color in COLORS.items():
        chosen = [(row, *run) for row, run in zip(rows, ran, strict=True) if run[2].state == state]
        if chosen:
            starts = [(start - began).total_seconds() / seconds for _, start, _, _ in chosen]
            ends = [(end - began).total_seconds() / seconds for _, _, end, _ in chosen]
            texts = [_tooltip(trial) for *_, trial in chosen]
            label = {TrialState.FAIL: "failed"}.get(state, state.name.lower())
            series.append(
                Series("spans", starts, [row for row, *_ in chosen], label, color, texts=texts, ends=ends)
            )
    names = tuple(str(row + 1) for row in range(max(rows) + 1))
    return replace(figure, panels=(Panel(tuple(series), Axis(unit), Axis("in parallel", names=names)),))


def _rows(spans: Sequence[tuple[datetime, datetime]]) -> list[int]:
    """Return the lowest free row for each span; the spans are sorted by start."""
    free_from: list[datetime] = []
    rows = []
    for start, end in spans:
        row = next((row for row, moment in enumerate(free_from) if moment <= start), len(free_from))
        free_from[row:] = [end, *free_from[row + 1 :]]
        rows.append(row)
    return rows

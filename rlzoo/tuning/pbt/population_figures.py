"""Figures of a population: returns with the lineage of the winner, and hyperparameters over steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from rlzoo.params.grid import Label
from rlzoo.tuning.pbt.population import Generation, Range, ranges_of
from rlzoo.tuning.pbt.population_study import Population, value_of
from rlzoo.tuning.report.figures import (
    BLUE,
    GREY,
    ORANGE,
    Axis,
    Figure,
    Panel,
    Series,
    axis_of,
    cut_note,
    usual_range,
)
from rlzoo.tuning.report.natural_units import Ticks, natural_name, natural_text
from rlzoo.tuning.report.study_results import short_names, text


def population_figures(population: Population) -> list[Figure]:
    """Build all figures of a population."""
    return [returns_figure(population), hyperparameters_figure(population)]


def changing(population: Population) -> dict[str, BaseDistribution]:
    """Return the parameters that a copy can change, or has changed, with their values in the space."""
    members = [member for generation in population.history for member in generation]
    ranges = ranges_of(population.space, members)
    found: dict[str, BaseDistribution] = {}
    for name in dict.fromkeys(name for member in members for name in member.params):
        if name in ranges:
            found[name] = _distribution(ranges[name])
        elif _is_changed(population, name):
            values = dict.fromkeys(member.params[name] for member in members if name in member.params)
            found[name] = CategoricalDistribution(sorted(values, key=str))
    return found


def _distribution(found: Range) -> BaseDistribution:
    if found.integer:
        return IntDistribution(int(found.low), int(found.high), log=found.log)
    return FloatDistribution(found.low, found.high, log=found.log)


def _is_changed(population: Population, name: str) -> bool:
    """Return whether a copy has another value than its parent."""
    pairs = zip(population.history, population.history[1:], strict=False)
    return any(
        member.params.get(name) != before[member.parent].params.get(name)
        for before, generation in pairs
        for member in generation
    )


@dataclass
class _Line:
    """Points of a series, with a gap after each piece."""

    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def add(self, x: Sequence[float], y: Sequence[float], texts: Sequence[str]) -> None:
        """Add a piece."""
        self.x += [*x, math.nan]
        self.y += [*y, math.nan]
        self.texts += [*texts, ""]


def returns_figure(population: Population) -> Figure:
    """Build the figure of all members: a line per agent, copies as lines from the parent's point."""
    caption = (
        "A point is a member after an interval. Grey lines continue a member with its hyperparameters; orange"
        " lines are copies, which begin at the point of their parent. A member that was replaced has no line"
        " to the right. The thick blue line leads to the winner."
    )
    figure = Figure("population", "Returns of the population", caption)
    line = population.winner
    if not line:
        return replace(figure, missing="No interval is over yet.")
    pieces = {False: _Line(), True: _Line()}
    points = _Line()
    for generation in population.history:
        for member in generation:
            if member.value is None:
                continue
            after, label = population.steps_after(member.interval), _tooltip(member)
            points.add([after], [member.value], [label])
            parent = population.history[member.interval - 1][member.parent] if member.interval else None
            if parent is not None and parent.value is not None:
                ends = [parent.value, member.value]
                before = population.steps_after(parent.interval)
                pieces[member.parent != member.member].add([before, after], ends, [label, label])
    x = [population.steps_after(member.interval) for member in line]
    y = [value_of(member) for member in line]
    winner = [_tooltip(member) for member in line]
    series = (
        Series("line", pieces[False].x, pieces[False].y, "continued", GREY, texts=pieces[False].texts),
        Series("line", pieces[True].x, pieces[True].y, "copied", ORANGE, texts=pieces[True].texts, width=1.6),
        Series("points", *_only_points(points), color=GREY, texts=[t for t in points.texts if t], width=6),
        Series("line", x, y, "winner's lineage", BLUE, texts=winner, width=3.5),
        Series("points", x, y, color=BLUE, texts=winner, width=9),
    )
    values = [value for value in points.y if not math.isnan(value)]
    shown = usual_range(values)
    panel = Panel(series, Axis("steps of a member"), Axis("return", range=shown))
    return replace(figure, panels=(panel,), notes=tuple(cut_note(values, shown, "point")))


def _only_points(line: _Line) -> tuple[list[float], list[float]]:
    pairs = [(x, y) for x, y in zip(line.x, line.y, strict=True) if not math.isnan(y)]
    return [x for x, _ in pairs], [y for _, y in pairs]


def _tooltip(member: Generation) -> str:
    lines = [f"member {member.member}, interval {member.interval + 1}: return {text(value_of(member))}"]
    if member.parent != member.member:
        lines.append(f"copy of member {member.parent}")
    return "\n".join(lines + [f"{natural_name(k)}: {natural_text(k, v)}" for k, v in member.params.items()])


def hyperparameters_figure(population: Population) -> Figure:
    """Build a panel for each hyperparameter that copies change."""
    caption = (
        "Each hyperparameter that copies explore, over the steps of a member. Blue: the winner and its"
        " ancestors; grey: all members; orange: the copies, where they begin."
    )
    figure = Figure("hyperparameters", "Hyperparameters over steps", caption)
    known, line = changing(population), population.winner
    if not line:
        return replace(figure, missing="No interval is over yet.")
    if not known:
        return replace(figure, missing="No hyperparameter of the search space can change during training.")
    titles = short_names(list(known))
    panels = [
        _panel(population, name, natural_name(titles[name]), distribution)
        for name, distribution in known.items()
    ]
    return replace(figure, panels=tuple(panels))


def _panel(population: Population, name: str, title: str, distribution: BaseDistribution) -> Panel:
    members = [member for generation in population.history for member in generation]
    copies = [member for member in members if member.parent != member.member]
    line = population.winner
    place = {member.interval: member.interval * population.interval for member in members}
    series = (
        _dots(members, place, name, distribution, GREY, 5),
        _dots(copies, place, name, distribution, ORANGE, 7),
        Series(
            "steps",
            [*(place[member.interval] for member in line), population.steps_after(line[-1].interval)],
            [*(position(member.params, name, distribution) for member in [*line, line[-1]])],
            color=BLUE,
            texts=[*map(_tooltip, [*line, line[-1]])],
            width=3,
        ),
    )
    axis = axis_of(name, distribution, title)
    if axis.log and not axis.ticks:
        axis = replace(axis, ticks=_log_ticks([y for each in series for y in each.y]))
    return Panel(series, Axis("steps"), axis)


def _log_ticks(values: Sequence[float]) -> Ticks:
    """Return 1, 2 and 5 times powers of 10 among values that span less than two of them, with labels."""
    finite = [value for value in values if not math.isnan(value)]
    if max(finite) >= 100 * min(finite):
        return ()
    first, last = math.floor(math.log10(min(finite))), math.ceil(math.log10(max(finite)))
    ticks = [digit * 10.0**power for power in range(first, last + 1) for digit in (1, 2, 5)]
    return tuple((tick, f"{tick:g}") for tick in ticks if 0.7 * min(finite) <= tick <= 1.4 * max(finite))


def _dots(
    members: Iterable[Generation],
    place: Mapping[int, int],
    name: str,
    distribution: BaseDistribution,
    color: str,
    width: float,
) -> Series:
    """Return the values of some members at the beginning of their intervals."""
    shown = [member for member in members if name in member.params]
    x = [place[member.interval] for member in shown]
    y = [position(member.params, name, distribution) for member in shown]
    return Series("points", x, y, color=color, texts=[*map(_tooltip, shown)], width=width)


def position(params: Mapping[str, Label], name: str, distribution: BaseDistribution) -> float:
    """Return the position of a value on the axis of its parameter; NaN if a member does not have it."""
    return float(distribution.to_internal_repr(params[name])) if name in params else math.nan

"""`report.html` of a population study."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from rlzoo.tuning.pbt.population import Generation
from rlzoo.tuning.pbt.population_figures import changing
from rlzoo.tuning.pbt.population_study import Population, is_over, value_of
from rlzoo.tuning.report.figures import Figure
from rlzoo.tuning.report.natural_units import natural_name, natural_range, natural_text
from rlzoo.tuning.report.page_parts import (
    document,
    escape,
    figure_section,
    missing_note,
    section,
    table,
    tile_row,
)
from rlzoo.tuning.report.plotly_figures import PlotlySpec
from rlzoo.tuning.report.study_results import NOTHING, text

SCHEDULERS = {"pbt": "population based training (pbt)", "pb2": "population based bandits (pb2)"}


def population_page(population: Population, figures: Sequence[Figure], schedule: str) -> str:
    """Return the page.

    :param figures: its figures
    :param schedule: content of schedule.yml; empty if there is none
    """
    settings = population.settings
    specs: dict[str, PlotlySpec] = {}
    drawn = []
    for figure in figures:
        place, panels = figure_section(figure)
        drawn.append(place)
        specs |= panels
    body = [
        _tiles(population),
        *drawn,
        section("lineage", "Lineage of the winner", _lineage(population)),
        section("members", "Members after the last interval", _members(population)),
        section("schedule", "Schedule", _schedule(population, schedule)),
        section("settings", "Settings", _settings(population)),
        _failures(population),
    ]
    links = [(figure.name, figure.title) for figure in figures]
    links += [("lineage", "Lineage"), ("members", "Members"), ("schedule", "Schedule")]
    links.append(("settings", "Settings"))
    title = f"{settings.algo.upper()} on {settings.env_id}"
    footer = "All members of all intervals are in lineage.csv, the winner's hyperparameters in schedule.yml."
    study = f"{population.folder.name}: {SCHEDULERS[population.scheduler]}"
    return document(title, study, links, body, specs, footer)


def _all_members(population: Population) -> list[Generation]:
    return [member for generation in population.history for member in generation]


def _tiles(population: Population) -> str:
    members, line = _all_members(population), population.winner
    n_over = sum(all(map(is_over, generation)) for generation in population.history)
    copies = sum(member.parent != member.member for member in members)
    seconds = timedelta(seconds=round(sum(member.seconds for member in members)))
    best = f"best return, member {line[-1].member}" if line else "best return"
    return tile_row(
        [
            ("best", text(value_of(line[-1])) if line else NOTHING, best),
            ("", str(population.size), "members"),
            ("", f"{n_over} of {population.n_intervals}", "intervals finished"),
            ("", str(copies), "members replaced"),
            ("", str(sum(bool(member.error) for member in members)), "failed"),
            ("", str(seconds), "training time, all members"),
        ]
    )


def _lineage(population: Population) -> str:
    """Return the table of the winner and its ancestors; values that a copy changed are bold."""
    line = population.winner
    if not line:
        return missing_note("No interval is over yet.")
    names = [
        name
        for name in changing(population)
        if any(member.params.get(name) != line[0].params.get(name) for member in line)
    ]
    rows = []
    for before, member in zip([line[0], *line], line, strict=False):
        copied = str(member.parent) if member.parent != member.member else ""
        row = [f"{population.steps_after(member.interval):,}", str(member.member), copied]
        row.append(text(value_of(member)))
        for name in names:
            value = escape(natural_text(name, member.params.get(name, NOTHING)))
            row.append(f"<b>{value}</b>" if member.params.get(name) != before.params.get(name) else value)
        rows.append(row)
    header = ["steps", "member", "copied from", "return", *map(natural_name, names)]
    caption = (
        "The winner and its ancestors, with the hyperparameters that changed on the way. Bold: values that"
        " a copy explored."
    )
    return f'<p class="caption">{caption}</p>' + table(header, rows, [True] * len(header))


def _members(population: Population) -> str:
    """Return the table of the members of the last interval, the best first."""
    names = list(changing(population))
    last = [member for member in population.history[-1] if is_over(member)]
    if not last:
        return missing_note("No member has finished this interval yet.")
    rows = []
    for member in sorted(last, key=lambda member: (-value_of(member), member.member)):
        replaced = sum(row[member.member].parent != member.member for row in population.history)
        value = NOTHING if member.value is None else text(member.value)
        row = [str(member.member), value, str(replaced)]
        rows.append(row + [escape(natural_text(name, member.params.get(name, NOTHING))) for name in names])
    header = ["member", "return", "replaced", *map(natural_name, names)]
    return table(header, rows, [True] * len(header))


def _schedule(population: Population, schedule: str) -> str:
    if not schedule:
        return missing_note("No interval is over yet.")
    caption = "The hyperparameters of the winner at their steps. This is schedule.yml:"
    return f'<p class="caption">{caption}</p><pre>{escape(schedule)}</pre>'


def _settings(population: Population) -> str:
    settings = population.settings
    shown: dict[str, object] = {
        "Algorithm": settings.algo,
        "Environment": settings.env_id,
        "Scheduler": SCHEDULERS[population.scheduler],
        "Members": population.size,
        "Steps of a member": f"{population.n_timesteps:,}",
        "Interval": f"{population.interval:,} steps",
        "Evaluation": f"{settings.eval_episodes} episodes after each interval",
        "Seed": settings.seed,
        "Vector environment": settings.vec_env,
        "Device": settings.device,
    }
    if settings.gym_packages:
        shown["Packages"] = ", ".join(settings.gym_packages)
    entries = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in shown.items())
    ranges = [
        [escape(natural_name(name)), escape(natural_range(name, distribution))]
        for name, distribution in changing(population).items()
    ]
    searched = table(["explored by copies", "range"], ranges, [False, False]) if ranges else ""
    summary = "<summary>Base hyperparameters (sampled values replace them)</summary>"
    base = f"<details>{summary}<pre>{escape(settings.config)}</pre></details>"
    return f"<dl>{entries}</dl>{searched}{base}"


def _failures(population: Population) -> str:
    failed = [member for member in _all_members(population) if member.error]
    if not failed:
        return ""
    rows = [[str(each.interval + 1), str(each.member), escape(each.error)] for each in failed]
    return section(
        "failures", "Failed members", table(["interval", "member", "error"], rows, [True, True, False])
    )

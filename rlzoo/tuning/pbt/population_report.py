"""Report of a population study: `lineage.csv`, `schedule.yml`, `report.html` and the figures as PNG files."""

from __future__ import annotations

import csv
import io
import shlex
from typing import Any

from rlzoo.callbacks.hyperparameter_schedule import CHANGEABLE
from rlzoo.config.values_as_text import dump_yaml, plain
from rlzoo.core.errors import one_line
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.io.atomic import atomic_write
from rlzoo.io.csv_cells import cell
from rlzoo.tuning.pbt.population_figures import population_figures
from rlzoo.tuning.pbt.population_page import population_page
from rlzoo.tuning.pbt.population_study import Population, value_of
from rlzoo.tuning.report.png_figures import png


def write_population_report(population: Population, figures: bool = True) -> None:
    """Write lineage.csv, the report, and schedule.yml if a member has a return.

    Each file is written atomically; a population without a finished interval has a report too.

    :param figures: False: write neither the page nor the PNG files
    """
    _write(population, "lineage.csv", lineage_csv(population).encode())
    schedule = schedule_yaml(population) if population.winner else ""
    if schedule:
        _write(population, "schedule.yml", schedule.encode())
    if not figures:
        return
    drawn = population_figures(population)
    _write(population, "report.html", population_page(population, drawn, schedule).encode())
    for figure in drawn:
        if figure.drawable:
            _write(population, f"{figure.name}.png", png(figure))


def _write(population: Population, name: str, content: bytes) -> None:
    with atomic_write(population.folder / name) as file:
        file.write(content)


def lineage_csv(population: Population) -> str:
    """Return a CSV with a row for each member of each interval; missing values are empty.

    Columns: interval, member, parent, steps, return, seconds, error, and the values in the search space.
    """
    members = [member for generation in population.history for member in generation]
    names = list(dict.fromkeys(name for member in members for name in member.params))
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["interval", "member", "parent", "steps", "return", "seconds", "error", *names])
    for member in members:
        row: list[object] = [member.interval, member.member, member.parent, member.n_steps]
        row += ["" if member.value is None else member.value, f"{member.seconds:.1f}", cell(member.error)]
        writer.writerow(row + [cell(member.params.get(name, "")) for name in names])
    return text.getvalue()


def schedule_yaml(population: Population) -> str:
    """Return the hyperparameters of the best lineage as a file for `rlzoo train --conf-file`."""
    line = population.winner
    resolved = [population.resolved(member) for member in line]
    values: dict[str, Any] = plain(resolved[0].values)
    before = _changeable(resolved[0])
    changes = []
    for member, config in zip(line[1:], resolved[1:], strict=True):
        now = _changeable(config)
        if different := {key: value for key, value in now.items() if before.get(key) != value}:
            changes.append([member.interval * population.interval, different])
        before = now
    if changes:
        given = values.get("callback") or []
        others = given if isinstance(given, list) else [given]
        name = "rlzoo.callbacks.hyperparameter_schedule.HyperparameterSchedule"
        values["callback"] = [*others, {name: {"changes": changes}}]
    settings, best = population.settings, line[-1]
    command = ["rlzoo", "train", "--algo", settings.algo, "--env", settings.env_id]
    command += ["--conf-file", str(population.folder / "schedule.yml")]
    comments = [
        f"Population based training, member {best.member}: return {value_of(best):.2f}.",
        f"Train with it: {shlex.join(command)}",
    ]
    text = "".join(f"# {one_line(line)}\n" for line in comments)
    return text + dump_yaml({settings.env_id: values})


def _changeable(resolved: ResolvedConfig) -> dict[str, Any]:
    """Return the hyperparameters that can change during training, as YAML has them."""
    return {key: plain(resolved.hyperparams[key]) for key in CHANGEABLE if key in resolved.hyperparams}

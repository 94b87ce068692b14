"""Report of a study: `best.yml`, `trials.csv`, `report.html` and the figures as PNG files."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial

from rlzoo.config.values_as_text import dump_yaml, load_yaml
from rlzoo.core.errors import printable
from rlzoo.io.atomic import atomic_write
from rlzoo.io.csv_cells import cell
from rlzoo.tuning.report.figures import make_figures
from rlzoo.tuning.report.png_figures import png
from rlzoo.tuning.report.study_page import page
from rlzoo.tuning.report.study_results import (
    best_trial,
    hyperparameters,
    parameters,
    text,
    top_table,
    top_trials,
    trial_by_number,
    trials_of,
)
from rlzoo.tuning.storage.study_settings import StudySettings

__all__ = ["best_trial", "top_table", "top_trials", "trial_by_number", "trials_of", "write_report"]

BEST, RETRAINED = "best.yml", "retrained.yml"
ATTRIBUTES = (
    "seeds",
    "n_steps",
    "seconds",
    "worker",
    "attempts",
    "deaths",
    "error",
)  # of a trial, in the CSV


def write_report(study: optuna.Study, settings: StudySettings, folder: Path, figures: bool = True) -> None:
    """Write `best.yml` (once a trial is complete), `trials.csv`, `report.html` and a PNG of each figure.

    Each file is written atomically; a study without finished trials has a report too.

    :param figures: False: write neither the page nor the PNG files
    """
    trials = trials_of(study)
    objectives = ("return", "seconds")[: len(settings.directions)]
    best = best_yaml(best_trial(study), study.study_name, settings, folder)
    if best:
        _write(folder / BEST, best.encode())
    _write(folder / "trials.csv", trials_csv(trials, objectives).encode())
    if not figures:
        return
    drawn = make_figures(trials, objectives)
    n_trials = int(study.user_attrs.get("n_trials", len(trials)))
    _write(folder / "report.html", page(study.study_name, settings, n_trials, trials, drawn, best).encode())
    for figure in drawn:
        if figure.drawable:
            _write(folder / f"{figure.name}.png", png(figure))


def _write(path: Path, content: bytes) -> None:
    with atomic_write(path) as file:
        file.write(content)


def write_retrained(
    trial: FrozenTrial, name: str, settings: StudySettings, folder: Path, result: str
) -> Path:
    """Write the hyperparameters of the trial that won the retraining as `retrained.yml`.

    :param result: what it reached, for the comment
    """
    path = folder / RETRAINED
    _write(path, best_yaml(trial, name, settings, folder, RETRAINED, f" {result}").encode())
    return path


def best_yaml(
    trial: FrozenTrial | None,
    name: str,
    settings: StudySettings,
    folder: Path,
    file: str = BEST,
    note: str = "",
) -> str:
    """Return the hyperparameters of a trial as a file for `rlzoo train --conf-file`; empty if it has none.

    :param file: its name, for the command in the comment
    :param note: follows the trial's return in the comment
    """
    if trial is None or not trial.user_attrs.get("hyperparams"):
        return ""
    seconds = f" in {text(trial.values[1])} seconds" if len(trial.values) > 1 else ""
    comments = [
        f"Study {' '.join(name.split())}, trial {trial.number}: return {text(trial.values[0])}{seconds}."
        f"{note}",
        "Train with it:",
        f"  {train_command(settings, folder, file)}",
    ]
    hyperparams = load_yaml(trial.user_attrs["hyperparams"], f"hyperparameters of trial {trial.number}")
    comments = [printable(line).replace("\n", "\\n") for line in comments]  # a line break would end a comment
    return "".join(f"# {line}\n" for line in comments) + dump_yaml({settings.env_id: hyperparams})


def train_command(settings: StudySettings, folder: Path, file: str = BEST) -> str:
    """Return the command that trains with `best.yml`, or another file of the study."""
    command = ["rlzoo", "train", "--algo", settings.algo, "--env", settings.env_id]
    command += ["--conf-file", str(folder / file)]
    command += ["--gym-packages", *settings.gym_packages] if settings.gym_packages else []
    command += ["--expert", settings.expert] if settings.expert else []
    return shlex.join(command)


def trials_csv(trials: Sequence[FrozenTrial], objectives: Sequence[str]) -> str:
    """Return a CSV with a row for each trial; missing values are empty.

    Columns: number, state, value (with two objectives value_return and value_seconds), `params_<name>` for
    every parameter as it was sampled, the trial's attributes, start and end, and `hyperparams_<key>` for
    every resulting hyperparameter.
    """
    names = list(parameters(trials))
    keys, hyperparams = hyperparameters(trials)
    values = ["value"] if len(objectives) == 1 else [f"value_{objective}" for objective in objectives]
    header = ["number", "state", *values, *(f"params_{name}" for name in names), *ATTRIBUTES, "start", "end"]
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(cell, [*header, *(f"hyperparams_{key}" for key in keys)]))
    for trial in trials:
        moments = (trial.datetime_start, trial.datetime_complete)
        row = [trial.number, trial.state.name, *(trial.values or [""] * len(values))]
        row += [cell(trial.params.get(name)) for name in names]
        row += [cell(trial.user_attrs.get(name)) for name in ATTRIBUTES]
        row += [moment.isoformat() if moment else "" for moment in moments]
        row += [cell(hyperparams.get(trial.number, {}).get(key)) for key in keys]
        writer.writerow(row)
    return file.getvalue()

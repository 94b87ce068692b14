"""The trials of a study: which are the best, what they tried, and which parameters mattered."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from rlzoo.config.yaml_text import load_yaml
from rlzoo.core.errors import UserError

NOTHING = "-"
WIDTH = 80  # characters of the console's table
LEADING = ("learning_rate", "batch_size", "n_steps", "train_freq", "gamma")
"""Hyperparameters that tables show first: the rest follows alphabetically, in every run of a search alike."""
FEWEST_FOR_IMPORTANCES = 4


def trials_of(study: optuna.Study, n_trials: int | None = None) -> list[FrozenTrial]:
    """The trials that count, by number: those below the number of trials asked for.

    Two processes that fill one study at the same moment may leave surplus trials, which nobody takes.

    :param n_trials: the number asked for; None: as the study says
    """
    limit = study.user_attrs.get("n_trials", math.inf) if n_trials is None else n_trials
    return sorted(
        (trial for trial in study.get_trials(deepcopy=False) if trial.number < limit),
        key=lambda trial: trial.number,
    )


def ranked(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """The complete trials, the highest return first; of equals the earlier."""
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    return sorted(complete, key=lambda trial: (-trial.values[0], trial.number))


def best_trial(study: optuna.Study, n_trials: int | None = None) -> FrozenTrial | None:
    """The complete trial with the highest return, of two objectives too; None before there is one."""
    return next(iter(ranked(trials_of(study, n_trials))), None)


def top_trials(study: optuna.Study, n: int) -> list[FrozenTrial]:
    """At most `n` complete trials, the highest return first."""
    return ranked(trials_of(study))[:n]


def trial_by_number(study: optuna.Study, number: int) -> FrozenTrial:
    """A trial that can be trained with.

    :raises UserError: there is no such trial, or it did not get as far as its hyperparameters
    """
    trials = {trial.number: trial for trial in study.get_trials(deepcopy=False)}
    if number not in trials:
        known = f"it has 0 to {max(trials)}" if trials else "it has none yet"
        raise UserError(f"study {study.study_name!r} has no trial {number}; {known}")
    trial = trials[number]
    if not trial.user_attrs.get("hyperparams"):
        state = f"it is {trial.state.name.lower()}"
        raise UserError(f"trial {number} of study {study.study_name!r} has no hyperparameters; {state}")
    return trial


def parameters(trials: Sequence[FrozenTrial]) -> dict[str, BaseDistribution]:
    """Every parameter of any trial, in the order of sampling."""
    found: dict[str, BaseDistribution] = {}
    for trial in trials:
        for name, distribution in trial.distributions.items():
            found.setdefault(name, distribution)
    return found


def importances(trials: Sequence[FrozenTrial], objective: int = 0) -> dict[str, float]:
    """The share of each parameter in reaching the best tenth of the trials (PED-ANOVA), largest first.

    Empty with fewer than four complete trials, and where no parameter tells the best from the rest.
    Method: Watanabe, Bansal, Hutter, "PED-ANOVA", 2023.

    :param objective: 0 the return (high is good), 1 the seconds (low is good)
    """
    usable = [
        trial
        for trial in trials
        if trial.state == TrialState.COMPLETE and math.isfinite(trial.values[objective])
    ]
    if len(usable) < FEWEST_FOR_IMPORTANCES or not parameters(usable):
        return {}
    study = _single_objective(usable, objective)
    with warnings.catch_warnings():  # Optuna 4 calls the evaluator experimental
        warnings.simplefilter("ignore")
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        shares = optuna.importance.get_param_importances(study, evaluator=evaluator, normalize=False)
    shares = {name: share for name, share in shares.items() if math.isfinite(share)}
    total = sum(shares.values())
    if total <= 0:
        return {}
    return {name: share / total for name, share in sorted(shares.items(), key=lambda item: -item[1])}


def _single_objective(trials: Sequence[FrozenTrial], objective: int) -> optuna.Study:
    """A copy in memory of one objective of complete trials; `create_study` would log a line about it."""
    storage = optuna.storages.InMemoryStorage()
    direction = optuna.study.StudyDirection.MINIMIZE if objective else optuna.study.StudyDirection.MAXIMIZE
    storage.create_new_study([direction], "importances")
    study = optuna.load_study(study_name="importances", storage=storage)
    study.add_trials(
        optuna.trial.create_trial(
            params=trial.params, distributions=trial.distributions, value=trial.values[objective]
        )
        for trial in trials
    )
    return study


def text(value: Any) -> str:
    """A parameter or a value as people read it: four digits of a float, in a schedule too."""
    if isinstance(value, float):
        return f"{value:,.1f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"
    return re.sub(r"\d+\.\d{4,}(e-?\d+)?", lambda number: f"{float(number[0]):.4g}", str(value))  # lin_...


def range_text(distribution: BaseDistribution) -> str:
    """What a parameter was drawn from."""
    if isinstance(distribution, CategoricalDistribution):
        return ", ".join(text(choice) for choice in distribution.choices)
    if isinstance(distribution, FloatDistribution | IntDistribution):
        ends = f"{text(distribution.low)} to {text(distribution.high)}"
        step = f", in steps of {text(distribution.step)}" if distribution.step not in (None, 1) else ""
        return ends + (", logarithmic" if distribution.log else "") + step
    return str(distribution)


def hyperparameters(trials: Sequence[FrozenTrial]) -> tuple[list[str], dict[int, dict[str, Any]]]:
    """Return the hyperparameters of trials that were sampled or differ, in a fixed order.

    A sampler draws `log2(n_steps)` or `1 - gamma`; people read `n_steps` and `gamma`.

    :return: flat keys such as `policy_kwargs.net_arch`, and by number of the trial its values
    """
    found = {
        trial.number: dict(_flat(load_yaml(trial.user_attrs["hyperparams"], f"trial {trial.number}")))
        for trial in trials
        if trial.user_attrs.get("hyperparams")
    }
    if not found:
        found = {trial.number: dict(trial.params) for trial in trials}
    sampled = parameters(trials)
    shown = []
    for key in sorted({key for values in found.values() for key in values}):
        differs = len({repr(values.get(key)) for values in found.values()}) > 1
        if differs or any(_mentions(name, key) for name in sampled):
            shown.append(key)
    return sorted(shown, key=lambda key: LEADING.index(key) if key in LEADING else len(LEADING)), found


def _flat(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(values, Mapping) and (values or not path):
        for key, value in values.items():
            yield from _flat(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, values


def _mentions(name: str, key: str) -> bool:
    """Whether a sampled parameter, such as `log2(n_steps)`, stands for a hyperparameter."""
    return re.search(rf"(?<![\w.]){re.escape(key)}(?![\w.])", name) is not None


def short_names(names: Sequence[str]) -> dict[str, str]:
    """The last part of each key path where it is the only one of its kind, else the whole name."""
    last = [name.rsplit(".", 1)[-1] if re.fullmatch(r"[\w.]+", name) else name for name in names]
    return {name: part if last.count(part) == 1 else name for name, part in zip(names, last, strict=True)}


def top_table(study: optuna.Study, n: int = 10, width: int = WIDTH) -> str:
    """Format the best trials as a table, which names the hyperparameters that do not fit.

    :param width: of a line, in characters
    """
    trials = trials_of(study)
    best = ranked(trials)[:n]
    if not best:
        return "no trial is complete yet"
    columns = [
        ["trial", *(str(trial.number) for trial in best)],
        ["return", *(text(trial.values[0]) for trial in best)],
    ]
    if len(best[0].values) > 1:
        columns.append(["seconds", *(text(trial.values[1]) for trial in best)])
    keys, values = hyperparameters(trials)
    short, left_out = short_names(keys), []
    for key in keys:
        column = [short[key], *(text(values.get(trial.number, {}).get(key, NOTHING)) for trial in best)]
        if sum(_width(other) + 2 for other in columns) + _width(column) <= width:
            columns.append(column)
        else:
            left_out.append(short[key])
    lines = [
        "  ".join(cell.rjust(_width(column)) for cell, column in zip(row, columns, strict=True))
        for row in zip(*columns, strict=True)
    ]
    lines.insert(1, "  ".join("─" * _width(column) for column in columns))
    return "\n".join(lines + ([shorten(f"not shown: {', '.join(left_out)}", width)] if left_out else []))


def shorten(line: str, longest: int) -> str:
    """A line of at most so many characters, with three dots where something is missing."""
    return line if len(line) <= longest else line[: longest - 3] + "..."


def _width(column: list[str]) -> int:
    return max(map(len, column))

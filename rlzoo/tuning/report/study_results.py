"""Results of a study: the best trials, their hyperparameters, and the importance of parameters."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from rlzoo.config.values_as_text import load_yaml
from rlzoo.core.errors import UserError
from rlzoo.tuning.storage.study_integrity import SETTINGS

NOTHING = "-"
WIDTH = 80  # characters of the console's table
LEADING = ("learning_rate", "batch_size", "n_steps", "train_freq", "gamma")
"""Hyperparameters that tables show first; the others follow alphabetically."""
FEWEST_FOR_IMPORTANCES = 4


def trials_of(study: optuna.Study, n_trials: int | None = None) -> list[FrozenTrial]:
    """Return the trials of a study by number, without surplus ones.

    Two processes that enqueue trials at the same moment may leave surplus trials, which are never claimed.

    :param n_trials: number of trials of the study; None: the number that the study stores
    """
    limit = study.user_attrs.get("n_trials", math.inf) if n_trials is None else n_trials
    return sorted(
        (trial for trial in study.get_trials(deepcopy=False) if trial.number < limit),
        key=lambda trial: trial.number,
    )


def ranked(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Sort the complete trials by return, highest first; the earlier trial wins a tie."""
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    return sorted(complete, key=lambda trial: (-trial.values[0], trial.number))


def best_trial(study: optuna.Study, n_trials: int | None = None) -> FrozenTrial | None:
    """Return the complete trial with the highest return, also with two objectives; None if there is none."""
    return next(iter(ranked(trials_of(study, n_trials))), None)


def top_trials(study: optuna.Study, n: int) -> list[FrozenTrial]:
    """Return at most `n` complete trials, highest return first."""
    return ranked(trials_of(study))[:n]


def trial_by_number(study: optuna.Study, number: int) -> FrozenTrial:
    """Return a trial whose hyperparameters are known: they are stored, or those of RL Baselines3 Zoo drawn.

    :raises UserError: there is no such trial, or it ended before its hyperparameters were stored
    """
    trials = {trial.number: trial for trial in study.get_trials(deepcopy=False)}
    if number not in trials:
        known = f"it has 0 to {max(trials)}" if trials else "it has none yet"
        raise UserError(f"study {study.study_name!r} has no trial {number}; {known}")
    trial = trials[number]
    known_values = trial.user_attrs.get("hyperparams") if SETTINGS in study.user_attrs else trial.params
    if not known_values:
        state = f"it is {trial.state.name.lower()}"
        raise UserError(f"trial {number} of study {study.study_name!r} has no hyperparameters; {state}")
    return trial


def parameters(trials: Sequence[FrozenTrial]) -> dict[str, BaseDistribution]:
    """Return the parameters of all trials, in the order of sampling."""
    found: dict[str, BaseDistribution] = {}
    for trial in trials:
        for name, distribution in trial.distributions.items():
            found.setdefault(name, distribution)
    return found


def importances(trials: Sequence[FrozenTrial], objective: int = 0) -> dict[str, float]:
    """Compute the importance of each parameter for being among the best tenth of trials, largest first.

    Empty with fewer than four complete trials, and if no parameter distinguishes the best from the rest.
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
    """Copy one objective of complete trials to a study in memory, without the log line of `create_study`."""
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


def text(value: object) -> str:
    """Format a parameter or a value for readers: floats, also in a schedule, have four digits."""
    if isinstance(value, float):
        return f"{value:,.1f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"
    return re.sub(r"\d+\.\d{4,}(e-?\d+)?", lambda number: f"{float(number[0]):.4g}", str(value))  # lin_...


def range_text(distribution: BaseDistribution) -> str:
    """Describe the distribution of a parameter."""
    if isinstance(distribution, CategoricalDistribution):
        return ", ".join(text(choice) for choice in distribution.choices)
    if isinstance(distribution, FloatDistribution | IntDistribution):
        ends = f"{text(distribution.low)} to {text(distribution.high)}"
        step = f", in steps of {text(distribution.step)}" if distribution.step not in (None, 1) else ""
        return ends + (", logarithmic" if distribution.log else "") + step
    return str(distribution)


def hyperparameters(trials: Sequence[FrozenTrial]) -> tuple[list[str], dict[int, dict[str, object]]]:
    """Return the hyperparameters of trials that were sampled or differ, in a fixed order.

    A trial stores `log2(n_steps)` or `1 - gamma`; the tables show `n_steps` and `gamma`.

    :return: flat keys such as `policy_kwargs.net_arch`; number of the trial -> its values
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


def _flat(values: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield nested values by key path."""
    if isinstance(values, Mapping) and (values or not path):
        for key, value in values.items():
            yield from _flat(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, values


def _mentions(name: str, key: str) -> bool:
    """Return whether a sampled parameter, such as `log2(n_steps)`, determines a hyperparameter."""
    return re.search(rf"(?<![\w.]){re.escape(key)}(?![\w.])", name) is not None


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Return the last part of each key path, or the whole path if its last part is ambiguous."""
    last = [name.rsplit(".", 1)[-1] if re.fullmatch(r"[\w.]+", name) else name for name in names]
    return {name: part if last.count(part) == 1 else name for name, part in zip(names, last, strict=True)}


def top_table(study: optuna.Study, n: int = 10, width: int = WIDTH) -> str:
    """Format the best trials as a table; a last line names the hyperparameters that do not fit.

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
    """Cut a line to at most `longest` characters, ending in three dots."""
    return line if len(line) <= longest else line[: longest - 3] + "..."


def _width(column: list[str]) -> int:
    return max(map(len, column))

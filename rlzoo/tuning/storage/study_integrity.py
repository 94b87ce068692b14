"""Checks of what a study holds, made once, where it is opened: its file may be damaged, or somebody else's.

Whatever rlzoo or Optuna takes out of a study later is of the type, and in the range, that they wrote.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    check_distribution_compatibility,
)
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from rlzoo.core.errors import UserError, unknown
from rlzoo.io.atomic import atomic_write
from rlzoo.tuning.storage.optuna_internals import samplers_attributes
from rlzoo.tuning.storage.storage import reading
from rlzoo.tuning.storage.study_settings import StudySettings
from rlzoo.tuning.storage.trial_queue import FIXED

SETTINGS, N_TRIALS, TOKEN = "rlzoo", "n_trials", "token"  # user attributes of a study

# User attributes of a trial.
_ATTRIBUTES: dict[str, Any] = {
    "config": str, "hyperparams": str, "error": str, "worker": str, "attempts": int, "deaths": int,
    "heartbeat": int, "of": int, "run": int, "n_steps": int, "seconds": int | float, "seeds": list,
    "evaluations": list,
}  # fmt: skip
_TRAINING = ("of", "run", "config")  # every training of `--retrain-best` has all of them

# What Optuna, its samplers and its pruners keep with a trial, by patterns of the name.
_SYSTEM_ATTRIBUTES: dict[str, Any] = {
    FIXED: dict, "completed_rung_*": int | float, "*:generation": int, "tpe:relative_params*": str,
    "constraints": list,
}  # fmt: skip


def open_study(storage: BaseStorage, name: str) -> optuna.Study:
    """Return a study that is there already, checked.

    :raises UserError: there is none of that name, or it is damaged
    """
    with reading(f"study {name}"):
        try:
            study = optuna.load_study(study_name=name, storage=storage)
        except KeyError:
            study = None
    if study is None:
        with reading("the storage"):
            known = [str(other) for other in optuna.get_all_study_names(storage)]
        raise unknown("study", name, known)
    check_study(study)
    return study


def settings_of(study: optuna.Study) -> StudySettings:
    """:raises UserError: the study is not one of rlzoo"""
    if SETTINGS not in study.user_attrs:
        raise UserError(
            f"study {study.study_name} is not one of rlzoo: --trial-id K trains with what a trial has"
            " drawn, a search needs another --study-name"
        )
    return StudySettings.from_json(study.user_attrs[SETTINGS])


def claim_folder(study: optuna.Study, folder: Path) -> None:
    """Keep the results of studies that have one name in several storages apart.

    The first study whose results go into the folder leaves its token there.

    :raises UserError: the folder holds the results of another study
    """
    token, path = study.user_attrs.get(TOKEN), folder / "study.token"
    if token is None:  # of an earlier version
        return
    if not path.is_file():
        with atomic_write(path) as file:
            file.write(token.encode())
    elif path.read_text() != token:
        raise UserError(
            f"{folder} holds another study of that name, kept in another --storage: give another --study-name"
        )


def check_study(study: optuna.Study) -> None:
    """Check that everything in a study can be read, and is what rlzoo and Optuna write.

    :raises UserError: the first value that is not
    """
    where = f"study {study.study_name}"
    with reading(where):
        # The attributes first: others may be adding trials, and then say how many there are.
        attributes, directions = study.user_attrs, study.directions
        of_samplers = samplers_attributes(study)
        trials = study.get_trials(deepcopy=False)
        _check_study_attributes(attributes, of_samplers, [trial.number for trial in trials])
        settings = StudySettings.from_json(attributes[SETTINGS]) if SETTINGS in attributes else None
        names = [direction.name.lower() for direction in directions]
        if settings is not None and names != settings.directions:
            raise ValueError(f"it is to {' and '.join(names)}")
    known: dict[str, BaseDistribution] = {}
    for trial in trials:
        with reading(f"trial {trial.number} of {where}"):
            _check_attributes(trial, settings is not None and settings.retrain)
            _check_values(trial, len(directions))
            _check_drawn(trial, known)


def _check_study_attributes(attributes: object, of_samplers: object, numbers: list[int]) -> None:
    """Check a study's own attributes, and the numbers of its trials.

    :raises ValueError: the first that is not what rlzoo and Optuna write
    """
    if not isinstance(attributes, dict) or not isinstance(of_samplers, dict):
        raise ValueError("its attributes are no dictionary")
    for name, value in of_samplers.items():
        if ":parent:" in name and not _are_numbers(value, int):
            raise ValueError(f"{name} is {str(value)[:60]!r}")
    if not _are_numbers(numbers, int) or len(set(numbers)) < len(numbers) or min(numbers, default=0) < 0:
        raise ValueError("its trials are not numbered one by one")
    if not isinstance(attributes.get(TOKEN, ""), str):
        raise ValueError(f"{TOKEN} is {str(attributes[TOKEN])[:60]!r}")
    n_trials = attributes.get(N_TRIALS, 0)
    if type(n_trials) is not int or not 0 <= n_trials <= len(numbers):
        raise ValueError(f"n_trials is {str(n_trials)[:60]!r}, and it has {len(numbers)} trials")


def _check_attributes(trial: FrozenTrial, is_training: bool) -> None:
    """Check the types of a trial's attributes.

    :param is_training: of `--retrain-best`
    :raises ValueError: of the first that is of another one
    """
    if not isinstance(trial.user_attrs, dict) or not isinstance(trial.system_attrs, dict):
        raise ValueError("its attributes are no dictionary")
    for name, value in trial.user_attrs.items():
        if not _is_a(value, _ATTRIBUTES.get(name, object)):
            raise ValueError(f"{name} is {str(value)[:60]!r}")
    if (is_training or "of" in trial.user_attrs) and not trial.user_attrs.keys() >= set(_TRAINING):
        raise ValueError(f"it lacks one of {', '.join(_TRAINING)}")
    for name, value in trial.system_attrs.items():
        for pattern, kind in _SYSTEM_ATTRIBUTES.items():
            if fnmatchcase(name, pattern) and not _is_a(value, kind):
                raise ValueError(f"{name} is {str(value)[:60]!r}")


def _check_values(trial: FrozenTrial, n_values: int) -> None:
    """Check a trial's results and reports.

    :raises ValueError: they are not numbers, or missing
    """
    if trial.state == TrialState.COMPLETE and len(trial.values or ()) != n_values:
        raise ValueError("it is complete, but without its result")
    if not all(_is_a(value, int | float) for value in trial.values or ()):
        raise ValueError(f"its result is {trial.values!r:.60}")
    for step, value in trial.intermediate_values.items():
        if type(step) is not int or not _is_a(value, int | float):
            raise ValueError(f"it reports {value!r:.60} at {step!r:.60}")


def _check_drawn(trial: FrozenTrial, known: dict[str, BaseDistribution]) -> None:
    """Check that a trial's parameters are within their distributions, which all trials must share.

    :param known: distributions of the trials before; those of this one are added
    :raises ValueError, TypeError, AttributeError: they are not
    """
    for name, distribution in trial.distributions.items():
        if not isinstance(name, str):
            raise TypeError(f"a parameter is called {name!r:.60}")
        _check_distribution(name, distribution)
        value = trial.params[name]
        if not isinstance(distribution, CategoricalDistribution) and not _are_numbers([value]):
            raise TypeError(f"{name} is {str(value)[:60]!r}")
        check_distribution_compatibility(known.setdefault(name, distribution), distribution)
    values = trial.values if trial.state == TrialState.COMPLETE else None
    create_trial(state=trial.state, values=values, params=trial.params, distributions=trial.distributions)


def _check_distribution(name: str, distribution: BaseDistribution) -> None:
    """Check that a distribution is one that samplers can draw from.

    :raises ValueError: its ends or choices are of other types, or too large to be computed with
    """
    if isinstance(distribution, CategoricalDistribution):
        usable = all(
            choice is None or isinstance(choice, str | float) or _is_number(choice)
            for choice in distribution.choices
        )
    elif isinstance(distribution, IntDistribution):
        usable = _are_numbers([distribution.low, distribution.high, distribution.step], int)
    elif isinstance(distribution, FloatDistribution):
        step = 1.0 if distribution.step is None else distribution.step
        usable = _are_numbers([distribution.low, distribution.high, step])
        usable = usable and math.isfinite(distribution.high - distribution.low)
    else:
        usable = False
    if not usable or not isinstance(getattr(distribution, "log", False), bool):
        raise ValueError(f"{name} is drawn from {distribution!r:.60}")


def _is_a(value: object, kind: Any) -> bool:
    return isinstance(value, kind) and (kind is object or not isinstance(value, bool))


def _is_number(value: object, kind: Any = int | float) -> bool:
    """Return whether a value is a number that NumPy has a type for."""
    if isinstance(value, float):
        return isinstance(value, kind) and math.isfinite(value)
    return isinstance(value, kind) and -(2**63) <= value < 2**63


def _are_numbers(values: object, kind: Any = int | float) -> bool:
    return isinstance(values, Sequence) and all(
        _is_number(value, kind) and not isinstance(value, bool) for value in values
    )

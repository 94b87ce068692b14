"""Samplers that draw the same whoever runs a trial, and pruners."""

from __future__ import annotations

import importlib.util
import logging
import warnings
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from rlzoo.config.tune import PRUNERS, SAMPLERS
from rlzoo.core.errors import UserError
from rlzoo.tuning.storage import trial_queue as queue
from rlzoo.tuning.study import samplers
from rlzoo.tuning.study.samplers import (
    FEWEST_PAIRS,
    check_pair,
    choose_sampler,
    make_pruner,
    make_sampler,
    trial_seed,
)

MADE = [name for name in SAMPLERS if name != "auto"]


def new_study(sampler: str = "random") -> optuna.Study:
    directions = ["maximize", "minimize"] if sampler == "nsga2" else ["maximize"]
    # Hyperband chooses the bracket of a trial by the name of the study.
    return optuna.create_study(study_name="a", directions=directions)


def objective(trial: optuna.Trial) -> tuple[float, float]:
    x = trial.suggest_float("x", 1e-5, 1.0, log=True)
    y = trial.suggest_int("y", 1, 9)
    kind = trial.suggest_categorical("kind", ["a", "b"])
    z = trial.suggest_float("z", 0.0, 1.0) if kind == "a" else 0.5  # there for some trials only
    return -((x - 0.1) ** 2) - y * z, x


def run(study: optuna.Study, sampler: str, until: int, n_startup_trials: int = 4) -> list[dict[str, Any]]:
    """Run the trials below `until`, as workers do."""
    queue.enqueue_trials(study, until)
    while trial := queue.claim_trial(
        study, until, "host:1:0", lambda number: make_sampler(sampler, 7, n_startup_trials, 2, number)
    ):
        values = objective(trial)
        study.tell(trial, values if sampler == "nsga2" else values[0])
    return [trial.params for trial in study.trials]


@pytest.mark.parametrize("sampler", MADE)
def test_interrupted_study_samples_the_same_values(sampler: str, caplog: pytest.LogCaptureFixture) -> None:
    optuna.logging.enable_propagation()
    try:
        with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
            warnings.simplefilter("error")
            whole = run(new_study(sampler), sampler, 8)
            parts = new_study(sampler)
            run(parts, sampler, 5)
            assert run(parts, sampler, 8) == whole
    finally:
        optuna.logging.disable_propagation()
    assert [record for record in caplog.records if "greenlet" not in record.message] == []
    if sampler != "nsga2":  # whose children may keep a parameter of a parent
        assert len({params["x"] for params in whole}) == 8
        conditional = [params["z"] for params in whole if "z" in params]
        assert len(set(conditional)) == len(conditional) >= 2


@pytest.mark.parametrize("sampler", ["tpe", "gp", "cmaes", "nsga2"])
def test_samplers_learn_from_earlier_trials(sampler: str) -> None:
    def last(good: float) -> float:
        """What the sampler proposes when trials near `good` have done best."""
        study = new_study(sampler)
        for index in range(60):
            x = index / 59
            generation = {"NSGAIISampler:generation": 0, "nsga2:generation": 0}  # the latter up to Optuna 4.1
            values = [-abs(x - good), abs(x - good)]
            study.add_trial(
                optuna.trial.create_trial(
                    values=values[: len(study.directions)],
                    params={"x": x, "y": x},
                    distributions=dict.fromkeys("xy", optuna.distributions.FloatDistribution(0, 1)),
                    system_attrs=generation,
                )
            )
        proposed = []
        for number in range(60, 68):
            study.sampler = make_sampler(sampler, 1, 10, 1, number)
            trial = study.ask()
            proposed.append(trial.suggest_float("x", 0, 1))
            trial.suggest_float("y", 0, 1)
        return sum(proposed) / len(proposed)

    if sampler == "cmaes":  # begins in the middle, and moves by what its own proposals achieve
        study = new_study()
        for number in range(80):
            study.sampler = make_sampler("cmaes", 1, 1, 1, number)
            trial = study.ask()
            x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
            study.tell(trial, -((x - 0.9) ** 2) - (y - 0.9) ** 2)
        late = [trial.params["x"] for trial in study.trials[-10:]]
        assert sum(late) / 10 == pytest.approx(0.9, abs=0.1)
    else:
        assert last(0.1) < last(0.9) - 0.1


@pytest.mark.parametrize("running", [True, False])
def test_tpe_keeps_away_from_what_others_are_trying(running: bool) -> None:
    def proposed(n_jobs: int) -> list[float]:
        study = new_study()
        for number in range(20):
            study.sampler = make_sampler("tpe", 1, 10, n_jobs, number)
            trial = study.ask()
            x = trial.suggest_float("x", 0, 1)
            if number < 19 or not running:
                study.tell(trial, -abs(x - 0.5))
        found = []
        for number in range(20, 28):
            study.sampler = make_sampler("tpe", 1, 10, n_jobs, number)
            trial = study.ask()
            found.append(trial.suggest_float("x", 0, 1))
            study.tell(trial, state=TrialState.FAIL)
        return found

    assert (proposed(1) != proposed(2)) == running


def test_trials_have_seeds_of_their_own() -> None:
    assert len({trial_seed(seed, number) for seed in range(-2, 8) for number in range(50)}) == 500
    drawn = run(new_study(), "random", 3)
    again = new_study()
    queue.enqueue_trials(again, 3, [{}, {"y": 5}])
    assert run(again, "random", 3)[2] == drawn[2]  # whatever was drawn before it
    assert again.trials[1].params["y"] == 5


def test_auto_chooses_by_the_space_and_the_trials() -> None:
    assert choose_sampler("auto", 12, 2, 12) == "grid"
    assert choose_sampler("auto", 13, 9, 12) == "tpe"
    assert choose_sampler("auto", None, 2, 100) == "gp"
    assert choose_sampler("auto", None, 12, 100) == "tpe"
    assert choose_sampler("cmaes", 2, 1, 100) == "cmaes"


def test_unknown_names_are_mistakes_that_name_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown sampler 'tpee'; did you mean 'tpe'"):
        choose_sampler("tpee", None, 1, 1)
    with pytest.raises(UserError, match="unknown sampler 'auto'"):
        make_sampler("auto", 0, 1, 1)
    with pytest.raises(UserError, match="unknown pruner 'meian'; did you mean 'median'"):
        make_pruner("meian", 1, 1)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="cmaes needs cmaes: pip install cmaes"):
        make_sampler("cmaes", 0, 1, 1)
    with pytest.raises(UserError, match="pip install scipy"):
        make_pruner("wilcoxon", 1, 1)
    make_sampler("tpe", 0, 1, 1)
    assert all(importlib.util.find_spec(name) for names in samplers._PACKAGES.values() for name in names)


def pruned_at(name: str, value: float, n_evaluations: int = 9) -> int | None:
    """After how many reports a trial is pruned, when 20 trials reported 1, 2, 3, ... at all of theirs."""
    first = 0 if name == "wilcoxon" else 1  # as the objective reports
    study = new_study()
    study.pruner = make_pruner(name, 5, n_evaluations)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rank in range(1, 21):
            trial = study.ask()
            for step in range(n_evaluations):
                trial.report(rank + step / 100, first + step)
            trial.should_prune()
            study.tell(trial, float(rank))
        trial = study.ask()
        for step in range(n_evaluations):
            trial.report(value, first + step)
            if trial.should_prune():
                return step + 1
    return None


# To import what Wilcoxon's test needs takes longer than all the others.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "wilcoxon")) for name in PRUNERS]
)
def test_pruners_give_up_the_worst_and_let_the_best_run(name: str) -> None:
    worst = pruned_at(name, -100.0)
    assert (worst is None) == (name == "none")
    assert pruned_at(name, 100.0) is None
    if name in ("median", "percentile"):
        assert worst == 4  # the first third never prunes
    if name == "wilcoxon":
        assert worst == FEWEST_PAIRS


def test_percentile_is_stricter_than_median() -> None:
    assert pruned_at("median", 13.0) is None
    assert pruned_at("percentile", 13.0) is not None


def test_nothing_is_pruned_before_enough_trials_have_run() -> None:
    study = new_study()
    study.pruner = make_pruner("median", 5, 3)
    for rank in range(4):
        trial = study.ask()
        trial.report(float(rank), 2)
        study.tell(trial, float(rank))
    trial = study.ask()
    trial.report(-1.0, 2)
    assert not trial.should_prune()
    study.tell(trial, state=TrialState.FAIL)


def test_two_objectives_refuse_a_pruner() -> None:
    check_pair("nsga2", "none")
    check_pair("tpe", "median")
    with pytest.raises(UserError, match=r"nsga2 .* cannot prune; give --pruner none"):
        check_pair("nsga2", "median")

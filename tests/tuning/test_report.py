from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial
from studies import hyperparams_of, make_settings, make_study, make_trial, returns

from rlzoo.config.hyperparams import lookup
from rlzoo.core.errors import UserError
from rlzoo.tuning.report import study_report as report
from rlzoo.tuning.report import study_results as results

PNG = b"\x89PNG"
ALL = {"history", "importances", "parallel_coordinates", "slices", "intermediate_values", "timeline"}


def write(study: optuna.Study, folder: Path, **changes: Any) -> str:
    """Write the report; the text of its page."""
    report.write_report(study, make_settings(**changes), folder)
    return (folder / "report.html").read_text()


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "trials.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def specs_of(page: str) -> dict[str, Any]:
    """What plotly.js will draw."""
    found = re.search(r'<script type="application/json" id="specs">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    specs: dict[str, Any] = json.loads(found[1])
    return specs


@pytest.fixture(scope="module")
def study() -> optuna.Study:
    return make_study(n_complete=14, n_pruned=4, n_failed=2, n_waiting=3)


@pytest.fixture(scope="module")
def folder(study: optuna.Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report")
    write(study, path)
    return path


# -- which trials -------------------------------------------------------------------------------


def test_best_trial_has_the_highest_return(study: optuna.Study) -> None:
    best = report.best_trial(study)
    assert best is not None
    assert best.values[0] == max(returns(study))
    top = report.top_trials(study, 5)
    assert [trial.values[0] for trial in top] == sorted(returns(study), reverse=True)[:5]


def test_of_two_objectives_the_return_counts() -> None:
    study = make_study(n_complete=9, two=True)
    best = report.best_trial(study)
    assert best is not None
    assert best.values[0] == max(returns(study))


def test_of_equals_the_earlier_is_best() -> None:
    study = make_study()
    for value in (1.0, 3.0, 3.0):
        study.add_trial(create_trial(value=value))
    study.set_user_attr("n_trials", 3)
    assert [trial.number for trial in report.top_trials(study, 3)] == [1, 2, 0]


def test_surplus_trials_do_not_count() -> None:
    study = make_study(n_complete=3, n_waiting=2)
    study.add_trial(create_trial(value=1e6))
    assert len(report.trials_of(study)) == 5
    best = report.best_trial(study)
    assert best is not None
    assert best.number < 5
    assert report.best_trial(study, n_trials=0) is None


def test_trial_by_number() -> None:
    study = make_study(n_complete=2, n_waiting=1)
    assert report.trial_by_number(study, 0).number == 0  # 0 is a trial like any other
    with pytest.raises(UserError, match=r"no trial 7; it has 0 to 2$"):
        report.trial_by_number(study, 7)
    with pytest.raises(UserError, match=r"trial 2 .* has no hyperparameters; it is waiting$"):
        report.trial_by_number(study, 2)
    with pytest.raises(UserError, match="none yet"):
        report.trial_by_number(make_study(), 0)


# -- importances --------------------------------------------------------------------------------


def test_importances_find_the_parameter_that_matters() -> None:
    trials = report.trials_of(make_study(n_complete=40))
    shares = results.importances(trials)
    assert next(iter(shares)) == "learning_rate"
    assert sum(shares.values()) == pytest.approx(1)


def test_importances_of_seconds_want_them_low() -> None:
    study = make_study(two=True)
    rng = np.random.default_rng(1)
    distributions = {name: FloatDistribution(0, 1) for name in ("returns", "costs")}
    for _ in range(40):
        params = {name: float(rng.uniform()) for name in distributions}
        study.add_trial(
            create_trial(
                values=[params["returns"], params["costs"]], params=params, distributions=distributions
            )
        )
    study.set_user_attr("n_trials", 40)
    trials = report.trials_of(study)
    assert next(iter(results.importances(trials, 0))) == "returns"
    assert next(iter(results.importances(trials, 1))) == "costs"


@pytest.mark.parametrize("n_complete", [0, 1, 3])
def test_too_few_trials_have_no_importances(n_complete: int) -> None:
    assert results.importances(report.trials_of(make_study(n_complete=n_complete))) == {}


# -- files --------------------------------------------------------------------------------------


def test_best_yaml_is_a_file_of_hyperparameters(study: optuna.Study, folder: Path) -> None:
    best = report.best_trial(study)
    assert best is not None
    text = (folder / "best.yml").read_text()
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert f"trial {best.number}: return {results.text(best.values[0])}" in comments[0]
    assert f"--algo ppo --env MountainCarContinuous-v0 --conf-file {folder / 'best.yml'}" in comments[2]
    found = lookup("ppo", "MountainCarContinuous-v0", folder / "best.yml")
    assert found.values == hyperparams_of(best.params)


def test_trials_csv_has_every_trial_and_parameter(study: optuna.Study, folder: Path) -> None:
    rows = rows_of(folder)
    assert [int(row["number"]) for row in rows] == list(range(23))
    for row, trial in zip(rows, study.trials, strict=True):
        assert row["state"] == trial.state.name
        if trial.state == TrialState.COMPLETE:
            assert float(row["value"]) == trial.values[0]
            assert float(row["params_learning_rate"]) == trial.params["learning_rate"]
            assert int(row["hyperparams_n_steps"]) == 2 ** trial.params["log2(n_steps)"]
            assert json.loads(row["hyperparams_policy_kwargs.net_arch"])
            assert json.loads(row["seeds"]) == trial.user_attrs["seeds"]
        else:
            assert row["value"] == ""
        assert ("blew up" in row["error"]) == (trial.state == TrialState.FAIL)
    assert "hyperparams_policy" not in rows[0]  # the same in all


def test_csv_of_two_objectives(tmp_path: Path) -> None:
    study = make_study(n_complete=3, two=True)
    report.write_report(study, make_settings(sampler="nsga2"), tmp_path, figures=False)
    rows = rows_of(tmp_path)
    assert [float(rows[0][f"value_{name}"]) for name in ("return", "seconds")] == study.trials[0].values
    assert {path.name for path in tmp_path.iterdir()} == {"best.yml", "trials.csv"}


def test_page_and_pictures(folder: Path) -> None:
    pictures = {path.stem: path.read_bytes() for path in folder.glob("*.png")}
    assert set(pictures) == ALL
    assert all(content.startswith(PNG) and len(content) > 5000 for content in pictures.values())
    assert {name.rsplit("-", 1)[0] for name in specs_of((folder / "report.html").read_text())} == ALL
    assert not list(folder.glob(".*"))  # no temporary file stays


def test_page_needs_no_network_and_escapes_names(folder: Path) -> None:
    page = (folder / "report.html").read_text()
    assert "plotly.js v" in page
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r'(src|href)\s*=\s*["\']?(https?:|//)', own)
    assert "a &lt;study&gt; &amp; more" in own
    assert "<b>trial" not in own
    assert "\\u003c" not in json.dumps(own.split("specs")[0])


def test_pareto_front_is_not_beaten(tmp_path: Path) -> None:
    study = make_study(n_complete=20, two=True)
    specs = specs_of(write(study, tmp_path, sampler="nsga2"))
    assert (tmp_path / "pareto_front.png").read_bytes().startswith(PNG)
    assert {"history-0", "history-1"} <= set(specs)
    front = next(trace for trace in specs["pareto_front-0"]["data"] if trace["name"] == "front")
    expected = {(trial.values[1], trial.values[0]) for trial in study.best_trials}
    assert set(zip(front["x"], front["y"], strict=True)) == expected


@pytest.mark.parametrize(("n_complete", "two"), [(0, False), (0, True), (1, True), (2, False)])
def test_few_trials_are_no_mistake(n_complete: int, two: bool, tmp_path: Path) -> None:
    study = make_study(n_complete=n_complete, n_waiting=2, two=two)
    page = write(study, tmp_path, sampler="nsga2" if two else "tpe")
    assert (tmp_path / "best.yml").exists() == (n_complete > 0)
    assert len(rows_of(tmp_path)) == n_complete + 2
    assert page.count("This figure needs") == (4 + two, 2, 1)[n_complete]
    assert report.top_table(study).count("\n") == (n_complete + 1 if n_complete else 0)


def test_only_failed_and_running_trials(tmp_path: Path) -> None:
    study = make_study(n_failed=2)
    study.add_trial(create_trial(state=TrialState.RUNNING))
    study.set_user_attr("n_trials", 3)
    page = write(study, tmp_path)
    assert "ValueError: &lt;b&gt;trial 0&lt;/b&gt; blew up" in page
    assert "2 of 3" in page
    assert set(specs_of(page)) == {"timeline-0"}


def test_values_that_are_not_finite(tmp_path: Path) -> None:
    study = make_study(n_complete=6)
    rng = np.random.default_rng(3)
    diverged = make_trial(TrialState.COMPLETE, 6, rng)
    diverged.values = [-math.inf]
    diverged.intermediate_values = {0: math.nan, 1: math.inf}
    study.add_trial(diverged)
    study.set_user_attr("n_trials", 7)
    page = write(study, tmp_path)
    assert report.top_trials(study, 7)[-1].number == 6
    assert rows_of(tmp_path)[6]["value"] == "-inf"
    assert set(specs_of(page)["history-0"]["data"][0]["x"]) == set(range(6))


def test_trials_that_were_told_by_hand_have_no_best_yaml(tmp_path: Path) -> None:
    study = make_study()
    study.add_trial(create_trial(value=1.0))
    write(study, tmp_path)
    assert not (tmp_path / "best.yml").exists()


# -- the console's table ------------------------------------------------------------------------


def test_top_table(study: optuna.Study) -> None:
    header, rule, *lines = report.top_table(study, n=3).splitlines()
    best = report.top_trials(study, 3)
    assert header.split()[:2] == ["trial", "return"]
    assert "n_steps" in header.split()
    assert "log2" not in header
    assert [line.split()[0] for line in lines[:3]] == [str(trial.number) for trial in best]
    column = header.split().index("n_steps")
    assert re.split("  +", lines[0].strip())[column] == str(2 ** best[0].params["log2(n_steps)"])
    assert len(header) == len(rule) <= 80


def test_top_table_begins_with_the_step_size() -> None:
    study = make_study()
    names = ["zeta", "n_steps", "a_rather_long_name_which_takes_the_room", "batch_size", "learning_rate"]
    params, distributions = dict.fromkeys(names, 0.5), dict.fromkeys(names, FloatDistribution(0, 1))
    for _ in range(5):
        study.add_trial(create_trial(value=1.0, params=params, distributions=distributions))
    header, *_, left_out = report.top_table(study).splitlines()
    assert header.split() == ["trial", "return", "learning_rate", "batch_size", "n_steps", "zeta"]
    assert left_out == "not shown: a_rather_long_name_which_takes_the_room"
    assert "which_takes_the_room" in report.top_table(study, width=120).splitlines()[0]


def test_top_table_names_what_does_not_fit() -> None:
    study = make_study()
    names = [f"a_rather_long_name_{k}" for k in range(12)]
    params, distributions = dict.fromkeys(names, 0.5), dict.fromkeys(names, FloatDistribution(0, 1))
    study.add_trial(create_trial(value=1.0, params=params, distributions=distributions))
    lines = report.top_table(study).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1].startswith("not shown: a_rather_long_name_")
    assert report.top_table(make_study(n_waiting=2)) == "no trial is complete yet"


def test_a_schedule_is_shown_with_four_digits() -> None:
    assert results.text("lin_4.0071746330047456e-05") == "lin_4.007e-05"
    assert results.text("lin_0.00020375923406506212_1e-05") == "lin_0.0002038_1e-05"
    assert results.text("lin_0.1") == "lin_0.1"

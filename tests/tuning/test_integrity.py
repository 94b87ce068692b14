"""Studies that are damaged are refused where they are opened, in one line."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import TrialState, create_trial

from rlzoo.cli.main import main
from rlzoo.core.errors import UserError
from rlzoo.tuning.storage.storage import JOURNAL, open_storage
from rlzoo.tuning.storage.study_integrity import check_study, claim_folder, open_study
from rlzoo.tuning.study.study import create_or_check_study
from rlzoo.tuning.study.trial_worker import main as run_worker
from tests.tuning.studies import make_settings, make_study

Change = Callable[[optuna.Study], Any]


def set_settings(**changes: Any) -> Change:
    return lambda study: study.set_user_attr("rlzoo", make_settings(**changes).to_json())


def add(study: optuna.Study, **values: Any) -> None:
    study.add_trial(create_trial(**{"state": TrialState.WAITING, **values}))


def add_drawn(distribution: BaseDistribution, value: Any) -> Change:
    return lambda study: add(
        study, state=TrialState.FAIL, params={"x": value}, distributions={"x": distribution}
    )


def set_of_samplers(study: optuna.Study) -> None:
    study._storage.set_study_system_attr(study._study_id, "NSGAIISampler:parent:0", ["x"])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda study: study.set_user_attr("n_trials", 10**12), "n_trials is '1000000000000', and it has 4"),
        (lambda study: study.set_user_attr("n_trials", -1), "n_trials is '-1'"),
        (lambda study: study.set_user_attr("token", 3), "token is '3'"),
        (set_settings(sampler="nsga2"), "to maximize"),
        (
            lambda study: study.set_user_attr("rlzoo", make_settings(retrain=True).to_json()),
            "it lacks one of",
        ),
        (lambda study: add(study, user_attrs={"of": 1, "config": "{}"}), "lacks one of of, run, config"),
        (lambda study: add(study, user_attrs={"seconds": True}), "seconds is 'True'"),
        (lambda study: add(study, system_attrs={"fixed_params": [1]}), "fixed_params is"),
        (lambda study: add(study, system_attrs={"NSGAIISampler:generation": "x"}), "generation is 'x'"),
        (lambda study: add(study, system_attrs={"completed_rung_0": {}}), "completed_rung_0 is"),
        (set_of_samplers, "NSGAIISampler:parent:0 is"),
        (add_drawn(IntDistribution(1, 10**40), 3), "x is drawn from"),
        (add_drawn(FloatDistribution(-1e308, 1e308), 3.0), "x is drawn from"),
        (add_drawn(CategoricalDistribution(("a", 10**40)), "a"), "x is drawn from"),
        (add_drawn(FloatDistribution(0, 1), "0.5"), "x is '0.5'"),
    ],
)
def test_value_of_another_kind_is_refused(damage: Change, message: str) -> None:
    study = make_study(2, n_pruned=1, n_failed=1)
    study.set_user_attr("rlzoo", make_settings().to_json())
    check_study(study)
    damage(study)
    with pytest.raises(UserError, match=message) as caught:
        check_study(study)
    assert "is damaged: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_studies_of_one_name_have_their_own_folders(tmp_path: Path) -> None:
    storages = [open_storage(str(tmp_path / f"{name}.log"), tmp_path) for name in "ab"]
    one, other = [create_or_check_study(storage, "first", make_settings()) for storage in storages]
    folder = tmp_path / "first"
    folder.mkdir()
    for study in (one, create_or_check_study(storages[0], "first", make_settings())):
        claim_folder(study, folder)
    with pytest.raises(UserError, match="holds another study of that name, kept in another --storage"):
        claim_folder(other, folder)


def test_study_of_samplers_that_keep_attributes_is_accepted() -> None:
    study = make_study(2)
    system = {"fixed_params": {"x": 1}, "NSGAIISampler:generation": 0, "completed_rung_0": 1.5}
    add(study, system_attrs=system, user_attrs={"of": 0, "run": 0, "config": "{}", "mine": None})
    add(study, state=TrialState.COMPLETE, values=[float("inf")])
    check_study(study)


@pytest.mark.parametrize("line", [b'{"op_code":5,"wor\n', b"\0\0\0\n", b"[1]\n", b"\n"])
def test_damaged_last_line_of_a_journal_is_refused(line: bytes, tmp_path: Path) -> None:
    """Optuna passes over it, and can read nothing more once another line follows."""
    create_or_check_study(open_storage(None, tmp_path), "s", make_settings())
    with open(tmp_path / JOURNAL, "ab") as file:
        file.write(line)
    content = (tmp_path / JOURNAL).read_bytes()
    with pytest.raises(UserError, match=r"the journal .*journal\.log is damaged"):
        create_or_check_study(open_storage(None, tmp_path), "s", make_settings())
    assert (tmp_path / JOURNAL).read_bytes() == content


def test_torn_last_line_of_a_journal_is_passed_over(tmp_path: Path) -> None:
    create_or_check_study(open_storage(None, tmp_path), "s", make_settings())
    with open(tmp_path / JOURNAL, "ab") as file:
        file.write(b'{"op_code":5,"wor')
    create_or_check_study(open_storage(None, tmp_path), "s", make_settings()).set_user_attr("n_trials", 0)
    assert open_study(open_storage(None, tmp_path), "s").user_attrs["n_trials"] == 0


@pytest.mark.parametrize(
    "statement",
    ["update study_directions set direction = 'x'", "update study_user_attributes set value_json = ''"],
)
def test_unknown_name_in_a_damaged_database_is_one_line(statement: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 's.db'}"
    create_or_check_study(open_storage(url, tmp_path), "s", make_settings())
    with sqlite3.connect(tmp_path / "s.db") as database:
        database.execute("pragma ignore_check_constraints = 1")
        database.execute(statement)
    with pytest.raises(UserError, match="the storage is damaged: ") as caught:
        open_study(open_storage(url, tmp_path), "t")
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="study s is damaged: "):
        create_or_check_study(open_storage(url, tmp_path), "s", make_settings())


def test_database_with_a_damaged_schema_is_one_line(tmp_path: Path) -> None:
    """SQLite's own message then holds bytes that are no UTF-8."""
    url = f"sqlite:///{tmp_path / 's.db'}"
    create_or_check_study(open_storage(url, tmp_path), "s", make_settings())
    with sqlite3.connect(tmp_path / "s.db") as database:
        database.execute("pragma writable_schema = 1")
        database.execute(
            "update sqlite_master set name = cast(x'd2d2' as text), sql = 'x' where name = 'studies'"
        )
    with pytest.raises(UserError, match=r"storage sqlite:.*s\.db is damaged: ") as caught:
        open_storage(url, tmp_path)
    assert "\n" not in str(caught.value)


def test_damaged_study_ends_the_command_with_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "logs" / "optimize" / "s"
    create_or_check_study(open_storage(None, folder), "s", make_settings())
    with open(folder / JOURNAL, "a") as file:
        file.write(json.dumps({"op_code": 99}) + "\nx\n")
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(main(["optimize", "--report", "s"]))
    assert ended.value.code == 2
    said = capsys.readouterr().err.strip()
    assert "is damaged" in said
    assert len(said.splitlines()) == 1


def test_worker_of_a_study_of_another_program_ends_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    optuna.create_study(storage=open_storage(None, tmp_path), study_name="s")
    assert run_worker(["--study", "s", "--folder", str(tmp_path)]) == 1
    said = capsys.readouterr().err.strip()
    assert (
        said.startswith("rlzoo: study s is not one of rlzoo: --trial-id K trains with") and "\n" not in said
    )

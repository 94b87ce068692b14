"""Scripts for stable-baselines3 run unmodified, and their table says so."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def load() -> ModuleType:
    path = Path(__file__).parents[2] / "scripts" / "compat_table.py"
    spec = importlib.util.spec_from_file_location("compat_table", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["compat_table"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


TABLE = load()
FAST = (
    "custom/dict_features_extractor",
    "vec_envs/dummy_of_lambdas",
    "vec_envs/step_by_hand",
    "zoo/wrappers",
)


def python_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TABLE.ROOT))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in TABLE.find()]
)
def test_script_runs_unmodified(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    python_path(monkeypatch)
    ended = TABLE.run([sys.executable, "-m", "rlzoo.compat"], name)
    assert not TABLE.failed(name, ended), ended.error


def test_intended_failures_are_of_existing_scripts() -> None:
    assert set(TABLE.INTENDED) <= set(TABLE.find())
    assert not set(TABLE.INTENDED) & set(FAST)


def test_scripts_are_found_by_a_part_of_their_name() -> None:
    assert TABLE.find(["vec_envs/record"]) == ["vec_envs/record_video"]
    assert TABLE.find(["no such script"]) == []


def test_bare_assertion_is_shown_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TABLE, "SCRIPTS", tmp_path)
    (tmp_path / "script.py").write_text("print('one')\nassert 1 == 2\n")
    assert TABLE.run([sys.executable], "script").error == "AssertionError: assert 1 == 2"


def test_row_shows_the_error_of_rlzoo_first() -> None:
    runs, fails = TABLE.Outcome(2.4), TABLE.Outcome(0.2, "KeyError: 'a|b'")
    assert TABLE.row("a/b", runs, None) == "| a/b | runs (2 s) |  |"
    assert TABLE.row("a/b", fails, runs) == "| a/b | fails (0 s) | runs (2 s) | KeyError: 'a\\|b' |"


def test_another_error_than_the_intended_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TABLE, "INTENDED", {"a/b": "override"})
    assert not TABLE.failed("a/b", TABLE.Outcome(1.0, "UserError: do not override train"))
    assert TABLE.failed("a/b", TABLE.Outcome(1.0, "KeyError: 1"))
    assert TABLE.failed("a/b", TABLE.Outcome(1.0))

"""`rlzoo dashboard`: it serves the study that was asked for, or says what is missing."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import optuna
import pytest

from rlzoo.cli.main import main
from rlzoo.config.tune import study_folder
from rlzoo.tuning.storage.storage import open_storage


def test_without_the_extra_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "optuna_dashboard", None)
    assert main(["dashboard", "any"]) == 2
    assert capsys.readouterr().err.endswith("[dashboard]'\n")


def test_the_storage_of_the_study_is_served(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    served: list[Any] = []
    extra = ModuleType("optuna_dashboard")
    extra.run_server = lambda storage, host, port: served.append((storage, host, port))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "optuna_dashboard", extra)
    optuna.create_study(storage=open_storage(None, study_folder(tmp_path, "mine")), study_name="mine")
    assert main(["dashboard", "mine", "-f", str(tmp_path), "--port", "8123"]) == 0
    ((storage, host, port),) = served
    assert [study.study_name for study in storage.get_all_studies()] == ["mine"]
    assert (host, port) == ("127.0.0.1", 8123)
    assert main(["dashboard", "other", "-f", str(tmp_path)]) == 2
    assert len(served) == 1

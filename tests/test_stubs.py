"""The stub that editors read is what scripts/make_stubs.py would write now."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import rlzoo

SCRIPT = Path(__file__).parents[1] / "scripts" / "make_stubs.py"


@pytest.fixture(scope="module")
def make_stubs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_stubs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_stub_is_current(make_stubs: ModuleType) -> None:
    assert make_stubs.TARGET.read_text() == make_stubs.stub_text(), "run python scripts/make_stubs.py"


def test_stub_shows_every_hyperparameter(make_stubs: ModuleType) -> None:
    text = make_stubs.algorithm_stub("PPO", rlzoo.PPO)
    for name, parameter in inspect.signature(rlzoo.PPO).parameters.items():
        if name not in ("policy", "env") and not name.startswith("_"):
            assert f"        {name}: " in text, name
            assert f" = {make_stubs.literal(parameter.default)}," in text, name


def test_package_is_marked_as_typed() -> None:
    assert (Path(rlzoo.__file__).parent / "py.typed").is_file()

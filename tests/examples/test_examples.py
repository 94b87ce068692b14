"""Every script of examples/ runs with few steps, and its README lists it."""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT: dict[str, tuple[Any, ...]] = {
    "action_masks": (600,),
    "compare": (300, 2),
    "hindsight": (300,),
    "own_callback": (600,),
    "own_environment": (1_100,),
    "own_features_extractor": (300,),
    "own_replay_buffer": (700,),
    "pixels": (512,),
    "recurrent": (1_100,),
    "train_and_save": (600,),
    "tune": (256, 1),
}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SHORT)
def test_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = load(name).main(*SHORT[name])
    assert np.isfinite(found).all()
    assert capsys.readouterr().out.strip()


def test_readme_lists_every_example() -> None:
    scripts = {path.stem for path in EXAMPLES.glob("*.py")}
    assert scripts == set(SHORT)
    assert set(re.findall(r"\]\((\w+)\.py\)", (EXAMPLES / "README.md").read_text())) == scripts


@pytest.mark.parametrize("name", SHORT)
def test_example_is_short_and_says_how_to_run_it(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text()
    assert len(text.splitlines()) <= 60
    assert f"python examples/{name}.py" in text.split('"""')[1]

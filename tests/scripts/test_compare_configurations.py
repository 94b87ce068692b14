"""Random configurations are trained on both sides; here one of each algorithm, on this side."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "compare_configurations.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compare_configurations", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_configuration_of_each_algorithm_trains(script: ModuleType, tmp_path: Path) -> None:
    count = len(script.ALGORITHMS)
    command = [sys.executable, "-m", "rlzoo.compat", SCRIPT, "--side", tmp_path, "--count", str(count)]
    subprocess.run(command, check=True, timeout=300)
    assert sorted(tmp_path.glob("*.txt")) == []
    for seed in range(count):
        found = np.load(tmp_path / f"{seed}.npz")
        names = [name for name in found.files if not name.startswith("before/")]
        assert any(np.any(found[name] != found[f"before/{name}"]) for name in names)


def test_configurations_are_drawn_again(script: ModuleType) -> None:
    drawn = [script.configuration(seed) for seed in range(24)]
    assert drawn == [json.loads(json.dumps(script.configuration(seed))) for seed in range(24)]
    assert len({json.dumps(made["keywords"]) for made in drawn}) == 24


def test_difference_is_relative_to_how_far_training_went(script: ModuleType, tmp_path: Path) -> None:
    one, other = tmp_path / "one.npz", tmp_path / "other.npz"
    np.savez(one, **{"w": np.array([3.0, 4.5]), "before/w": np.zeros(2)})
    np.savez(other, **{"w": np.array([3.0, 4.0]), "before/w": np.zeros(2)})
    assert script.difference(one, other) == pytest.approx(0.1)


@pytest.mark.parametrize(
    "changed",
    [
        {"w": np.zeros(1)},
        {"v": np.zeros(2), "before/v": np.zeros(2)},
        {"before/w": np.ones(2)},
    ],
)
def test_parameters_that_cannot_be_compared_are_an_error(
    script: ModuleType, tmp_path: Path, changed: dict[str, np.ndarray]
) -> None:
    same = {"w": np.ones(2), "before/w": np.zeros(2)}
    one, other = tmp_path / "one.npz", tmp_path / "other.npz"
    np.savez(one, **{**same, **changed})  # type: ignore[arg-type]
    np.savez(other, **same)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"same on both sides|before training"):
        script.difference(one, other)
    np.savez(one, **{**same, "w": np.array([1.0, np.nan])})  # type: ignore[arg-type]
    assert script.difference(one, other) == np.inf


def test_the_table_lists_large_differences_and_errors(script: ModuleType, tmp_path: Path) -> None:
    sides = [tmp_path / name for name in ("here", "there", "nudged")]
    for side, value in zip(sides, (1.0, 1.1, 1.1), strict=True):
        side.mkdir()
        np.savez(side / "0.npz", **{"w": np.array([value]), "before/w": np.zeros(1)})
        (side / "1.txt").write_text(f"ValueError: {value}")
        np.savez(side / "2.npz", **{side.name: np.zeros(1)})  # type: ignore[arg-type]
    lines = script.table(sides, range(3)).splitlines()
    assert lines[2] == f"| {script.ALGORITHMS[0]} | 1 | 9.1e-02 | 9.1e-02 | 0.0e+00 | 0.0e+00 |"
    assert lines[4].startswith("- 9.1e-02 (nudged 0.0e+00): ")
    assert lines[5].endswith("here ValueError: 1.0; there ValueError: 1.1")
    assert lines[6].endswith("is not the same on both sides")

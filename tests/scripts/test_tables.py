"""The figures that the scripts print are the ones that were measured."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def speed() -> ModuleType:
    return load("compare_speed")


@pytest.fixture(scope="module")
def learning() -> ModuleType:
    return load("learning_runs")


def test_training_ratio_is_ours_over_theirs(speed: ModuleType) -> None:
    rows = [
        {"side": side, "steps_per_s": value, "steps": 1000, "cpu_seconds": 1000 / value}
        for ours, theirs in [(300, 100), (200, 100), (900, 300)]
        for side, value in [(speed.OURS, ours), (speed.THEIRS, theirs)]
    ]
    assert speed.table_row("ppo-cartpole", rows) == (
        "| ppo-cartpole | 300 steps/s | 100 steps/s | **3.00** | 3.00, 2.00, 3.00 | 3.00 |"
    )


def test_cold_ratio_is_of_seconds(speed: ModuleType) -> None:
    rows = [{"side": speed.OURS, "seconds": 0.1}, {"side": speed.THEIRS, "seconds": 4.0}]
    assert speed.table_row("help", rows) == "| help | 0.10 s | 4.00 s | **0.03** | 0.03 | - |"


@pytest.mark.parametrize("case", ["ppo-cartpole", "a2c-cartpole", "ppo-halfcheetah", "ppo-pong"])
def test_both_sides_get_the_same_plain_values(speed: ModuleType, case: str) -> None:
    spec = speed.specification(speed.CASES[case], steps=None)
    assert spec["n_envs"] == speed.CASES[case].n_envs
    assert spec["policy"] == ("CnnPolicy" if case == "ppo-pong" else "MlpPolicy")
    assert not {"n_envs", "n_timesteps", "policy", "frame_stack", "env_wrapper"} & set(spec["hyperparams"])
    for value in spec["hyperparams"].values():
        assert isinstance(value, int | float | str | bool | None)


def test_linear_schedule_becomes_a_function(speed: ModuleType) -> None:
    assert speed.their_value("lin_0.2")(0.5) == pytest.approx(0.1)
    assert speed.their_value(64) == 64


def test_median_decides(learning: ModuleType) -> None:
    row = learning.Row("ppo", "CartPole-v1", 500)
    results = [
        learning.Result(seed, mean, 0.0, 100_000, 60.0) for seed, mean in enumerate([500.0, 480.0, 500.0])
    ]
    assert learning.table_row(row, results).endswith("| 500.0 | 500 | reached |")
    results[0] = learning.Result(0, 499.0, 0.0, 100_000, 60.0)
    assert learning.table_row(row, results).endswith("| 499.0 | 500 | **missed** |")


def test_row_of_the_table_keeps_its_target(learning: ModuleType) -> None:
    assert learning.parse_row("ppo:Pendulum-v1").episodes == 1000
    assert learning.parse_row("ppo:Acrobot-v1").target is None

"""The figures that the scripts print are the ones that were measured."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
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
def worker() -> ModuleType:
    return load("speed_worker")


def test_training_ratio_is_ours_over_theirs(speed: ModuleType) -> None:
    rows = [
        {"side": side, "steps_per_s": value, "steps": 1000, "cpu_seconds": 1000 / value}
        for ours, theirs in [(300, 100), (200, 100), (900, 300)]
        for side, value in [(speed.OURS, ours), (speed.OTHER, theirs)]
    ]
    assert speed.table_row("ppo-cartpole", rows) == (
        "| ppo-cartpole | 300 steps/s | 100 steps/s | **3.00** | 3.00, 2.00, 3.00 | 3.00 |"
    )


def test_cold_ratio_is_of_seconds(speed: ModuleType) -> None:
    rows = [{"side": speed.OURS, "seconds": 0.1}, {"side": speed.OTHER, "seconds": 4.0}]
    assert speed.table_row("help", rows) == "| help | 0.10 s | 4.00 s | **0.03** | 0.03 | - |"


@pytest.mark.parametrize("case", load("compare_speed").CASES)
def test_both_sides_get_the_same_plain_values(speed: ModuleType, case: str) -> None:
    if isinstance(speed.CASES[case], speed.Cold):
        return
    spec = speed.specification(speed.CASES[case], steps=None)
    assert spec["n_envs"] == speed.CASES[case].n_envs
    expected = {
        "pong": "CnnPolicy",
        "bitflipping": "MultiInputPolicy",
        "ppo_lstm": "MlpLstmPolicy",
        "ars": "LinearPolicy",
    }
    assert spec["policy"] == next((policy for what, policy in expected.items() if what in case), "MlpPolicy")
    assert not {"n_envs", "n_timesteps", "policy", "frame_stack", "env_wrapper"} & set(spec["hyperparams"])
    assert json.loads(json.dumps(spec)) == spec


def test_a_case_may_change_what_is_shipped(speed: ModuleType) -> None:
    assert speed.specification(speed.CASES["dqn-pong"], steps=None)["hyperparams"]["buffer_size"] == 8_000


def test_her_is_the_learner_with_a_replay_buffer_by_name(speed: ModuleType, worker: ModuleType) -> None:
    spec = speed.specification(speed.CASES["her-bitflipping"], steps=10)
    assert (spec["algo"], spec["steps"]) == ("dqn", 10)
    assert spec["hyperparams"]["replay_buffer_class"] == "HerReplayBuffer"
    assert worker.our_value("replay_buffer_class", "HerReplayBuffer").__name__ == "HerReplayBuffer"


def test_values_that_json_cannot_hold(worker: ModuleType) -> None:
    assert worker.their_value("clip_range", "lin_0.2")(0.5) == pytest.approx(0.1)
    assert worker.their_value("batch_size", 64) == 64
    assert worker.our_value("train_freq", [1, "episode"]) == (1, "episode")
    assert worker.their_value("train_freq", [1, "episode"]) == (1, "episode")


def test_replay_memory_of_both_sides(worker: ModuleType) -> None:
    array = np.zeros((4, 3), np.float32)
    theirs = SimpleNamespace(observations={"a": array, "b": array}, rewards=array, pos=3)
    assert worker.replay_bytes(theirs) == 3 * array.nbytes
    assert worker.replay_bytes(SimpleNamespace(nbytes=12)) == 12


def test_memory_ratio_is_ours_over_theirs(speed: ModuleType) -> None:
    rows = [
        {"side": side, "replay_mb": replay, "peak_mb": peak}
        for side, replay, peak in [(speed.OURS, 10.0, 500.0), (speed.OTHER, 80.0, 1000.0)]
    ]
    row = speed.memory_row("dqn-pong", rows)
    assert row == "| dqn-pong | 10.0 MB | 80.0 MB | **0.12** | 500.0 MB | 1,000.0 MB | **0.50** |"

"""Runs on an environment that goes wrong on demand."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from rlzoo.config.run import RunConfig

HERE = Path(__file__).parent
VALUES = """\
Faulty-v0: &small
  policy: MlpPolicy
  n_envs: 2
  n_timesteps: 400
  n_steps: 20
  batch_size: 20
  n_epochs: 2
  normalize: true
  policy_kwargs: {net_arch: [8]}
CartPole-v1: *small
"""
REPLAY_VALUES = """\
default:
  policy: MlpPolicy
  n_envs: 2
  n_timesteps: 400
  buffer_size: 300
  learning_starts: 20
  batch_size: 4
  train_freq: 4
  policy_kwargs: {net_arch: [8]}
"""


@pytest.fixture(autouse=True)
def faulty_envs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, importable here and in the processes that a test starts."""
    monkeypatch.syspath_prepend(str(HERE))
    root = str(HERE.parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, str(HERE), os.environ.get("PYTHONPATH", "")]))
    import faulty_envs

    return faulty_envs


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A hyperparameter file with small numbers."""
    path = tmp_path / "conf.yml"
    path.write_text(VALUES)
    return path


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


@pytest.fixture
def run(conf: Path, logs: Path) -> Any:
    """Makes the RunConfig of a small run; keywords are its fields."""

    def make(**fields: Any) -> RunConfig:
        defaults: dict[str, Any] = {
            "algo": "ppo",
            "env_id": "Faulty-v0",
            "gym_packages": ("faulty_envs",),
            "conf_file": str(conf),
            "log_folder": str(logs),
            "seed": 0,
            "eval_freq": -1,
            "verbose": 0,
            "device": "cpu",
        }
        return RunConfig(**{**defaults, **fields})

    return make


@pytest.fixture
def replay_conf(tmp_path: Path) -> Path:
    """The same for algorithms that replay experience."""
    path = tmp_path / "replay.yml"
    path.write_text(REPLAY_VALUES)
    return path


@pytest.fixture
def replay_run(run: Any, replay_conf: Path) -> Any:
    """Makes the RunConfig of a small run of DQN that keeps its replay buffer."""

    def make(**fields: Any) -> RunConfig:
        defaults: dict[str, Any] = {"algo": "dqn", "conf_file": str(replay_conf), "save_replay_buffer": True}
        return run(**{**defaults, **fields})

    return make


@pytest.fixture
def replay_command(command: list[str], replay_conf: Path) -> list[str]:
    """The same run as the beginning of a command line."""
    changed = [*command, "--algo", "dqn", "-conf", str(replay_conf)]  # the last of two flags holds
    return [*changed, "--save-replay-buffer"]


@pytest.fixture
def command(conf: Path, logs: Path) -> list[str]:
    """The same run as the beginning of a command line."""
    return [
        *[sys.executable, "-m", "rlzoo", "train", "--algo", "ppo", "--env", "Faulty-v0"],
        *["--gym-packages", "faulty_envs", "-conf", str(conf), "-f", str(logs), "--seed", "0"],
        *["--eval-freq", "-1", "--verbose", "0", "--device", "cpu"],
    ]

"""Small runs of a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlzoo.config.run import RunConfig

VALUES = """\
default: &small
  policy: MlpPolicy
  n_envs: 2
  n_timesteps: 400
  n_steps: 20
  batch_size: 20
  n_epochs: 2
  policy_kwargs: {net_arch: [8]}
Pendulum-v1:
  <<: *small
  normalize: true
"""


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
            "env_id": "CartPole-v1",
            "conf_file": str(conf),
            "log_folder": str(logs),
            "seed": 0,
            "eval_freq": -1,
            "verbose": 0,
            "device": "cpu",
        }
        return RunConfig(**{**defaults, **fields})

    return make

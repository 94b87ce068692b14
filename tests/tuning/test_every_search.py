"""Each algorithm with each sampler: two short trials that end well."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optuna.trial import TrialState

from rlzoo.config import catalog
from rlzoo.config.run import RunConfig
from rlzoo.config.tune import SAMPLERS, TuneConfig
from rlzoo.config.values_as_text import dump_yaml
from rlzoo.tuning.study import study as studies
from rlzoo.tuning.study import trial_worker as worker
from rlzoo.tuning.study.stopping import Stop

CONTINUOUS = ("crossq", "ddpg", "sac", "td3", "tqc")
FINITE = {"gail": "d_stepsize"}  # what a grid varies, where it is not the learning rate


def environment(algo: str) -> str:
    if algo in CONTINUOUS:
        return "Pendulum-v1"
    return {"her": "BitFlipping-v0", "ppo_mask": "InvalidActionDiscrete-v0"}.get(algo, "CartPole-v1")


def configuration(algo: str) -> dict[str, Any]:
    values: dict[str, Any] = {"policy": "MlpPolicy", "n_timesteps": 400}
    if algo == "her":
        values |= {"policy": "MultiInputPolicy", "model_class": "dqn"}
    if algo == "ppo_lstm":
        values["policy"] = "MlpLstmPolicy"
    return values


@pytest.fixture
def expert(tmp_path: Path) -> str:
    path = tmp_path / "expert.npz"
    np.savez(
        path,
        obs=np.zeros((64, 4)),
        actions=np.arange(64).reshape(-1, 1) % 2,
        rewards=np.ones(64),
        episode_returns=np.full(2, 32.0),
        episode_starts=np.arange(64) % 32 == 0,
    )
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [sampler for sampler in SAMPLERS if sampler != "brute"])
@pytest.mark.parametrize("algo", catalog.names())
def test_two_trials(algo: str, sampler: str, expert: str, tmp_path: Path) -> None:
    conf, space = tmp_path / "config.yml", tmp_path / "space.yml"
    conf.write_text(dump_yaml(configuration(algo)))
    space.write_text(f"{FINITE.get(algo, 'learning_rate')}: [0.001, 0.002]\n")
    run = RunConfig(
        algo=algo,
        env_id=environment(algo),
        conf_file=str(conf),
        seed=1,
        expert=expert if algo in ("bc", "gail") else "",
        eval_episodes=1,
        verbose=0,
        log_folder=str(tmp_path / "logs"),
    )
    config = TuneConfig(
        run=run,
        n_trials=2,
        sampler=sampler,
        pruner="none",
        n_startup_trials=1,
        n_evaluations=2,
        space=str(space) if sampler == "grid" else None,
    )
    opened = studies.create_or_load_study(config)
    arguments = argparse.Namespace(study=config.study, folder=config.folder, storage="", threads=1)
    worker.work(arguments, Stop())
    trials = opened.study.trials
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 2, [
        trial.user_attrs.get("error") for trial in trials
    ]
    assert trials[0].params != trials[1].params

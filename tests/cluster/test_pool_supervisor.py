"""Studies whose trials run as tasks of a pool."""

from __future__ import annotations

from pathlib import Path

import optuna
from optuna.trial import TrialState
from pools import ThreadPool

from rlzoo.config.run import RunConfig
from rlzoo.config.tune import TuneConfig
from rlzoo.tuning.study import trial_worker
from rlzoo.tuning.study.pool_supervisor import PoolSupervisor
from rlzoo.tuning.study.stopping import Stop
from rlzoo.tuning.study.study import StudyHandle, create_or_load_study


def begin(folder: Path, n_trials: int, pruner: str = "none") -> StudyHandle:
    run = RunConfig(
        algo="ppo",
        env_id="CartPole-v1",
        n_timesteps=64,
        seed=1,
        hyperparams={"n_steps": 32, "batch_size": 32, "n_epochs": 1, "n_envs": 1},
        eval_episodes=1,
        verbose=0,
        log_folder=str(folder),
    )
    return create_or_load_study(
        TuneConfig(run=run, n_trials=n_trials, sampler="random", pruner=pruner, n_startup_trials=0)
    )


def run(opened: StudyHandle, pool: ThreadPool) -> list[optuna.trial.FrozenTrial]:
    study, settings, n_trials, folder = opened.study, opened.settings, opened.n_trials, opened.folder
    PoolSupervisor(study, settings, n_trials, folder, pool, threads=1, verbose=0).run()
    return study.get_trials()


def test_trials_are_those_of_a_worker_process(tmp_path: Path) -> None:
    here, there = begin(tmp_path / "here", 2), begin(tmp_path / "there", 2)
    trial_worker.run_trials(here.study, here.folder, 1, Stop())
    for ours, theirs in zip(here.study.get_trials(), run(there, ThreadPool()), strict=True):
        assert theirs.state == TrialState.COMPLETE
        assert (ours.values, ours.params) == (theirs.values, theirs.params)
        assert ours.intermediate_values == theirs.intermediate_values
        different = {"worker", "seconds"}
        assert ours.user_attrs.keys() == theirs.user_attrs.keys()
        for name in ours.user_attrs.keys() - different:
            assert ours.user_attrs[name] == theirs.user_attrs[name]


def test_a_lost_trial_runs_again(tmp_path: Path) -> None:
    pool = ThreadPool(lost={1})
    trials = run(begin(tmp_path, 2), pool)
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 2
    assert [trial.user_attrs["attempts"] for trial in trials] == [2, 1]
    assert [trial.user_attrs.get("deaths", 0) for trial in trials] == [1, 0]
    assert len(pool.tasks) == 3


def test_a_trial_that_is_always_lost_fails(tmp_path: Path) -> None:
    (trial,) = run(begin(tmp_path, 1), ThreadPool(lost=range(100)))
    assert trial.state == TrialState.FAIL
    assert trial.user_attrs["error"] == "its worker died 5 times"


def test_trials_are_pruned_while_they_run(tmp_path: Path) -> None:
    opened = begin(tmp_path, 1, pruner="median")
    better = dict.fromkeys(range(1, 5), 1000000.0)
    opened.study.add_trial(
        optuna.create_trial(state=TrialState.COMPLETE, value=1e6, intermediate_values=better)
    )
    trial, _ = run(opened, ThreadPool())
    assert trial.state == TrialState.PRUNED
    assert len(trial.intermediate_values) == 2  # the first third of four is no reason

"""The worker: how each trial ends in the study, and how the process itself ends."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

from rlzoo.core.errors import RunFailed, UserError
from rlzoo.io.trust import trust
from rlzoo.params.search_parameters import Float
from rlzoo.tuning.space.search_space import Space
from rlzoo.tuning.storage import trial_queue as queue
from rlzoo.tuning.storage import worker_monitor
from rlzoo.tuning.storage.storage import open_storage
from rlzoo.tuning.storage.study_integrity import open_study
from rlzoo.tuning.storage.study_settings import StudySettings
from rlzoo.tuning.study import trial_worker as worker
from rlzoo.tuning.study.stopping import Stop, Stopped

ROOT = Path(__file__).parents[2]
ENDLESS = 100_000_000  # steps
BREAKING = """
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

class Breaking(CartPoleEnv):
    steps = 0

    def step(self, action):
        Breaking.steps += 1
        if 30 < Breaking.steps < 60:
            Breaking.steps = 60
            raise ValueError("the pole\\nbroke")
        return super().step(action)

gym.register("Breaking-v0", Breaking, max_episode_steps=20)
"""


def settings_for(n_timesteps: int = 100, **changes: Any) -> StudySettings:
    config = {
        "policy": "MlpPolicy",
        "policy_kwargs": {"net_arch": [8]},
        "n_timesteps": n_timesteps,
        "n_steps": 20,
        "batch_size": 20,
        "n_epochs": 1,
    }
    given: dict[str, Any] = {
        "algo": "ppo",
        "env_id": "CartPole-v1",
        "config": json.dumps(config),
        "space": Space({"learning_rate": Float(1e-4, 1e-2, log=True)}).to_json(),
        "seed": 3,
        "sampler": "tpe",
        "pruner": "none",
        "n_startup_trials": 2,
        "n_evaluations": 2,
        "eval_episodes": 1,
        "n_eval_envs": 1,
        "n_seeds": 1,
        "objective": "last",
        "device": "cpu",
    }
    return StudySettings(**{**given, **changes})


@pytest.fixture
def new_study(tmp_path: Path) -> Callable[..., optuna.Study]:
    """Makes a study of a few trials in the journal of tmp_path."""

    def make(settings: StudySettings, n_trials: int = 2, name: str = "tried") -> optuna.Study:
        study = optuna.create_study(
            storage=open_storage(None, tmp_path), study_name=name, directions=settings.directions
        )
        study.set_user_attr("rlzoo", settings.to_json())
        study.set_user_attr("n_trials", n_trials)
        queue.enqueue_trials(study, n_trials)
        return study

    return make


def work(tmp_path: Path, stop: Stop | None = None, name: str = "tried") -> None:
    arguments = argparse.Namespace(study=name, folder=tmp_path, storage="", threads=1)
    worker.work(arguments, stop or Stop())


def states(study: optuna.Study) -> str:
    """C complete, P pruned, F failed, R running, W waiting."""
    return "".join(trial.state.name[0] for trial in study.get_trials())


# -- in this process ------------------------------------------------------------------------------


def test_waiting_trials_are_worked_off_and_surplus_ones_are_not(
    tmp_path: Path, new_study: Callable[..., optuna.Study]
) -> None:
    study = new_study(settings_for(), 3)
    study.set_user_attr("n_trials", 2)
    work(tmp_path)
    assert states(study) == "CCW"
    for trial in study.get_trials()[:2]:
        assert trial.user_attrs["attempts"] == 1
        assert trial.user_attrs["worker"] == worker_monitor.this_worker()
        assert trial.values == [sum(trial.user_attrs["evaluations"][0]) / 2]
    study.set_user_attr("n_trials", 3)
    work(tmp_path)
    assert states(study) == "CCC"


def test_resumed_study_samples_the_same_values(
    tmp_path: Path, new_study: Callable[..., optuna.Study]
) -> None:
    settings = settings_for()
    whole, parts = new_study(settings, 4, "whole"), new_study(settings, 2, "parts")
    work(tmp_path, name="whole")
    work(tmp_path, name="parts")
    queue.enqueue_trials(parts, 4)
    parts.set_user_attr("n_trials", 4)
    work(tmp_path, name="parts")
    results = [[(trial.params, trial.values) for trial in study.get_trials()] for study in (whole, parts)]
    assert results[0] == results[1]
    assert len({trial.params["learning_rate"] for trial in whole.get_trials()}) == 4


def test_two_objectives(tmp_path: Path, new_study: Callable[..., optuna.Study]) -> None:
    study = new_study(settings_for(sampler="nsga2"), 1)
    work(tmp_path)
    (trial,) = study.get_trials()
    assert trial.state == TrialState.COMPLETE
    assert trial.values[1] == trial.user_attrs["seconds"]


def test_an_environment_that_breaks_fails_its_trial_only(
    tmp_path: Path, new_study: Callable[..., optuna.Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "breaking.py").write_text(BREAKING)
    monkeypatch.syspath_prepend(tmp_path)
    trust(["breaking"])
    study = new_study(settings_for(env_id="Breaking-v0", gym_packages=("breaking",)), 2)
    work(tmp_path)
    assert states(study) == "FC"
    error = study.get_trials()[0].user_attrs["error"]
    assert "ValueError: the pole broke" in error
    assert "\n" not in error
    assert study.get_trials()[0].values is None


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (UserError("no such thing"), "no such thing"),
        (RunFailed("diverged"), "diverged"),
        (KeyError("x\ny"), "KeyError: 'x\\ny'"),
        (SystemExit("left"), "SystemExit: left"),
        (ValueError("a" * 2000), "ValueError: " + "a" * 988 + "..."),
    ],
)
def test_whatever_a_training_raises_fails_the_trial(
    failure: BaseException,
    error: str,
    tmp_path: Path,
    new_study: Callable[..., optuna.Study],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*arguments: Any) -> list[float]:
        raise failure

    monkeypatch.setattr(worker, "run_trial", fail)
    study = new_study(settings_for(), 2)
    work(tmp_path)
    assert states(study) == "FF"
    assert [trial.user_attrs["error"] for trial in study.get_trials()] == [error, error]


def test_a_pruned_trial_keeps_its_last_value(
    tmp_path: Path, new_study: Callable[..., optuna.Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    def prune(trial: optuna.Trial, *arguments: Any) -> list[float]:
        trial.report(7.0, 1)
        raise optuna.TrialPruned

    monkeypatch.setattr(worker, "run_trial", prune)
    study = new_study(settings_for(), 1)
    work(tmp_path)
    assert states(study) == "P"
    assert study.get_trials()[0].values == [7.0]


def test_a_worker_has_a_heartbeat_while_it_trains(
    tmp_path: Path, new_study: Callable[..., optuna.Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    def listen(trial: optuna.Trial, *arguments: Any) -> list[float]:
        deadline = time.monotonic() + 10
        while trial.study.get_trials()[0].user_attrs.get("heartbeat", 0) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return [1.0]

    monkeypatch.setattr(worker, "run_trial", listen)
    monkeypatch.setattr(
        worker_monitor.Heartbeat.__init__, "__defaults__", (0.02,)
    )  # seconds between two beats
    study = new_study(settings_for(), 1)
    work(tmp_path)
    assert states(study) == "C"


def test_the_pruner_that_was_asked_for_prunes(
    tmp_path: Path, new_study: Callable[..., optuna.Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    def worse_and_worse(trial: optuna.Trial, *arguments: Any) -> list[float]:
        for step in (1, 2, 3):
            trial.report(-trial.number, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return [-trial.number]

    monkeypatch.setattr(worker, "run_trial", worse_and_worse)
    study = new_study(settings_for(pruner="median", n_evaluations=3), 4)
    work(tmp_path)
    assert states(study) == "CCPP"
    assert [trial.last_step for trial in study.get_trials()] == [3, 3, 2, 2]


def test_a_storage_that_fails_ends_the_worker_and_not_the_trial(
    tmp_path: Path, new_study: Callable[..., optuna.Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> list[float]:
        raise optuna.exceptions.StorageInternalError("the disk is gone")

    monkeypatch.setattr(worker, "run_trial", fail)
    study = new_study(settings_for(), 1)
    with pytest.raises(optuna.exceptions.StorageInternalError):
        work(tmp_path)
    assert states(study) == "R"


@pytest.mark.parametrize("outcome", ["value", "error"])
@pytest.mark.parametrize(("state", "left"), [(TrialState.FAIL, "F"), (TrialState.WAITING, "W")])
def test_a_worker_that_was_taken_for_dead_changes_nothing(
    outcome: str,
    state: TrialState,
    left: str,
    tmp_path: Path,
    new_study: Callable[..., optuna.Study],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = new_study(settings_for(), 1)

    def outlived(trial: optuna.Trial, *arguments: Any) -> list[float]:
        study.set_user_attr("n_trials", 0)
        study._storage.set_trial_state_values(trial._trial_id, state)
        if outcome == "error":
            raise RunFailed("too late")
        return [1.0]

    monkeypatch.setattr(worker, "run_trial", outlived)
    work(tmp_path)
    assert states(study) == left


def test_a_trial_that_is_stopped_waits_again(
    tmp_path: Path, new_study: Callable[..., optuna.Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Stop()
    run_trial = worker.run_trial

    def asked(*arguments: Any) -> list[float]:
        stop._on_signal(signal.SIGTERM, None)
        return run_trial(*arguments)

    monkeypatch.setattr(worker, "run_trial", asked)
    study = new_study(settings_for(), 1)
    with pytest.raises(Stopped):
        work(tmp_path, stop)
    assert states(study) == "W"
    params = study.get_trials()[0].params
    monkeypatch.undo()
    work(tmp_path)
    (trial,) = study.get_trials()
    assert trial.state == TrialState.COMPLETE
    assert trial.params == params
    assert trial.user_attrs["attempts"] == 2


def test_what_a_storage_keeps_is_read_back(tmp_path: Path, new_study: Callable[..., optuna.Study]) -> None:
    new_study(settings_for(), 1)
    work(tmp_path)
    (trial,) = open_study(open_storage(None, tmp_path), "tried").get_trials()
    assert set(trial.user_attrs) >= {"seeds", "hyperparams", "n_steps", "seconds", "evaluations", "worker"}


def test_a_study_that_is_not_there_is_an_error_in_one_line(
    tmp_path: Path,
    new_study: Callable[..., optuna.Study],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Stop, "listen", lambda stop: None)
    new_study(settings_for(), 1)
    assert worker.main(["--study", "tired", "--folder", str(tmp_path)]) == 1
    stderr = capsys.readouterr().err
    assert stderr.startswith("rlzoo: ") and "'tried'" in stderr
    assert stderr.count("\n") == 1


# -- in a process of its own ----------------------------------------------------------------------


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a worker on the study of tmp_path."""
    started: list[subprocess.Popen[str]] = []

    def make(name: str = "tried") -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "rlzoo.tuning.study.trial_worker",
            "--study",
            name,
            "--folder",
            str(tmp_path),
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment)
        started.append(process)
        return process

    yield make
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def trial_in_training(study: optuna.Study) -> FrozenTrial:
    """Wait until the first trial has been evaluated."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        trial = study.get_trials(deepcopy=False)[0]
        if trial.state == TrialState.RUNNING and trial.intermediate_values:
            return trial
        time.sleep(0.05)
    raise AssertionError(f"no training began: {states(study)}")


def long_settings() -> StudySettings:
    return settings_for(ENDLESS, n_evaluations=ENDLESS // 1000)


def test_the_end_of_stdin_gives_the_trial_back_at_once(
    new_study: Callable[..., optuna.Study], start: Callable[..., subprocess.Popen[str]]
) -> None:
    """And so SIGTERM, which a worker sends to itself then."""
    study, process = new_study(long_settings(), 1), start()
    params = trial_in_training(study).params
    process.send_signal(signal.SIGINT)  # the parent decides
    time.sleep(0.2)
    assert process.poll() is None
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(30) == 0
    (trial,) = study.get_trials()
    assert trial.state == TrialState.WAITING
    assert trial.params == params
    assert "deaths" not in trial.user_attrs
    assert process.stderr is not None
    assert process.stderr.read() == ""


def test_a_trial_whose_worker_is_killed_is_done_by_another(
    tmp_path: Path,
    new_study: Callable[..., optuna.Study],
    start: Callable[..., subprocess.Popen[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = new_study(long_settings(), 1)
    watch = worker_monitor.WorkerMonitor()
    process = start()
    params = trial_in_training(study).params
    assert watch.release_stale(study, 1) == []
    process.kill()
    process.wait()
    assert watch.release_stale(study, 1) == [0]
    study.set_user_attr("rlzoo", settings_for().to_json())
    work(tmp_path)
    (trial,) = study.get_trials()
    assert trial.state == TrialState.COMPLETE
    assert trial.params == params
    assert (trial.user_attrs["attempts"], trial.user_attrs["deaths"]) == (2, 1)


@pytest.mark.slow
def test_two_workers_share_a_study(
    new_study: Callable[..., optuna.Study], start: Callable[..., subprocess.Popen[str]]
) -> None:
    study = new_study(settings_for(2000), 6)
    processes = [start(), start()]
    for process in processes:
        assert process.wait(120) == 0
    assert states(study) == "CCCCCC"
    assert {trial.user_attrs["attempts"] for trial in study.get_trials()} == {1}

"""`kill -9` of workers and of the command itself: no trial is lost, and none counts twice."""

from __future__ import annotations

import csv
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from optuna.trial import TrialState

from rlzoo.tuning.storage.storage import open_storage
from rlzoo.tuning.storage.study_integrity import open_study

FLAGS = "--algo a2c --env CartPole-v1 --n-jobs 2 --sampler random --pruner none --seed 3"
FLAGS += " --n-evaluations 2 --eval-episodes 1 --no-optim-plots --verbose 0 -params ent_coef:0.01"


def search(folder: Path, n_trials: int, n_timesteps: int) -> psutil.Popen:
    sizes = ["--n-trials", str(n_trials), "-n", str(n_timesteps)]
    command = [sys.executable, "-m", "rlzoo", "optimize", *FLAGS.split(), *sizes, "-f", str(folder)]
    return psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(process: psutil.Popen) -> None:
    _, errors = process.communicate(timeout=900)
    assert process.returncode == 0, errors


def workers_of(process: psutil.Popen) -> list[psutil.Process]:
    return [
        child
        for child in process.children()
        if "rlzoo.tuning.study.trial_worker" in " ".join(child.cmdline())
    ]


def killed_search(folder: Path, n_kills: int, n_trials: int, n_timesteps: int, seed: int) -> int:
    """Search while somebody kills workers, and now and then the command; returns the kills."""
    chance, kills = random.Random(seed), 0
    process = search(folder, n_trials, n_timesteps)
    while kills < n_kills:
        time.sleep(chance.uniform(0.3, 4.0))
        if process.poll() is not None:
            break
        if chance.random() < 0.3:
            process.kill()
            process.communicate()
            process = search(folder, n_trials, n_timesteps)
            kills += 1
        else:
            workers = workers_of(process)
            if workers:
                chance.choice(workers).kill()
                kills += 1
    finish(process)
    return kills


def check(folder: Path, undisturbed: Path, n_trials: int) -> None:
    """The study is the one that nobody disturbed: same trials, parameters, seeds and values."""
    trials, expected = (
        open_study(open_storage(None, where / "optimize" / "a2c_CartPole-v1"), "a2c_CartPole-v1").trials
        for where in (folder, undisturbed)
    )
    assert [trial.number for trial in trials] == list(range(n_trials))
    assert all(trial.state == TrialState.COMPLETE for trial in trials)
    assert [trial.params for trial in trials] == [trial.params for trial in expected]
    assert [trial.values for trial in trials] == [trial.values for trial in expected]
    with (folder / "optimize" / "a2c_CartPole-v1" / "trials.csv").open() as file:
        assert [int(row["number"]) for row in csv.DictReader(file)] == list(range(n_trials))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_kills_of_workers_and_of_the_command(tmp_path: Path) -> None:
    n_trials, n_timesteps = 30, 16_000
    finish(search(tmp_path / "undisturbed", n_trials, n_timesteps))
    kills = killed_search(tmp_path / "killed", 20, n_trials, n_timesteps, seed=1)
    assert kills == 20, "the search was over before; give it more to do"
    check(tmp_path / "killed", tmp_path / "undisturbed", n_trials)

"""`kill -9`: the folder holds a checkpoint at most one interval old, and the run goes on from it."""

from __future__ import annotations

import csv
import os
import random
import subprocess
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from rlzoo import DQN, PPO
from rlzoo.config import catalog
from rlzoo.experiment.resumed_run import reopen_run, resume
from rlzoo.experiment.training_run import create_run, train
from rlzoo.io import atomic
from rlzoo.io.trust import trust
from rlzoo.runs import run_folder

SAVE_FREQ = 60
REPLAY_FREQ = 40


def kill_and_resume(command, logs, seconds, capsys):
    trust(["faulty_envs"])  # which the folder names
    arguments = [*command, "-n", "1000000", "--save-freq", str(SAVE_FREQ)]
    arguments += ["-params", "callback:faulty_envs.Announce"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("step 200"):
                break
        time.sleep(seconds)
        process.kill()
        steps = [
            int(line.split()[1])
            for line in process.stdout
            if line.startswith("step ") and line.endswith("\n")
        ]
    reached = max(steps, default=200)
    folder = logs / "ppo" / "Faulty-v0_1"
    newest = run_folder.newest_checkpoint(folder, "Faulty-v0")
    assert not capsys.readouterr().err, "a damaged file was passed over"
    kept = PPO.load(newest, device="cpu").num_timesteps
    assert reached - SAVE_FREQ <= kept <= reached + 2
    result = resume(folder, n_timesteps=kept + 100, verbose=0)
    assert 0 <= result.num_timesteps - (kept + 100) < 40  # rollouts are whole
    assert PPO.load(result.model_path, device="cpu").num_timesteps == result.num_timesteps
    assert not list(folder.rglob(".rlzoo-*.tmp"))


@pytest.mark.parametrize("moment", range(2))
def test_a_killed_run_goes_on(command, logs, capsys, moment):
    kill_and_resume(command, logs, random.Random(moment).uniform(0, 0.5), capsys)


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(20))
def test_a_run_killed_at_any_moment_goes_on(command, logs, capsys, moment):
    kill_and_resume(command, logs, random.Random(100 + moment).uniform(0, 2), capsys)


class Killed(BaseException):
    """Stands for `kill -9`: no handler of the run cleans up after it."""


def kill_at(monkeypatch, name):
    """End the run without a word where a file, written already, is about to get its name."""
    replace, dead = os.replace, []

    def die_instead(source, target):
        if dead or os.path.basename(target) == name:
            dead.append(name)
            raise Killed
        replace(source, target)

    monkeypatch.setattr(atomic.os, "replace", die_instead)


@pytest.mark.parametrize("at", ["rl_model_replay_buffer_300_steps.safetensors", "rl_model_300_steps.zip"])
def test_kill_during_checkpoint_keeps_the_previous_pair(replay_run, monkeypatch, capsys, at):
    with monkeypatch.context() as patch:
        session = create_run(replay_run(save_freq=100))
        kill_at(patch, at)
        with session.resources, pytest.raises(Killed):
            session.model.learn(400, callback=session.callbacks)
    folder = session.folder
    kept = {path.name for path in folder.glob("rl_model_*")}
    pairs = {f"rl_model_{what}{steps}_steps" for steps in (100, 200) for what in ("", "replay_buffer_")}
    expected = {f"{name}.{'safetensors' if 'replay' in name else 'zip'}" for name in pairs}
    if at == "rl_model_300_steps.zip":
        expected.add("rl_model_replay_buffer_300_steps.safetensors")
    assert kept == expected
    session = reopen_run(folder, {"verbose": 1})
    with session.resources:
        assert session.model.num_timesteps == len(session.model.replay_buffer) == 200
    assert "200 transitions from" in capsys.readouterr().out


def rows_without_times(path):
    with open(path, newline="") as file:
        return [
            {name: value for name, value in row.items() if name not in ("time/fps", "time/time_elapsed")}
            for row in csv.DictReader(file)
        ]


def monitored(path):
    return [line.split(",")[:2] for line in path.read_text().splitlines()[2:]]  # return and length


def check_equal_runs(algo, one, other):
    models = [catalog.load(algo).load(result.model_path, device="cpu") for result in (one, other)]
    assert models[0].num_timesteps == models[1].num_timesteps
    assert models[0].n_updates == models[1].n_updates
    weights, others = (model.policy.state_dict() for model in models)
    assert all(torch.equal(weights[name], others[name]) for name in weights)
    first, second = (np.load(result.folder / "evaluations.npz") for result in (one, other))
    assert all(np.array_equal(first[name], second[name]) for name in first.files)
    assert rows_without_times(one.folder / "progress.csv") == rows_without_times(
        other.folder / "progress.csv"
    )
    for file in one.folder.glob("*.monitor.csv"):
        assert monitored(file) == monitored(other.folder / file.name)


@pytest.mark.parametrize("killed_at", ["rl_model_300_steps.zip", "CartPole-v1.zip"])
@pytest.mark.parametrize("algo", ["ppo", "a2c", "dqn"])
def test_resumed_run_equals_one_that_was_not_killed(run, replay_run, monkeypatch, tmp_path, algo, killed_at):
    small = {"env_id": "CartPole-v1", "save_freq": 100, "eval_freq": 100, "eval_episodes": 1}
    changed = {"ppo": {"n_steps": 30}, "a2c": {"n_steps": 7}, "dqn": {"train_freq": 6}}[algo]
    if algo == "a2c":
        small["conf_file"] = str(tmp_path / "a2c.yml")
        Path(small["conf_file"]).write_text("default: {policy: MlpPolicy, n_envs: 2, n_timesteps: 400}\n")
    make = partial(replay_run if algo == "dqn" else run, algo=algo, hyperparams=changed, **small)
    whole = train(make())
    with monkeypatch.context() as patch:
        kill_at(patch, killed_at)
        with pytest.raises(Killed):
            train(make())
    folder = whole.folder.with_name("CartPole-v1_2")
    assert not (folder / "CartPole-v1.zip").exists()
    torch.manual_seed(5), np.random.seed(5)
    check_equal_runs(algo, whole, resume(folder))


def test_resumed_run_with_new_episodes_takes_last_update(run, monkeypatch):
    with monkeypatch.context() as patch:
        kill_at(patch, "Faulty-v0.zip")
        with pytest.raises(Killed):
            train(run(save_freq=200))
    folder = next(Path(run().log_folder).glob("ppo/*_1"))
    checkpoint = PPO.load(folder / "rl_model_400_steps.zip", device="cpu")
    result = resume(folder)
    model = PPO.load(result.model_path, device="cpu")
    assert model.num_timesteps == 400
    assert model.n_updates == checkpoint.n_updates + 4  # 2 epochs of 2 minibatches


def kill_and_resume_with_replay(replay_command, logs, seconds, capsys):
    trust(["faulty_envs"])
    arguments = [*replay_command, "-n", "1000000", "--save-freq", str(REPLAY_FREQ)]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        folder = logs / "dqn" / "Faulty-v0_1"
        while not list(folder.glob("rl_model_*_steps.zip")):
            assert process.poll() is None, process.stderr.read().decode()
            time.sleep(0.01)
        time.sleep(seconds)
        process.kill()
    newest = run_folder.newest_checkpoint(folder, "Faulty-v0")
    kept = DQN.load(newest, device="cpu").num_timesteps
    session = reopen_run(folder, {"n_timesteps": kept + 100, "verbose": 1})
    output = capsys.readouterr()
    assert not output.err, "a damaged file was passed over, or the replay buffer is missing"
    assert f"{min(kept, 300):,} transitions from" in output.out
    with session.resources:
        assert session.model.num_timesteps == kept
        assert len(session.model.replay_buffer) == min(kept, 300)
        session.model.learn(100, reset_num_timesteps=False)
    assert not list(folder.rglob(".rlzoo-*.tmp"))


def test_a_killed_run_goes_on_with_its_replay_buffer(replay_command, logs, capsys):
    kill_and_resume_with_replay(replay_command, logs, 0.2, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(6))
def test_killed_run_resumes_with_its_replay_buffer(replay_command, logs, capsys, moment):
    seconds = random.Random(200 + moment).uniform(0, 1.5)
    kill_and_resume_with_replay(replay_command, logs, seconds, capsys)

"""`kill -9`: the folder holds a checkpoint at most one interval old, and the run goes on from it."""

from __future__ import annotations

import os
import random
import subprocess
import time

import numpy as np
import pytest
import torch

from rlzoo import DQN, PPO, BaseCallback
from rlzoo.core import atomic
from rlzoo.experiment import run_folder
from rlzoo.experiment.train import reopen, resume, start

SAVE_FREQ = 60
REPLAY_FREQ = 40


def kill_and_resume(command, logs, seconds, capsys):
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
    replace = os.replace

    def die_instead(source, target):
        if os.path.basename(target) == name:
            raise Killed
        replace(source, target)

    monkeypatch.setattr(atomic.os, "replace", die_instead)


@pytest.mark.parametrize("at", ["rl_model_replay_buffer_300_steps.safetensors", "rl_model_300_steps.zip"])
def test_a_kill_while_a_checkpoint_is_written_leaves_the_older_pair(replay_run, monkeypatch, capsys, at):
    with monkeypatch.context() as patch:
        session = start(replay_run(save_freq=100))
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
    session = reopen(folder, {"verbose": 1})
    with session.resources:
        assert session.model.num_timesteps == len(session.model.replay_buffer) == 200
    assert "200 transitions from" in capsys.readouterr().out


def test_a_resumed_run_equals_one_that_was_not_killed(replay_run, monkeypatch, tmp_path):
    """Its environments begin new episodes, so the other's do at that step, too."""

    class Restart(BaseCallback):
        def _on_step(self):
            if self.num_timesteps == 200:
                self.training_env.seed(self.model.restart_seed())
                self.model._last_obs = self.training_env.reset()
                self.model._last_episode_starts[:] = True
                self.model.replay_buffer.start(self.model._last_obs)
            return True

    session = start(replay_run(env_id="CartPole-v1", save_freq=100, log_folder=str(tmp_path / "whole")))
    with session.resources:
        session.model.learn(400, callback=[*session.callbacks, Restart()])
    whole = session.model
    with monkeypatch.context() as patch:
        session = start(replay_run(env_id="CartPole-v1", save_freq=100))
        kill_at(patch, "rl_model_300_steps.zip")
        with session.resources, pytest.raises(Killed):
            session.model.learn(400, callback=session.callbacks)
    torch.manual_seed(5), np.random.seed(5)
    result = resume(session.folder)
    again = DQN.load(result.model_path, device="cpu")
    assert again.num_timesteps == whole.num_timesteps == 400 and again.n_updates == whole.n_updates
    mine, other = again.policy.state_dict(), whole.policy.state_dict()
    assert all(torch.equal(mine[name], other[name]) for name in mine)


def kill_and_resume_with_replay(replay_command, logs, seconds, capsys):
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
    session = reopen(folder, {"n_timesteps": kept + 100, "verbose": 1})
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
def test_a_run_killed_at_any_moment_goes_on_with_its_replay_buffer(replay_command, logs, capsys, moment):
    seconds = random.Random(200 + moment).uniform(0, 1.5)
    kill_and_resume_with_replay(replay_command, logs, seconds, capsys)

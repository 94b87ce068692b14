"""`kill -9`: the folder holds a checkpoint at most one interval old, and the run goes on from it."""

from __future__ import annotations

import random
import subprocess
import time

import pytest

from rlzoo import PPO
from rlzoo.experiment import run_folder
from rlzoo.experiment.train import resume

SAVE_FREQ = 60


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

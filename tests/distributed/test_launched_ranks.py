"""`rlzoo train --n-procs`: one run folder, one line of output for a mistake, and no process left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlzoo import PPO
from rlzoo.distributed import launch
from rlzoo.training.checkpoint import read_checkpoint
from tests.distributed.start_ranks import environment, ranks_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and gloo uses lo")
OPTIONS = "--algo ppo --env CartPole-v1 --eval-freq -1 --verbose 0 --n-procs 2"
OPTIONS += " -params n_envs:2 n_steps:32 batch_size:64 n_epochs:1"


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rlzoo", "train", *arguments],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(found, process):
    deadline = time.monotonic() + 90
    while not found():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
        time.sleep(0.02)


def test_run_is_saved_once_and_resumed_by_one_process(tmp_path):
    process = start(tmp_path, *OPTIONS.split(), "-n", "128", "--save-freq", "64")
    assert process.communicate(timeout=120)[0] == "" and process.returncode == 0
    folder = tmp_path / "logs/ppo/CartPole-v1_1"
    assert {path.name for path in folder.glob("*.monitor.csv")} == {"0.monitor.csv", "1.monitor.csv"}
    checkpoint = read_checkpoint(folder / "CartPole-v1.zip")
    assert checkpoint.steps() == 128 and checkpoint.config["n_envs"] == 2
    assert PPO.load(folder / "rl_model_64_steps.zip").num_timesteps == 64
    (folder / "CartPole-v1.zip").unlink()
    (folder / "rl_model_128_steps.zip").unlink()

    from rlzoo.experiment.resumed_run import resume

    assert resume(folder, n_timesteps=192, verbose=0).num_timesteps == 192


def test_rank_0_that_does_not_notice_a_death_is_ended(monkeypatch):
    monkeypatch.setattr(launch, "TO_NOTICE", 0.1)
    monkeypatch.setattr(launch, "TO_SAVE", 0.1)
    stuck = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(30)"])
    dead = subprocess.Popen([sys.executable, "-S", "-c", "raise SystemExit(1)"])
    began = time.monotonic()
    assert launch._wait([stuck, dead])
    assert stuck.wait() == -signal.SIGTERM and time.monotonic() - began < 15


CASES = [
    pytest.param(1, 1, "rank 1 has ended unexpectedly; the agent is saved", id="kill"),
    pytest.param(None, 0, "SIGTERM: saving and ending", id="terminate", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("victim", "code", "said"), CASES)
def test_run_ends_when_a_rank_dies_or_on_a_signal(victim, code, said, tmp_path):
    process = start(tmp_path, *OPTIONS.split(), "-n", "100000000", "--save-freq", "64")
    folder = tmp_path / "logs/ppo/CartPole-v1_1"
    wait_for(lambda: list(folder.glob("rl_model_*")), process)
    ranks = ranks_of(process.pid)
    os.kill(process.pid if victim is None else ranks[victim], signal.SIGKILL if victim else signal.SIGTERM)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == code and len(output.strip().splitlines()) == 1 and said in output
    assert not [pid for pid in ranks if Path(f"/proc/{pid}").exists()]
    assert read_checkpoint(folder / "CartPole-v1.zip").steps() > 0

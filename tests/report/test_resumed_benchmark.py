"""`rlzoo benchmark run --resume`: interrupted trainings are saved and continue."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rlzoo.benchmark import run_worker
from rlzoo.benchmark.finished import BEGUN, interrupted_run, is_finished, seconds_so_far, training_seconds
from rlzoo.benchmark.run_list import Options, Training
from rlzoo.callbacks.base_callback import BaseCallback
from rlzoo.config.benchmark import Row
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.training.checkpoint import read_checkpoint

CONFIG = """\
Pendulum-v1:
  {policy: MlpPolicy, learning_starts: 10, buffer_size: 200, batch_size: 8, policy_kwargs: {net_arch: [4]}}
"""
RESUME = Options(resume=True, n_evaluations=4, eval_episodes=1)


class Stop(BaseCallback):
    """Calls a function at a step."""

    def __init__(self, step: int, act) -> None:
        super().__init__()
        self.step, self.act = step, act

    def _on_step(self) -> bool:
        if self.num_timesteps == self.step:
            self.act()
        return True


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Training:
    """A training of 80 steps with a replay buffer."""
    monkeypatch.setattr(run_worker, "end_with_parent", lambda: None)
    monkeypatch.chdir(tmp_path)
    Path("conf.yml").write_text(CONFIG)
    return Training(Row(algo="sac", env="Pendulum-v1", n_timesteps=80, conf_file="conf.yml"), 0)


def run(training: Training, options: Options = RESUME) -> int:
    return run_worker.main([json.dumps(training.task(Path(), options))])


def interrupt(monkeypatch: pytest.MonkeyPatch, step: int, act=lambda: os.kill(os.getpid(), signal.SIGTERM)):
    """Let the next training do something at a step."""
    create = run_worker.create_run

    def create_run(*args, **kwargs):
        session = create(*args, **kwargs)
        session.callbacks.append(Stop(step, act))
        return session

    monkeypatch.setattr(run_worker, "create_run", create_run)


def test_interrupted_training_continues_to_its_end(training: Training, monkeypatch) -> None:
    interrupt(monkeypatch, 50)
    assert run(training) == 1
    folder = interrupted_run(training.log_folder(Path()), "sac", "Pendulum-v1")
    assert folder is not None and not training.is_done(Path())
    before = seconds_so_far(folder)
    assert min(before) > 0 and (folder / "replay_buffer.safetensors").is_file()
    assert run(training) == 0
    assert training.is_done(Path()) and is_finished(folder) and not (folder / BEGUN).exists()
    assert read_checkpoint(folder / "Pendulum-v1.zip").steps() == 80
    assert not (folder / "replay_buffer.safetensors").exists()
    assert training_seconds(folder) > before[0]
    steps = [line.split(",")[2] for line in (folder / "progress.csv").read_text().splitlines()[1:]]
    assert len(steps) == len(set(steps))


def test_without_resume_it_begins_again(training: Training, monkeypatch) -> None:
    interrupt(monkeypatch, 50)
    assert run(training) == 1
    assert (
        run(training, replace(RESUME, resume=False)) == 1
    )  # which stops at step 50 again, and keeps nothing
    assert training.run_folder(Path()) is None


def test_failed_training_keeps_what_it_had(training: Training, monkeypatch) -> None:
    def fail() -> None:
        raise RunFailed("the power is out")

    interrupt(monkeypatch, 50, fail)
    assert run(training) == 1
    assert run(training) == 0  # from step 50, where nothing fails any more
    assert training.is_done(Path())


def test_resumed_training_has_to_be_the_lists(training: Training, monkeypatch) -> None:
    interrupt(monkeypatch, 50)
    assert run(training) == 1
    training.check(Path(), RESUME)
    changed = Training(replace(training.row, n_timesteps=90), 0)
    changed.check(Path())  # it begins again
    with pytest.raises(UserError, match="was begun with other n_timesteps than is asked for now"):
        changed.check(Path(), RESUME)


def test_damaged_mark_is_a_mistake(tmp_path: Path) -> None:
    for text in (
        '{"seconds": -1, "evaluation_seconds": 0}',
        "{}",
        '{"seconds": "x", "evaluation_seconds": 0}',
    ):
        (tmp_path / BEGUN).write_text(text)
        with pytest.raises(UserError, match="does not say how long"):
            seconds_so_far(tmp_path)


@pytest.mark.slow
def test_sigterm_of_the_command_saves(tmp_path: Path) -> None:
    (tmp_path / "l.yml").write_text("rows: [{algo: sac, env: Pendulum-v1, n_timesteps: 50000, seeds: [0]}]")
    command = ["benchmark", "run", "l.yml", "-f", "runs", "--n-jobs", "1", "--resume", "--n-evaluations", "0"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = subprocess.Popen(
        [sys.executable, "-m", "rlzoo", *command], cwd=tmp_path, env=environment, stderr=subprocess.PIPE
    )
    folder = tmp_path / "runs" / "seed0" / "sac" / "Pendulum-v1_1"
    deadline = time.monotonic() + 60
    while len(lines := _lines(folder / "0.monitor.csv")) < 3:  # two lines of header, and an episode
        assert time.monotonic() < deadline, lines
        time.sleep(0.1)
    running.terminate()
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130 and b"SIGTERM: saving and ending" in err
    assert interrupted_run(tmp_path / "runs" / "seed0", "sac", "Pendulum-v1") == folder
    assert seconds_so_far(folder)[0] > 0


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.is_file() else []

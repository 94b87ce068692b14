"""Runs in processes of their own, which a fuzzer ends at any moment.

Most are forked from a process that has imported everything, so that the moments fall into the run and not
into the imports; the others are started as from a shell.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import psutil

from rlzoo.cli.main import main
from rlzoo.config import catalog
from rlzoo.core.errors import UserError

RLZOO = (sys.executable, "-m", "rlzoo")
ENDING = 20.0
"""Seconds that a run may take to end once it was told to."""
SMALL: dict[str, Any] = {"policy": "MlpPolicy", "policy_kwargs": {"net_arch": [4]}}
ROLLOUT: dict[str, Any] = {
    **SMALL,
    "n_envs": 2,
    "n_steps": 32,
    "batch_size": 32,
    "n_epochs": 2,
    "normalize": True,
}
REPLAY: dict[str, Any] = {
    **SMALL,
    "buffer_size": 400,
    "learning_starts": 20,
    "batch_size": 8,
    "train_freq": 4,
}
SCENARIOS: dict[str, tuple[str, dict[str, Any], str]] = {
    "ppo": ("ppo CartPole-v1", ROLLOUT, "-n 4000 --save-freq 400 --eval-freq 500 --eval-episodes 1"),
    "sac": ("sac Pendulum-v1", REPLAY, "-n 600 --save-freq 100 --eval-freq 0 --save-replay-buffer"),
    "dqn": ("dqn CartPole-v1", REPLAY, "-n 1500 --save-freq 150 --eval-freq 0 --save-replay-buffer"),
    "lstm": (
        "ppo_lstm CartPole-v1",
        {**ROLLOUT, "policy": "MlpLstmPolicy", "policy_kwargs": {"net_arch": [4], "lstm_hidden_size": 4}},
        "-n 1000 --save-freq 100 --eval-freq 0",
    ),
    "subproc": ("ppo CartPole-v1", ROLLOUT, "-n 3000 --save-freq 300 --eval-freq 0 --vec-env subproc"),
}


class Wrong(Exception):
    """What must not become of a run."""


def write_configuration(name: str, folder: Path) -> None:
    (folder / "conf.yml").write_text(json.dumps({"default": SCENARIOS[name][1]}))


def command_of(name: str) -> list[str]:
    """The command line of a scenario, in a folder that `write_configuration` has filled."""
    algo, env_id = SCENARIOS[name][0].split()
    fixed = "-conf conf.yml -f logs --seed 1 --device cpu --num-threads 1 --verbose 0"
    return ["train", "--algo", algo, "--env", env_id, *SCENARIOS[name][2].split(), *fixed.split()]


@dataclass
class Run:
    """A command that runs in a session of its own, in the working directory."""

    pid: int
    log: Path
    process: subprocess.Popen[bytes] | None = None  # None: it was forked
    code: int | None = None

    @classmethod
    def start(cls, arguments: list[str], log: Path, forked: bool, program: Sequence[str] = RLZOO) -> Run:
        if not forked:
            with log.open("wb") as file:
                command = [*program, *arguments]
                process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
            return cls(process.pid, log, process)
        log.touch()  # there is one to read, too, when the fork is killed before it writes
        pid = os.fork()
        if pid == 0:
            _become(arguments, log)
        return cls(pid, log)

    def signal(self, number: int, group: bool = False) -> None:
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.pid, number)

    def wait(self, seconds: float) -> int | None:
        """The exit code, negative for a signal; None when the run goes on."""
        deadline = time.monotonic() + seconds
        while True:
            self.poll()
            if self.code is not None or time.monotonic() >= deadline:
                return self.code
            time.sleep(0.005)

    def poll(self) -> None:
        if self.process is not None:
            self.code = self.process.poll()
        elif self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None

    def left(self, seconds: float = 5.0) -> list[str]:
        """The processes of the session that go on for so long after it; they are killed."""
        deadline = time.monotonic() + seconds
        while (members := _members(self.pid)) and time.monotonic() < deadline:
            time.sleep(0.05)
        for process in members:
            with contextlib.suppress(psutil.Error):
                process.kill()
        return [str(process) for process in members]

    def said(self) -> str:
        return self.log.read_text(errors="replace")


def _become(arguments: list[str], log: Path) -> None:
    """Be the run, in the process that was forked for it."""
    code = 1
    try:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        code = main(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _members(session: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def run_folder_of(name: str) -> Path:
    algo, env_id = SCENARIOS[name][0].split()
    return Path("logs", algo, f"{env_id}_1")


def final_agent(name: str) -> Path:
    return run_folder_of(name) / f"{SCENARIOS[name][0].split()[1]}.zip"


def check_agents(name: str) -> list[int]:
    """Load every agent of a run; returns their steps.

    :raises Wrong: one cannot be read
    """
    steps = []
    for path in run_folder_of(name).glob("*.zip"):
        try:
            model: Any = catalog.load(SCENARIOS[name][0].split()[0])
            steps.append(model.load(path, device="cpu").num_timesteps)
        except UserError as error:
            raise Wrong(f"{path} cannot be read: {error}") from None
    return steps


def steps_of(name: str) -> int:
    match = re.search(r"-n (\d+)", SCENARIOS[name][2])
    assert match is not None
    return int(match[1])


def moment(rng: Random, duration: float) -> float:
    """When a run is disturbed, in seconds from its start; at the end there are more ways to fail."""
    return duration * rng.choice((rng.uniform(0, 1), rng.uniform(0.8, 1.1)))


def check_ended(run: Run, code: int | None, what: str) -> None:
    """:raises Wrong: it goes on, has left processes, or printed a traceback"""
    if code is None:
        run.signal(signal.SIGKILL, group=True)
        run.wait(5)
        raise Wrong(f"{what}: goes on after {ENDING} s: {run.said()[-500:]}")
    if left := run.left():
        raise Wrong(f"{what}: processes go on: {left}")
    if "Traceback" in run.said():
        raise Wrong(f"{what}: {run.said()[-1500:]}")

"""Runs that are killed or signalled at random moments."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.fuzz import kills, processes, signals
from tests.fuzz.processes import Run, Wrong, check_ended
from tests.fuzz.sandbox import Batch
from tests.fuzz.test_files import check_nothing_breaks

NAMES = tuple(processes.SCENARIOS)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", ["kills", "signals"])
def test_runs_that_are_ended_at_any_moment(what, name):
    check_nothing_breaks(Batch(what, (name,), seed=0, first=0, count=4, seconds=300.0))


def started(code: str, log: Path) -> Run:
    """A Python program instead of rlzoo, ready."""
    run = Run.start(
        ["-c", f"import signal, sys, time, subprocess\n{code}"], log, forked=False, program=[sys.executable]
    )
    while "ready" not in run.said():
        assert not run.wait(0.02), run.said()
    return run


READY = "print('ready', flush=True)\n"


def test_a_run_that_ignores_a_signal_is_noticed(tmp_path, monkeypatch):
    run = started(f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{READY}time.sleep(60)", tmp_path / "log")
    run.signal(signal.SIGTERM)
    with pytest.raises(Wrong, match="goes on after"):
        check_ended(run, run.wait(0.3), "SIGTERM")
    assert run.wait(5) == -signal.SIGKILL


def test_a_process_that_a_run_leaves_is_noticed_and_killed(tmp_path):
    run = started(f"subprocess.Popen(['sleep', '60'])\n{READY}", tmp_path / "log")
    assert run.wait(10) == 0
    assert run.left(0.1) and not run.left(1)


def test_a_traceback_of_a_run_is_noticed(tmp_path):
    run = started(f"{READY}time.sleep(0.3)\n1 / 0", tmp_path / "log")
    with pytest.raises(Wrong, match="ZeroDivisionError"):
        check_ended(run, run.wait(10), "it")


def test_an_agent_that_cannot_be_read_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = processes.run_folder_of("ppo")
    folder.mkdir(parents=True)
    (folder / "rl_model_8_steps.zip").write_bytes(b"PK")
    with pytest.raises(Wrong, match="cannot be read"):
        processes.check_agents("ppo")


def test_every_scenario_has_a_kill_and_a_signal():
    assert (
        [loader.name for loader in kills.LOADERS]
        == [loader.name for loader in signals.LOADERS]
        == list(NAMES)
    )

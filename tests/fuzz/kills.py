"""`kill -9` at any moment of a run: its files can be read, and `--resume` brings it to its end."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from random import Random

from tests.fuzz.loader import Loader
from tests.fuzz.processes import (
    SCENARIOS,
    Run,
    Wrong,
    check_agents,
    check_ended,
    command_of,
    final_agent,
    moment,
    run_folder_of,
    steps_of,
    write_configuration,
)

DURATIONS: dict[tuple[str, bool], float] = {}
"""Seconds that an undisturbed run takes here, by scenario and whether it is forked."""


def undisturbed(name: str, forked: bool) -> None:
    began = time.monotonic()
    run = Run.start(command_of(name), Path("log"), forked)
    code = run.wait(120)
    check_ended(run, code, "the undisturbed run")
    if code != 0 or max(check_agents(name), default=0) < steps_of(name):
        raise Wrong(f"the undisturbed run ended with {code}: {run.said()[-500:]}")
    DURATIONS[name, forked] = time.monotonic() - began


def kill_and_resume(name: str, folder: Path, rng: Random) -> None:
    os.chdir(folder)
    forked = rng.random() < 0.85
    if (name, forked) not in DURATIONS:
        (folder / "undisturbed").mkdir()
        os.chdir(folder / "undisturbed")
        write_configuration(name, Path())
        undisturbed(name, forked)
        os.chdir(folder)
    arguments = command_of(name)
    for _ in range(rng.choice((1, 1, 1, 2))):
        kill(name, arguments, forked, moment(rng, DURATIONS[name, forked]))
        arguments = ["train", "--resume", str(run_folder_of(name)), "--verbose", "0"]
    resume(name, arguments)


def kill(name: str, arguments: list[str], forked: bool, seconds: float) -> None:
    run = Run.start(arguments, Path("log"), forked)
    run.wait(seconds)
    run.signal(signal.SIGKILL)
    check_ended(run, run.wait(20) or 0, f"killed after {seconds:.2f} s")


def resume(name: str, arguments: list[str]) -> None:
    """:raises Wrong: the run does not come to its end, although there is an agent to continue from"""
    known = check_agents(name)
    run = Run.start(arguments, Path("log"), forked=True)
    code = run.wait(120)
    check_ended(run, code, "resumed")
    if not known:
        if code != 2 or run.said().count("\n") != 1:
            raise Wrong(f"resumed without an agent: exit code {code}: {run.said()[-500:]}")
        return
    if code != 0:
        raise Wrong(f"resumed from {max(known)} steps: exit code {code}: {run.said()[-500:]}")
    if not final_agent(name).is_file() or max(check_agents(name)) < steps_of(name):
        raise Wrong(f"resumed from {max(known)} steps, and there is no final agent: {run.said()[-300:]}")
    if left := list(run_folder_of(name).rglob(".rlzoo-*.tmp")):
        raise Wrong(f"temporary files are left: {left}")


LOADERS = tuple(
    Loader(
        name,
        partial(write_configuration, name),
        partial(kill_and_resume, name),
        mutate=lambda rng, _, data: data,
        guarded=False,
        share=0.3 if name == "subproc" else 1,
    )
    for name in SCENARIOS
)

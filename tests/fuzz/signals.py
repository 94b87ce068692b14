"""SIGINT, SIGTERM and SIGHUP at any moment of a run: it ends soon, and saves its agent or says one line."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from random import Random

from tests.fuzz.kills import DURATIONS, undisturbed
from tests.fuzz.loader import Loader
from tests.fuzz.processes import (
    ENDING,
    SCENARIOS,
    Run,
    Wrong,
    check_agents,
    check_ended,
    command_of,
    final_agent,
    moment,
    run_folder_of,
    write_configuration,
)

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def send_signal(name: str, folder: Path, rng: Random) -> None:
    os.chdir(folder)
    forked = rng.random() < 0.85
    if (name, forked) not in DURATIONS:
        (folder / "undisturbed").mkdir()
        os.chdir(folder / "undisturbed")
        write_configuration(name, Path())
        undisturbed(name, forked)
        os.chdir(folder)
    number, group, twice = rng.choice(SIGNALS), rng.random() < 0.5, rng.random() < 0.15
    seconds = moment(rng, DURATIONS[name, forked])
    run = Run.start(command_of(name), Path("log"), forked)
    code = run.wait(seconds)
    how = f"{' to the group' * group}{' twice' * twice}{'' if forked else ' from a shell'}"
    what = f"{number.name}{how} after {seconds:.2f} s of {DURATIONS[name, forked]:.2f}"
    if code is None:
        run.signal(number, group)
        if twice:
            run.wait(rng.uniform(0, 1))
            run.signal(number, group)
        code = run.wait(ENDING)
    check_ended(run, code, what)
    steps, began, said = check_agents(name), run_folder_of(name).exists(), run.said()
    if code == -number and (not began or final_agent(name).is_file()):
        return  # before rlzoo could listen, or when all was done
    if code not in (0, 1, 2, 130):
        raise Wrong(
            f"{what}: exit code {code}, the folder is {'there' if began else 'not there'}: {said[-500:]}"
        )
    if twice and code == 130:
        return  # it ended at once, as it said
    if began and not final_agent(name).is_file():
        raise Wrong(f"{what}: exit code {code}, no agent is saved beside {steps}: {said[-500:]}")
    if not began and not said.strip():
        raise Wrong(f"{what}: exit code {code}, without a word")


LOADERS = tuple(
    Loader(
        name,
        partial(write_configuration, name),
        partial(send_signal, name),
        mutate=lambda rng, _, data: data,
        guarded=False,
        share=0.3 if name == "subproc" else 1,
    )
    for name in SCENARIOS
)

"""Command lines: valid, contradictory and odd flags of every command, run in the process of the sandbox.

An exit code is 0, 1, 2 or 130; there is no traceback, no process that goes on, and after exit code 2 no file
or folder that was not there before.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import matplotlib.figure  # noqa: F401 - begun in a case and ended by its Ctrl-C, it fails in later ones
import psutil
import yaml

from rlzoo.algorithms.base import Algorithm
from rlzoo.cli.flags.parser import values_of
from rlzoo.cli.main import COMMANDS, build, load_command, main
from rlzoo.core.errors import UserError
from rlzoo.plots import results as plots
from tests.fuzz.agents import Stop, example, save_expert
from tests.fuzz.configurations import ENTRIES
from tests.fuzz.loader import Loader, ctrl_c_after
from tests.fuzz.runs import RUN, VALUES, make_run, make_study, write_evaluations_of
from tests.fuzz.sandbox import place

CODES = (0, 1, 2, 130)
LINE = "line.json"
ENDING = 2.0  # seconds that processes have to end after a command
LONGEST = 3.0  # seconds until Ctrl-C
BASES: dict[str, tuple[str, ...]] = {
    "train": ("--algo ppo --env CartPole-v1 -n 16 -conf conf.yml", "--resume logs/" + RUN, "-optimize -n 64"),
    "enjoy": (
        "--algo ppo --env CartPole-v1 -n 8 --no-render",
        "--algo ppo --env CartPole-v1 -f logs --n-episodes 1",
    ),
    "optimize": ("--algo ppo --env CartPole-v1 -n 64 --n-trials 1", "--report ppo_MountainCarContinuous-v0"),
    "dashboard": ("--help", "ppo_MountainCarContinuous-v0"),
    "benchmark run": ("list.yml -f runs --dry-run", "list.yml -f runs"),
    "jobs": (
        "list.yml --scheduler shell -o jobs",
        "list.yml --scheduler slurm -o jobs --time 00:10:00 --parallel 2",
    ),
    "benchmark score": ("logs -n 1", "logs -n 1 -o scores.json"),
    "benchmark table": ("logs", "logs --format csv", "scores.json --list list.yml"),
    "benchmark page": ("logs -o site -n 4", "scores.json --list list.yml -o site --no-videos"),
    "benchmark ship": ("-o logs", "logs -o shipped"),
    "plot train": ("-f logs", "-a ppo -e CartPole -f logs -x time -y success -w 2 -o train.svg"),
    "plot compare": ("-f logs -o results.json", "-a ppo -f logs --iqm -k successes --min-timesteps 8"),
    "plot report": ("results.json", "results.json --versus --boxplot --latex --normalize range -o out"),
    "record-expert": ("--algo ppo --env CartPole-v1 -n 1 -o expert2.npz",),
    "record-video": ("--algo ppo --env CartPole-v1 -f logs -n 4",),
    "record-training": ("--algo ppo --env CartPole-v1 -f logs -n 4",),
    "export": (
        "--algo ppo --env CartPole-v1 -f logs --to json",
        "--algo ppo --env CartPole-v1 --to html -o x.html",
    ),
    "import": ("agent.zip -o imported", "logs -o imported", "damaged.zip -o imported --algo ppo"),
    "push": (
        "--help",
        "--algo ppo --env CartPole-v1 -f logs --no-video --n-eval-episodes 1",
    ),
    "pull": ("--help", "-orga lab --algo ppo --env CartPole-v1 -f logs", "-i lab/ppo-CartPole-v1/agent.zip"),
    "list": ("agents -f logs", "envs", "algos"),
    "show": ("--algo ppo --env CartPole-v1", "--algo her -conf conf.yml"),
    "validate": ("conf.yml --algo ppo", "ppo.yml"),
    "completion": ("bash", "zsh", "fish"),
}
ODD_ARGUMENTS = (
    "", " ", "-1", "0", "1", "2", "3.5", "1e3", "1e400", "9" * 30, "nan", "inf", "-inf", "true", "None",
    "x", "é", "\udcff",
    "a b", "a\nb", "\x1b[31mred", "..", "../x", "/", ".", "/dev/null", "/dev/full", "/proc/self/mem",
    "/etc/shadow", "no/such/x",
    "logs", "logs/" + RUN, "agent.zip", "damaged.zip", "expert.npz", "conf.yml", "ppo.yml", "list.yml",
    "empty", "x.py", "n" * 300,
    "p/" * 3000, "ppo", "sac", "her", "CartPole-v1", "Pendulum-v1", "CartPol-v1", "ALE/Pong-v5", "a:b",
    "json:CartPole-v1",
    "cpu", "cuda", "cuda:7", "meta", "dummy", "subproc", "native", "n_steps:8", "n_steps:-1",
    "learning_rate:lin_x", ":", "a:",
    "policy_kwargs:dict(", "policy_kwargs:dict(net_arch=[1])", "env_wrapper:builtins.id",
    "callback:builtins.print",
    "normalize:1", "sqlite:///x.db", "sqlite:////no/such/x.db", "journal://x", "x.log",
    "mysql://u:p@localhost/x",
    "127.0.0.1:0", "localhost", "json", "os", "rlzoo", "{}", "[]", "@x", "-", "--", "--x", "%s", "$HOME",
    "~", "*", "tpe", "grid",
)  # fmt: skip
CAPPED = {
    "--n-trials": 2,
    "--max-total-trials": 2,
    "--n-jobs": 2,
    "--n-seeds": 2,
    "-n": 64,
    "--n-timesteps": 64,
}
"""Flags of which large numbers are honest, but take all the machine."""


class Wrong(Exception):
    """What a command must not do."""


def write_surroundings(folder: Path) -> None:
    """What command lines name: a run, a study, an agent, demonstrations, lists, evaluations."""
    make_run(folder)
    (folder / "ppo").rename(folder / "logs_ppo")
    (folder / "logs").mkdir()
    (folder / "logs_ppo").rename(folder / "logs" / "ppo")
    make_study(folder / "logs", None)
    save_expert(folder)
    example("ppo").save(folder / "agent.zip")
    (folder / "damaged.zip").write_bytes((folder / "agent.zip").read_bytes()[:900])
    (folder / "conf.yml").write_text(json.dumps({"default": {**VALUES, "n_timesteps": 16}}))
    (folder / "ppo.yml").write_text(yaml.safe_dump({"CartPole-v1": ENTRIES["ppo"][1]}))
    row = {
        "algo": "ppo",
        "env": "CartPole-v1",
        "n_timesteps": 16,
        "conf_file": "conf.yml",
        "seeds": [0],
        "episodes": 1,
    }
    (folder / "list.yml").write_text(yaml.safe_dump({"rows": [row]}))
    (folder / "empty").write_bytes(b"")
    (folder / "x.py").write_text("hyperparams = {}\n")
    scores = [json.loads((folder / "logs" / RUN / "score.json").read_text())]
    (folder / "scores.json").write_text(json.dumps(scores))
    write_evaluations_of(folder / "logs" / RUN, seed=0)
    (folder / "results.json").write_text(plots.results_text(plots.gather(folder / "logs")))


def command_line(rng: Random, name: str) -> list[str]:
    """A command line: one that is right, with some of its arguments changed, and others added."""
    base = rng.choice(BASES[name]).split()
    actions = [action for action in build(name, load_command(name)).actions if action.dest != "help"]
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        base += flag(rng, rng.choice(actions))
    if base and rng.random() < 0.25:
        base[rng.randrange(len(base))] = rng.choice(ODD_ARGUMENTS)
    if base and rng.random() < 0.1:
        del base[rng.randrange(len(base))]
    return [*name.split(), *capped(base)]


def flag(rng: Random, action: argparse.Action) -> list[str]:
    """A flag, or a positional argument, with values that it has or that nobody would give."""
    written = [rng.choice(action.option_strings)] if action.option_strings else []
    if action.nargs == 0:
        return written
    known = values_of(action)
    count = rng.choice((1, 1, 2, 3)) if action.nargs in ("+", "*") else rng.choice((1, 1, 1, 1, 0))
    return written + [
        rng.choice(known if known and rng.random() < 0.5 else ODD_ARGUMENTS) for _ in range(count)
    ]


def capped(arguments: list[str]) -> list[str]:
    result = list(arguments)
    for at, name in enumerate(arguments[:-1]):
        with contextlib.suppress(ValueError, OverflowError):
            if name in CAPPED and int(float(arguments[at + 1])) > CAPPED[name]:
                result[at + 1] = str(CAPPED[name])
    return result


def run_line(folder: Path, rng: Random) -> None:
    """Run the command line of a case, and look at what it left.

    :raises Wrong: it has done what no command line may do
    """
    arguments = json.loads((folder / LINE).read_text())
    before, children = set(folder.rglob("*")), psutil.Process().children(recursive=True)
    os.chdir(folder)
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()), short_trainings():
        try:
            with ctrl_c_after(LONGEST):
                code = main(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except Exception as error:
            raise Wrong(f"{arguments}: {place(error)}: {error}") from error
        finally:
            left = processes_left(children)
    said = errors.getvalue()
    if left:
        raise Wrong(f"{arguments}: processes go on: {left}")
    if code not in CODES:
        raise Wrong(f"{arguments}: exit code {code}")
    if "Traceback" in said and not re.search("Exception ignored in.*KeyboardInterrupt", said, re.DOTALL):
        # Python itself drops a Ctrl-C that comes while it removes a weak reference.
        raise Wrong(f"{arguments}: {said[-1000:]}")
    if code == 2 and (
        more := sorted(str(path.relative_to(folder)) for path in set(folder.rglob("*")) - before)
    ):
        raise Wrong(f"{arguments}: left after exit code 2: {more[:4]}: {said[-300:]}")
    if code == 130:
        raise KeyboardInterrupt
    if code:
        raise UserError(f"exit code {code}: {arguments}: {said[-500:]}")


@contextmanager
def short_trainings() -> Iterator[None]:
    """Let `learn` stop after some steps, so that a long training is none."""
    learn: Callable[..., Any] = Algorithm.learn

    def short(self: Any, total_timesteps: int, callback: Any = None, **kwargs: Any) -> Any:
        callbacks = callback if isinstance(callback, list) else [callback] if callback is not None else []
        return learn(self, total_timesteps, callback=[*callbacks, Stop()], **kwargs)

    Algorithm.learn = short  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Algorithm.learn = learn  # type: ignore[method-assign]


def processes_left(before: Collection[psutil.Process]) -> list[str]:
    """The commands of child processes that go on; they are killed.

    :param before: those of this process that were there already, such as a fork server of other tests
    """
    running = psutil.Process().children(recursive=True)
    children = [child for child in running if child not in before and "tracker" not in _command(child)]
    _, alive = psutil.wait_procs(children, timeout=ENDING)
    left = [_command(child) for child in alive]
    for child in alive:
        child.kill()
    return left


def _command(process: psutil.Process) -> str:
    """Its command; that of the resource tracker, which lives as long as its parent, says so."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return ""


def loader_of(name: str) -> Loader:
    """The command as what is fuzzed: its line is a file among what it names."""

    def make(folder: Path) -> None:
        write_surroundings(folder)
        (folder / LINE).write_text(json.dumps([*name.split(), *BASES[name][0].split()]))

    def mutate(rng: Random, _: str, __: bytes) -> bytes:
        return json.dumps(command_line(rng, name)).encode()

    share = 0.1 if name == "completion" else 3 if name in ("train", "optimize", "enjoy") else 1
    return Loader(
        name.replace(" ", "_"), make, run_line, (LINE,), mutate, alone=False, guarded=False, share=share
    )


LOADERS = tuple(map(loader_of, COMMANDS))
BY_NAME = {loader.name: loader for loader in LOADERS}

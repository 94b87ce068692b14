"""Run the code blocks of a Markdown page, and the examples of docstrings, with their work scaled down.

Conventions of a page (see docs/developing):

- ```python blocks run in order in one namespace, ```bash lines between them, all in one empty folder.
- `<!-- not run: reason -->` before a block: its Python must compile, its `rlzoo` flags must exist.
- `<!-- file: name -->` before a block: the block is written to that file, and not run.
- Numbers of steps, trials and episodes are capped (`CAPS`); commands without such a flag get one (`SMALL`).

A page runs in a separate process, forked from one that has imported PyTorch and Gymnasium (`run_isolated`).
"""

from __future__ import annotations

import contextlib
import doctest
import json
import multiprocessing
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PRELOAD = [
    "torch",
    "gymnasium",
    "matplotlib.pyplot",
    "rlzoo.cli.main",
    "rlzoo.experiment.training_run",
]
SECONDS = 170  # of a page

N = r"(\d[\d_]*(?:\.\d+)?(?:[eE]\+?\d+)?)"
CAPS = [
    (re.compile(rf"(\blearn\(){N}"), 200),
    (re.compile(rf"(\b(?:total_timesteps|n_timesteps)\s*[=:]\s*){N}"), 200),
    (re.compile(rf"(\bn_trials\s*=\s*){N}"), 2),
    (re.compile(rf"(\b(?:n_episodes|n_eval_episodes|eval_episodes|episodes)\s*[=:]\s*){N}"), 2),
    (re.compile(rf"(\b(?:eval_freq|save_freq)\s*=\s*){N}"), 100),
    (re.compile(rf"(\bpretrain\(.*?n_epochs=){N}"), 2),
    (re.compile(rf"((?:\bn_jobs\s*=\s*|--n-jobs[ =])){N}"), 1),
    (re.compile(rf"((?:^|\s)(?:-n|--n-timesteps)[ =]){N}"), 200),
    (re.compile(rf"((?:^|\s)(?:--n-trials)[ =]){N}"), 2),
    (re.compile(rf"((?:^|\s)(?:--eval-freq|--save-freq)[ =]){N}"), 100),
    (re.compile(rf"((?:^|\s)(?:--eval-episodes|--n-episodes|--n-eval-episodes|--episodes)[ =]){N}"), 2),
    (re.compile(rf"((?:^|\s)(?:--n-evaluations)[ =]){N}"), 2),
]
"""Patterns of a number, and the largest value that it keeps."""
SMALL = {
    "train": (("-n", "--n-timesteps", "--resume", "--trial-id"), "-n 200"),
    "optimize": (("-n", "--n-timesteps", "--report"), "-n 200"),
    "enjoy": (("-n", "--n-timesteps", "--n-episodes"), "-n 100"),
    "record-video": (("-n", "--n-timesteps", "--episodes"), "-n 50"),
    "record-training": (("-n", "--n-timesteps"), "-n 50"),
}
"""Command -> flags that say how long it takes, and what is added where none of them is given."""
SHELL = frozenset("|<>&;$*`(){}")
"""Characters that only a shell understands."""


@dataclass
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int  # of the page
    file: str = ""  # what it is written to
    not_run: str = ""  # why it is not run


FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>.*)$")
COMMENT = re.compile(r"^\s*<!--\s*(file|not run):\s*(.+?)\s*-->\s*$")


def blocks_of(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page, each with the comment before it."""
    lines = page.splitlines()
    marks: dict[str, str] = {}
    index = 0
    while index < len(lines):
        if comment := COMMENT.match(lines[index]):
            marks[comment[1]] = comment[2]
        elif fence := FENCE.match(lines[index]):
            start = index + 1
            closing = re.compile(rf"^ {{0,{len(fence['indent']) + 3}}}{fence['fence']}+\s*$")
            index = start
            while index < len(lines) and not closing.match(lines[index]):
                index += 1
            inside = [line.removeprefix(fence["indent"]) for line in lines[start:index]]
            text = "\n".join(inside) + "\n"
            yield Block(
                fence["info"].strip(), text, start + 1, marks.get("file", ""), marks.get("not run", "")
            )
            marks = {}
        elif lines[index].strip():
            marks = {}
        index += 1


def number(text: str) -> float:
    return float(text.replace("_", ""))


def scaled_down(text: str) -> str:
    """Cap the numbers of steps, trials and episodes in a block."""
    for pattern, most in CAPS:
        text = pattern.sub(lambda match, most=most: match[1] + str(min(int(number(match[2])), most)), text)
    return text


def commands_of(text: str) -> list[str]:
    """Split a ```bash block into commands: continued lines and here-documents stay together."""
    commands: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        while line.endswith("\\"):
            line = line[:-1] + next(lines).lstrip()
        if here := re.search(r"<<-?\s*['\"]?(\w+)['\"]?", line):
            for inside in lines:
                line += "\n" + inside
                if inside.strip() == here[1]:
                    break
        commands.append(line.strip())
    return commands


def shortened(words: list[str]) -> list[str]:
    """Return an `rlzoo` command with the flags that keep it short and away from a display."""
    flags, added = SMALL.get(words[1].replace("_", "-"), ((), "")) if len(words) > 1 else ((), "")
    given = {word.split("=")[0] for word in words}
    if added and not given & set(flags):
        words = [*words, *added.split()]
    if words[1:2] == ["optimize"] and not given & {"--n-trials", "--max-total-trials", "--report"}:
        words = [*words, "--n-trials", "2"]
    if words[1:2] == ["enjoy"] and "--no-render" not in given:
        words = [*words, "--no-render"]
    return words


def run_command(command: str) -> None:
    """Run a line of a ```bash block; those of rlzoo in this process.

    :raises AssertionError: its exit code is not 0
    """
    plain = "\n" not in command and not SHELL & set(re.sub(r"'[^']*'|\"[^\"]*\"", "", command))
    words = shlex.split(command, comments=True) if plain else []
    for start in (["rlzoo"], ["python", "-m", "rlzoo"]):
        if words[: len(start)] == start:
            from rlzoo.cli.main import main

            words = shortened(["rlzoo", *words[len(start) :]])
            print("$", shlex.join(words), flush=True)
            try:
                code = main(words[1:])
            except SystemExit as ended:  # --help
                code = int(ended.code or 0)
            assert code == 0, f"exit code {code}: {command}"
            return
    print("$", command, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, module in (("rlzoo", "-m rlzoo"), ("python", "")):
            script = Path(folder) / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
            script.chmod(0o755)
        environment = {
            **os.environ,
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path.cwd())]),
        }
        subprocess.run(["bash", "-euc", command], check=True, env=environment, stdin=subprocess.DEVNULL)


def check_not_run(block: Block) -> None:
    """Check what can be checked of a block that is not run: its syntax, and the names of flags.

    :raises Exception: it would fail at once
    """
    if block.language == "python":
        text, name = textwrap.dedent(block.text), f"line {block.line}"
        try:
            compile(text, name, "exec")
        except SyntaxError:
            compile(f"{{{text}}}", name, "exec")  # some lines of a dictionary
    elif block.language == "bash":
        from rlzoo.cli.flags.parser import flags_of
        from rlzoo.cli.main import build, command_of, load_command

        for command in commands_of(block.text):
            if command.startswith("rlzoo ") and not SHELL & set(command):
                name, rest = command_of(shlex.split(command, comments=True)[1:])
                flags = flags_of(build(name, load_command(name)))
                given = [word.partition("=")[0] for word in rest if re.match(r"--?[a-zA-Z]", word)]
                assert set(given) <= set(flags), f"rlzoo {name} has no {', '.join(set(given) - set(flags))}"


def run_block(block: Block, namespace: dict[str, Any], page: str) -> None:
    """Write, run or check one block."""
    if block.file:
        path = Path(block.file)
        assert not path.is_absolute() and ".." not in path.parts, block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(scaled_down(block.text))
    if block.language in ("yaml", "json"):
        check_data(block)
    if block.not_run:
        check_not_run(block)
    elif block.language == "python" and not block.file:
        padded = "\n" * (block.line - 1) + scaled_down(
            block.text
        )  # so that tracebacks name the line of the page
        exec(compile(padded, page, "exec"), namespace)
    elif block.language == "bash" and not block.file:
        for command in commands_of(scaled_down(block.text)):
            run_command(command)


def check_data(block: Block) -> None:
    """Parse a block of YAML or JSON.

    :raises ValueError: it is neither
    """
    if block.language == "json":
        json.loads(block.text)
    else:
        import yaml

        yaml.safe_load(block.text)


def run_page(path: str) -> None:
    """Run the blocks of a page in the working folder."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(Path(path).read_text()):
        try:
            run_block(block, namespace, path)
        except BaseException:
            print(f"\n{path}:{block.line}: this block fails\n{block.text}", flush=True)
            raise


def run_doctests(module_name: str) -> None:
    """Run the examples of the docstrings of a module in the working folder.

    :raises AssertionError: one of them fails
    """
    import importlib

    module = importlib.import_module(module_name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    tests = examples_of(module)
    prepare_files("".join(example.source for test in tests for example in test.examples))
    for test in tests:
        for example in test.examples:
            example.source = scaled_down(example.source)
        test.globs = assumed_names(test) | test.globs
        runner.run(test)
    assert not runner.failures, f"{runner.failures} examples fail"


def prepare_files(source: str) -> None:
    """Make the runs, results and demonstrations that the examples read."""
    from rlzoo.cli.main import main

    train = "train --algo {} --env CartPole-v1 -n 200 --eval-freq 100 --eval-episodes 2 --verbose 0"
    commands = []
    if re.search(r"results\.json|\bplots\.|load_runs|progress\.csv", source):
        commands += [train.format("ppo"), train.format("a2c")]
    if "results.json" in source:
        commands.append("plot compare -a ppo a2c -e CartPole-v1 -o results.json")
    if "expert.npz" in source:
        commands.append("record-expert --algo ppo --env CartPole-v1 -n 2 -o expert.npz")
    for command in commands:
        assert main(command.split()) == 0, command


def assumed_names(test: doctest.DocTest) -> dict[str, Any]:
    """Return what examples use without importing it: public names of rlzoo, and `np`, `gym` and `plt`."""
    import gymnasium as gym
    import matplotlib.pyplot as plt
    import numpy as np

    import rlzoo

    words = set(re.findall(r"\w+", "".join(example.source for example in test.examples)))
    public = {name: getattr(rlzoo, name) for name in words.intersection(rlzoo.__all__)}
    return {"rlzoo": rlzoo, "np": np, "gym": gym, "plt": plt, **public}


def examples_of(module: Any) -> list[doctest.DocTest]:
    """Return the examples of a module, its classes, functions and methods."""
    found = doctest.DocTestFinder(exclude_empty=True).find(module)
    return [test for test in found if test.examples]


def run_isolated(function: Callable[[str], None], argument: str, folder: Path) -> None:
    """Call a function in a forked process whose working folder is an empty one.

    :raises AssertionError: it raises, or takes too long; with the end of its output
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    folder.mkdir(parents=True, exist_ok=True)
    process = context.Process(target=_isolated, args=(function, argument, str(folder)))
    process.start()
    process.join(SECONDS)
    log = Path(f"{folder}.log").read_text()[-6_000:] if Path(f"{folder}.log").exists() else ""
    if process.is_alive():
        process.kill()
        process.join()
        raise AssertionError(f"{argument} runs longer than {SECONDS} s\n{log}")
    assert process.exitcode == 0, f"{argument}\n{log}"


def _isolated(function: Callable[[str], None], argument: str, folder: str) -> None:
    """Call a function with its output in a file, and exit with 1 if it raises."""
    os.chdir(folder)
    sys.path.insert(0, folder)
    log = os.open(f"{folder}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 1
    with contextlib.suppress(BaseException):
        try:
            function(argument)
            code = 0
        except BaseException:
            traceback.print_exc()
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"processor time: {sum(each.ru_utime + each.ru_stime for each in usage):.1f} s")
    sys.stdout.flush()
    sys.stderr.flush()
    if code:
        os._exit(code)

"""The way from `rlzoo train` to the first gradient is short, and the documentation lists its files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "developing" / "reading_path.md"
MAX_HOPS = 5  # calls from the command's `run` to the algorithm's `update`
MAX_FILES = 8
MAX_LINES = 1_400
DECORATION = {
    "rlzoo/cli/main.py",
    "rlzoo/accel/fast_mlp.py",
    "rlzoo/accel/flat_parameters.py",
    "rlzoo/accel/threads.py",
}
MAX_EXECUTED = 45  # files with a function that runs before the first gradient, imports left out
MAX_JUMPS = 150  # calls of a function of another file, each counted once, until the model is built

TRACE = """
import json, os, sys
root = sys.argv[1]
executed, jumps, importing, built = set(), set(), 0, False

def relative(frame):
    name = frame.f_code.co_filename
    return os.path.relpath(name, root) if name.startswith(os.path.join(root, "rlzoo") + os.sep) else None

def caller_in_package(frame):
    while (frame := frame.f_back) is not None and relative(frame) is None:
        pass
    return frame

def profile(frame, event, argument):
    global importing, built
    if frame.f_code.co_name == "<module>" and event in ("call", "return"):
        importing += 1 if event == "call" else -1
    elif event == "call" and not importing and frame.f_code.co_flags & 1 and (name := relative(frame)):
        executed.add(name)
        built = built or (name, frame.f_code.co_name) == ("rlzoo/algorithms/agent/agent.py", "learn")
        if not built and (caller := caller_in_package(frame)) and relative(caller) != name:
            jumps.add((relative(caller), caller.f_code.co_name, name, frame.f_code.co_name))

def backward(*args, **kwargs):
    sys.setprofile(None)
    stack, frame = [], sys._getframe(1)
    while frame is not None:
        if name := relative(frame):
            stack.insert(0, [name, frame.f_code.co_name])
        frame = frame.f_back
    print(json.dumps({"stack": stack, "executed": sorted(executed), "jumps": sorted(jumps)}), flush=True)
    os._exit(0)

from rlzoo.accel.fast_mlp import Tape
from rlzoo.cli.main import main
Tape.backward = backward
sys.setprofile(profile)
command = "train --algo ppo --env CartPole-v1 -n 512 --eval-freq -1 --verbose 0"
main(command.split())
"""


@cache
def trace() -> Any:
    """The call stack at the first gradient, the files executed until then, the calls between files."""
    import tempfile

    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", TRACE, str(ROOT)],
            capture_output=True, text=True, check=False, cwd=folder, env=environment,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def listed() -> list[str]:
    """The files of the page, in its order."""
    return re.findall(r"(?m)^\| \{source\}`(rlzoo/[\w/]+\.py)` \|", PAGE.read_text())


def test_update_is_few_calls_from_the_command() -> None:
    names = [name for file, name in trace()["stack"] if file not in DECORATION]
    hops = names[names.index("run") : names.index("update") + 1]
    assert len(hops) - 1 <= MAX_HOPS, hops


def test_page_lists_the_files_of_the_call_stack() -> None:
    assert {name for name, _ in trace()["stack"]} - DECORATION <= set(listed())


def test_reading_path_is_short() -> None:
    files = listed()
    assert 0 < len(files) <= MAX_FILES and len(set(files)) == len(files)
    lines = sum(len((ROOT / name).read_text().splitlines()) for name in files)
    assert lines <= MAX_LINES, lines


def test_few_files_run_before_the_first_gradient() -> None:
    executed = trace()["executed"]
    assert len(executed) <= MAX_EXECUTED, executed


def test_page_lists_every_file_that_runs() -> None:
    section = PAGE.read_text().partition("## Every file that runs")[2].partition("\n## ")[0]
    named = set(re.findall(r"\{source\}`(rlzoo/[\w/]+\.py)`", section)) | set(listed())
    assert named == set(trace()["executed"])
    assert f"functions of {len(named)} files run" in section


def test_few_calls_lead_into_other_files() -> None:
    jumps = trace()["jumps"]
    assert 0 < len(jumps) <= MAX_JUMPS, jumps


def test_page_names_files_that_exist() -> None:
    table = PAGE.read_text().partition("Where to look next:")[2]
    names = re.findall(r"(?m)\| \{source\}`(rlzoo/[^`]+)` \|$", table)
    assert len(names) == table.count("\n| ") - 1 > 7  # one file a row, below the header
    missing = [name for name in names if not (ROOT / name).is_file()]
    assert not missing, missing

"""The part of a task that runs in a process of Ray."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from rlzoo import __version__
from rlzoo.cluster.staging import is_shared, pack
from rlzoo.cluster.tasks import Json, TaskContext, call

Send: TypeAlias = Callable[[Json, bool], Json]


def run(text: str, send: Send, read: Callable[[str], bytes]) -> bytes:
    """Run a task, and return its outcome and its files; see `rlzoo.cluster.staging.pack`.

    :param text: JSON of `RayPool.submit`
    :param send: see `TaskContext`
    :param read: returns the bytes of an input file by its path
    """
    task = json.loads(text)
    if task["version"] != __version__:  # a node that joined after the driver had looked at all of them
        reason = f"a node of the cluster has rlzoo {__version__}, this machine has {task['version']}"
        return pack({"error": f"{reason}: install the same version everywhere", "refused": True})
    os.environ.update(task["environment"])
    if is_shared(task["mark"]):
        os.chdir(task["mark"]["cwd"])
        return pack(call(task["target"], TaskContext(task["payload"], task["output"], {}, send)))
    with tempfile.TemporaryDirectory(prefix="rlzoo-task-") as folder:
        return _run_apart(task, Path(folder), send, read)


def _run_apart(task: Json, folder: Path, send: Send, read: Callable[[str], bytes]) -> bytes:
    """Run a task in a temporary folder, with copies of its inputs."""
    os.chdir(folder)
    output = folder / "output"
    output.mkdir()
    inputs = _write_inputs(task["inputs"], folder / "inputs", read)
    context = TaskContext(task["payload"], str(output) if task["output"] else "", inputs, send, is_apart=True)
    try:
        outcome = call(task["target"], context)
        if not task["output"]:
            return pack(outcome)
        return pack(outcome, output, {str(output): task["output"], **{inputs[path]: path for path in inputs}})
    finally:
        os.chdir("/")


def _write_inputs(paths: list[str], folder: Path, read: Callable[[str], bytes]) -> Mapping[str, str]:
    """Write the input files into a folder, each with its name; return the new paths by the old ones."""
    written: dict[str, str] = {}
    parents = list(dict.fromkeys(Path(path).parent for path in paths))
    for path in paths:  # files of one folder stay beside each other
        copy = folder / str(parents.index(Path(path).parent)) / Path(path).name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(read(path))
        written[path] = str(copy)
    return written

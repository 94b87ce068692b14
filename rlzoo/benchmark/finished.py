"""Marker files of a benchmark in its run folders: task name, training started, training finished.

row.json              {"name": "big_net"}: the name of the task; missing if it has none
begun_by_benchmark    exists until training has finished; seconds so far of one that can be resumed
finished.json         {"seconds": 12.5, "date": ..., "evaluation_seconds": 1.2, "expert": ...}; seconds are
                      null if they are unknown, because the file was damaged and has been written again
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path

from rlzoo.config.benchmark import is_row_name
from rlzoo.config.run import RunConfig, find_runs
from rlzoo.core.errors import UserError
from rlzoo.core.runtime import utc_now
from rlzoo.io.atomic import atomic_write
from rlzoo.runs.run_folder import checkpoints

FINISHED = "finished.json"
BEGUN = "begun_by_benchmark"
ROW = "row.json"


def mark_begun(folder: Path, name: str | None = None) -> None:
    """Mark a run as started by a benchmark, which may remove it.

    :param name: of its task, if it has one
    """
    (folder / BEGUN).touch()
    if name is not None:
        _write(folder / ROW, {"name": name})


def row_name(folder: Path) -> str | None:
    """Return the name of a run's task; None if it has none, as every run of `rlzoo train`.

    :raises UserError: the file is damaged
    """
    if not (folder / ROW).exists():
        return None
    name = _content(folder / ROW).get("name")
    if name is not None and not (isinstance(name, str) and is_row_name(name)):
        raise UserError(f"{folder / ROW} is damaged: name is {str(name)[:40]!r}")
    return name


def row_key(folder: Path, run: RunConfig) -> tuple[str, str]:
    """Return the key of a run's task: its name, or else the algorithm, and the environment.

    :raises UserError: see `row_name`
    """
    return row_name(folder) or run.algo, run.env_id


def copy_row_name(source: Path, folder: Path) -> None:
    """Copy the name of the task from one run folder to another."""
    if row_name(source) is not None:
        shutil.copyfile(source / ROW, folder / ROW)


def mark_finished(
    folder: Path, seconds: float, expert: str | None = None, evaluation_seconds: float | None = None
) -> None:
    """Mark a run as finished.

    :param seconds: training time, without evaluations
    :param expert: SHA-256 of the demonstrations, if it had any
    :param evaluation_seconds: time of the evaluations, if there were any
    """
    evaluations = None if evaluation_seconds is None else round(evaluation_seconds, 3)
    content = {"seconds": round(seconds, 3), "date": utc_now(), "expert": expert}
    content["evaluation_seconds"] = evaluations
    _write(folder / FINISHED, {k: v for k, v in content.items() if v is not None})
    (folder / BEGUN).unlink(missing_ok=True)


def mend_marks(folder: Path, name: str | None) -> list[Path]:
    """Write the damaged marks of a finished run again, and return their files.

    What a damaged `finished.json` said is lost: the training time is then unknown.

    :param name: of its task, if it has one
    """
    mended = []
    try:
        row_name(folder)
    except UserError:
        if name is None:
            (folder / ROW).unlink()
        else:
            _write(folder / ROW, {"name": name})
        mended.append(folder / ROW)
    try:
        training_seconds(folder)
        learned_from(folder)
    except UserError:
        _write(folder / FINISHED, {"seconds": None, "date": utc_now()})
        mended.append(folder / FINISHED)
    return mended


def mark_interrupted(folder: Path, seconds: float, evaluation_seconds: float | None = None) -> None:
    """Record the time that an interrupted training has taken so far, for when it is resumed.

    :param seconds: training time, without evaluations
    :param evaluation_seconds: time of the evaluations, if there were any
    """
    _write(folder / BEGUN, {"seconds": seconds, "evaluation_seconds": evaluation_seconds or 0.0})


def seconds_so_far(folder: Path) -> tuple[float, float]:
    """Return the seconds of training and of evaluations before an interruption; 0 where unknown.

    :raises UserError: the mark is damaged
    """
    path = folder / BEGUN
    if not path.is_file() or not path.stat().st_size:
        return 0.0, 0.0
    content = _content(path)
    try:
        times = float(str(content["seconds"])), float(str(content["evaluation_seconds"]))
    except (LookupError, ValueError):
        times = math.nan, math.nan
    if not all(0 <= seconds < math.inf for seconds in times):
        raise UserError(f"{path} does not say how long the training took")
    return times


def interrupted_run(log_folder: Path, algo: str, env_id: str) -> Path | None:
    """Return the newest unfinished run that holds an agent to continue from; None if there is none."""
    for _, folder in reversed(find_runs(log_folder, algo, env_id)):
        if is_unfinished(folder) and checkpoints(folder, env_id):
            return folder
    return None


def is_unfinished(folder: Path) -> bool:
    """Return whether a benchmark has started the training in a folder, but not finished it."""
    return (folder / BEGUN).exists() and not is_finished(folder)


def is_finished(folder: Path) -> bool:
    """Return whether the training in a folder has finished."""
    return (folder / FINISHED).is_file()


def training_seconds(folder: Path) -> float | None:
    """Return the training time in seconds, without evaluations; None if unknown.

    :raises UserError: the mark is damaged
    """
    if not is_finished(folder):
        return None
    content = _content(folder / FINISHED)
    if content.get("seconds", 0) is None:  # see `mend_marks`
        return None
    try:
        seconds = float(str(content["seconds"]))
    except (LookupError, ValueError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise UserError(f"{folder / FINISHED} does not say how long the training took")
    return seconds


def learned_from(folder: Path) -> str | None:
    """Return the SHA-256 of the demonstrations of a finished training; None if it had none.

    :raises UserError: the mark is damaged
    """
    expert = _content(folder / FINISHED).get("expert")
    if not isinstance(expert, str | None):
        raise UserError(f"{folder / FINISHED} is damaged: expert is {str(expert)[:40]!r}")
    return expert


def _write(path: Path, content: Mapping[str, object]) -> None:
    """Write a marker file."""
    with atomic_write(path) as file:
        file.write((json.dumps(content) + "\n").encode())


def _content(path: Path) -> dict[str, object]:
    """Read a marker file.

    :raises UserError: it is damaged
    """
    try:
        content = json.loads(path.read_text())
    except (OSError, RecursionError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} is damaged: {str(content)[:40]!r}")
    return content

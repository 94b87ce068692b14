"""Marks of a benchmark in the folders of its runs: of a training that it began, and of one that has ended."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from rlzoo.core.atomic import atomic_write
from rlzoo.core.errors import UserError
from rlzoo.core.system_info import utc_now

FINISHED = "finished.json"
BEGUN = "begun_by_benchmark"


def mark_begun(folder: Path) -> None:
    """Say in the folder of a run that a benchmark has begun it, and may remove it."""
    (folder / BEGUN).touch()


def mark_finished(folder: Path, seconds: float, expert: str | None = None) -> None:
    """Say in the folder of a run that it is done.

    :param seconds: that it took
    :param expert: SHA-256 of the file that it learned from, if from any
    """
    content = {"seconds": round(seconds, 3), "date": utc_now(), "expert": expert}
    with atomic_write(folder / FINISHED) as file:
        file.write((json.dumps({k: v for k, v in content.items() if v is not None}) + "\n").encode())
    (folder / BEGUN).unlink(missing_ok=True)


def is_unfinished(folder: Path) -> bool:
    """Whether a benchmark has begun the training in a folder, and has not seen its end."""
    return (folder / BEGUN).exists() and not is_finished(folder)


def is_finished(folder: Path) -> bool:
    """Whether the training in a folder is done."""
    return (folder / FINISHED).is_file()


def training_seconds(folder: Path) -> float | None:
    """How long the process of a training took; None where it is not known.

    :raises UserError: the mark is damaged
    """
    if not is_finished(folder):
        return None
    content = _content(folder)
    try:
        seconds = float(content["seconds"])
    except (LookupError, OverflowError, TypeError, ValueError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise UserError(f"{folder / FINISHED} does not say how long the training took")
    return seconds


def learned_from(folder: Path) -> str | None:
    """SHA-256 of the file that a finished training learned from; None where it is not known.

    :raises UserError: the mark is damaged
    """
    expert = _content(folder).get("expert")
    if not isinstance(expert, str | None):
        raise UserError(f"{folder / FINISHED} is damaged: expert is {str(expert)[:40]!r}")
    return expert


def _content(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / FINISHED).read_text())
    except (OSError, RecursionError, ValueError) as error:
        raise UserError(f"{folder / FINISHED} is damaged: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{folder / FINISHED} is damaged: {str(content)[:40]!r}")
    return content

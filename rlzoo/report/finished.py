"""The mark of a training that a benchmark has seen to its end."""

from __future__ import annotations

import json
import time
from pathlib import Path

from rlzoo.core.atomic import atomic_write
from rlzoo.core.errors import UserError

FINISHED = "finished.json"


def mark_finished(folder: Path, seconds: float) -> None:
    """Say in the folder of a run that it is done.

    :param seconds: that its process took
    """
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with atomic_write(folder / FINISHED) as file:
        file.write((json.dumps({"seconds": round(seconds, 3), "date": date}) + "\n").encode())


def is_finished(folder: Path) -> bool:
    """Whether the training in a folder is done."""
    return (folder / FINISHED).is_file()


def training_seconds(folder: Path) -> float | None:
    """How long the process of a training took; None where it is not known.

    :raises UserError: the mark is damaged
    """
    if not is_finished(folder):
        return None
    try:
        return float(json.loads((folder / FINISHED).read_text())["seconds"])
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise UserError(f"{folder / FINISHED} does not say how long the training took: {error!r}") from None

"""What a job asks of its scheduler, and the texts in which users write it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rlzoo.core.errors import UserError

SCHEDULERS = ("slurm", "pbs", "shell")
TIME = "04:00:00"
GRACE = 120
MAX_RESTARTS = 100
"""How often a task is continued after its time limit: a limit too short for one step would never end."""

_TIME = re.compile(r"(?:(\d+)-)?(\d{1,4}):([0-5]\d):([0-5]\d)")
_MEMORY = re.compile(r"[1-9]\d*[MGT]")


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Resources and limits of every task, and where it runs."""

    name: str  # of the job
    working_folder: Path  # in which the tasks run
    command: str  # that wrote the scripts, for their headers
    time: int = 4 * 3600  # limit in seconds; the task is saved before it, and queued again
    grace: int = GRACE  # seconds before the limit at which the task is asked to save
    cpus: int = 1  # cores of a task
    gpus: int = 0  # GPUs of a task
    memory: str = ""  # of a task, such as 4G; empty: the default of the cluster
    partition: str = ""  # of Slurm, or queue of PBS; empty: the default of the cluster
    account: str = ""  # empty: the default of the user
    parallel: int | None = None  # tasks at a time; None: as many as the scheduler allows
    directives: tuple[str, ...] = ()  # further options of sbatch or qsub, one each
    setup: tuple[str, ...] = ()  # shell commands before each task, such as `module load python`

    def __post_init__(self) -> None:
        if self.grace >= self.time:
            raise UserError(
                f"--grace of {self.grace} seconds leaves nothing of --time {clock(self.time)}; give less"
            )


def parse_time(text: str) -> int:
    """Return the seconds of a time limit, written as HH:MM:SS or D-HH:MM:SS.

    :raises UserError: it is written in another way, or 0

    >>> parse_time("04:00:00"), parse_time("2-12:00:00")
    (14400, 216000)
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise UserError(f"expected a time such as 04:00:00 or 2-12:00:00 (days-hours), not {text!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    if not (total := ((days * 24 + hours) * 60 + minutes) * 60 + seconds):
        raise UserError(f"a time limit of {text} leaves no time to train")
    return total


def parse_memory(text: str) -> str:
    """Return an amount of memory, written as 500M, 4G or 1T.

    :raises UserError: it is written in another way
    """
    if _MEMORY.fullmatch(text) is None:
        raise UserError(f"expected an amount of memory such as 500M or 4G, not {text!r}")
    return text


def parse_directive(text: str) -> str:
    """Return an option of sbatch or qsub.

    :raises UserError: it is none, or has line breaks or control characters

    >>> parse_directive("--qos=long")
    '--qos=long'
    """
    if not text.startswith("-"):
        raise UserError(f"expected an option such as --directive=--qos=long, not {text!r}")
    return parse_line(text)


def parse_line(text: str) -> str:
    """Return a text that becomes one line of a script.

    :raises UserError: it has line breaks or control characters
    """
    if not text.isprintable():
        raise UserError(f"expected one line of printable text, not {text!r}")
    return text


def clock(seconds: int) -> str:
    """Format seconds as HH:MM:SS, with as many hours as there are.

    >>> clock(216000)
    '60:00:00'
    """
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"

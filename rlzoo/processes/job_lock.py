"""Claims of processes on the jobs of a benchmark, so that several may work on one list in one folder.

A claim is a lock of the operating system on a file: it ends with the processes that hold it, however they
end, so after `kill -9` nothing has to be cleaned up.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class JobLock:
    """A claim that this process, and the worker that inherits it, holds.

    :param path: of the file, which is removed with the claim
    """

    def __init__(self, path: Path, file: IO[str]) -> None:
        self.path, self.file = path, file

    @property
    def inherited(self) -> tuple[int, ...]:
        """The file descriptor by which a worker holds the claim on when this process dies."""
        return () if fcntl is None else (self.file.fileno(),)

    def release(self) -> None:
        """End the claim. The file goes first: another process may have it open by now, see `claim`."""
        self.path.unlink(missing_ok=True)
        self.file.close()


def claim(path: Path) -> JobLock | None:
    """Lock the file of a job; return None if another process holds the lock.

    Where the file system has no locks every claim succeeds, and one line says so.

    :raises OSError: the file cannot be made
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        file = path.open("a+")
        try:
            if not _lock(file):
                file.close()
                return None
            if _is_same(file, path):  # else it was removed between opening and locking
                return JobLock(path, file)
        except BaseException:
            file.close()
            raise
        file.close()


def _lock(file: IO[str]) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # a network drive without locks
        _say_there_are_none(str(Path(file.name).parent), error.strerror)
    return True


def _is_same(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


@cache
def _say_there_are_none(folder: str, reason: str) -> None:
    print(
        f"rlzoo: files in {folder} cannot be locked ({reason}): let no other process do the same rows",
        file=sys.stderr,
    )

"""Flags that the commands `rlzoo benchmark ...` share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rlzoo.cli.flags.parser import IntInRange
from rlzoo.core.errors import RunFailed, UserError


def add_jobs_flag(parser: argparse.ArgumentParser, what: str) -> None:
    """Add `--n-jobs`.

    :param what: what runs in parallel, for the help
    """
    parser.add_argument(
        "--n-jobs",
        type=IntInRange(1),
        default=None,
        metavar="N",
        help=f"{what} in parallel (default: one per core, or per --num-threads cores)"
        if what == "trainings"
        else f"{what} in parallel (default: one per core)",
    )


def choose_jobs(n_jobs: int | None, num_threads: int = 1) -> int:
    """Return the number of jobs asked for, with a warning if there are too few cores, else one per core."""
    from rlzoo.core.cpu_cores import available_cores

    cores = available_cores()
    n_jobs = n_jobs or max(1, cores // num_threads)
    if n_jobs * num_threads > cores:
        print(
            f"rlzoo: {n_jobs} jobs with {num_threads} threads share {cores} cores, so all of them are slower",
            file=sys.stderr,
        )
    return n_jobs


def make_folder(folder: Path) -> None:
    """Create a folder if it does not exist.

    :raises UserError: the path, or a parent of it, is a file
    :raises RunFailed: it cannot be created
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UserError(f"{folder} cannot be a folder: {error.strerror}") from error
    except OSError as error:
        raise RunFailed(f"cannot write to {folder}: {error.strerror}") from error


@contextmanager
def folder_for_results(folder: Path) -> Iterator[None]:
    """Create a folder for the files that the block writes; if the block fails, remove it when new and empty.

    :raises UserError: the path, or a parent of it, is a file
    :raises RunFailed: it cannot be created
    """
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    make_folder(folder)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for path in new:
                path.rmdir()
        raise

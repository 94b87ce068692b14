"""Flags that several kinds of `rlzoo benchmark` share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rlzoo.cli.flags.parser import Whole
from rlzoo.config.benchmark import parse_key
from rlzoo.core.errors import RunFailed, UserError


def add_rows_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--rows`, which leaves the others out."""
    parser.add_argument(
        "--rows",
        nargs="+",
        type=_row,
        default=[],
        metavar="NAME:ENV",
        help="only these; NAME is that of the row, or its algorithm where it has none (default: all)",
    )


def add_packages_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--gym-packages`, whose modules `rlzoo.cli.main` then trusts."""
    parser.add_argument(
        "--gym-packages",
        nargs="+",
        default=[],
        metavar="MODULE",
        help="modules that register environments of the list",
    )


def add_jobs_flag(parser: argparse.ArgumentParser, what: str) -> None:
    """Add `--n-jobs`.

    :param what: of which so many go on at a time, for the help
    """
    parser.add_argument(
        "--n-jobs",
        type=Whole(1),
        default=None,
        metavar="N",
        help=f"{what} at a time (default: as many as there are cores for them)",
    )


def choose_jobs(n_jobs: int | None, num_threads: int = 1) -> int:
    """As many jobs as were asked for, which is said when the cores are too few, else one for each core."""
    from rlzoo.accel.threads import available_cores

    cores = available_cores()
    n_jobs = n_jobs or max(1, cores // num_threads)
    if n_jobs * num_threads > cores:
        print(
            f"rlzoo: {n_jobs} jobs with {num_threads} threads share {cores} cores, which slows all of them",
            file=sys.stderr,
        )
    return n_jobs


def make_folder(folder: Path) -> None:
    """Make a folder, unless it is there.

    :raises UserError: a file is in its place, or in that of a folder above
    :raises RunFailed: that is not possible
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UserError(f"{folder} cannot be a folder: {error.strerror}") from error
    except OSError as error:
        raise RunFailed(f"cannot write to {folder}: {error.strerror}") from error


@contextmanager
def folder_for_results(folder: Path) -> Iterator[None]:
    """Make a folder for what the block writes; when it fails, remove it again if it is new and still empty.

    :raises UserError: a file is in its place, or in that of a folder above
    :raises RunFailed: that is not possible
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


def _row(text: str) -> tuple[str, str]:
    try:
        return parse_key(text)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None

"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from rlzoo.core.errors import RunFailed, UserError

_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DEVICE_FAILED = {errno.EIO, errno.ESTALE, errno.EROFS}


def check_writable(path: Path) -> None:
    """Check before the work that the file of an `-o` can be written.

    :raises UserError: it is a folder or a device, or its own folder cannot be made or written in
    """
    if path.exists() and not path.is_file():
        raise UserError(f"-o wants a file, and {path} is a {'folder' if path.is_dir() else 'device'}")
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"-o: cannot write in {folder}: {error.strerror}") from error


@contextmanager
def atomic_write(path: str | os.PathLike[str], size: int | None = None) -> Iterator[BinaryIO]:
    """Open a file for binary writing that takes the place of `path` when the block ends without an error.

    The bytes go to a temporary file in the same folder (made if it is missing), are flushed to the disk, and
    the file is renamed. Whoever opens `path`, at any moment and after a power cut, finds the old file or the
    new one. An error, Ctrl-C included, removes the temporary file and leaves the old one as it was.

    >>> with atomic_write("notes.txt") as file:
    ...     n_bytes = file.write(b"all of it")

    :param path: the file; of a symbolic link, what it points to is replaced
    :param size: bytes that will be written, where known; named when the disk is full
    :raises RunFailed: the disk is full or fails, or the folder does not allow it
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".rlzoo-{secrets.token_hex(8)}.tmp")
    try:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle = temporary.open("xb")
        except OSError as error:
            raise _failure(error, target, size) from error
        with handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        try:
            os.replace(temporary, target)
        except OSError as error:
            raise _failure(error, target, size) from error
        _sync_folder(target.parent)
    except OSError as error:
        if error.errno in _DISK_FULL or error.errno in _DEVICE_FAILED:
            raise _failure(error, target, size) from error
        raise
    finally:
        with suppress(OSError):  # after the rename it is gone
            temporary.unlink()


def _failure(error: OSError, target: Path, size: int | None) -> RunFailed:
    if error.errno not in _DISK_FULL:
        return RunFailed(f"cannot write {target}: {error.strerror}")
    needed = "more" if size is None else _megabytes(size)
    kept = " (the previous file is intact)" if target.exists() else ""
    return RunFailed(
        f"cannot write {target}: the disk is full; it needs {needed}, {_free(target.parent)} are free{kept}"
    )


def _free(folder: Path) -> str:
    while not folder.exists():
        folder = folder.parent
    return _megabytes(shutil.disk_usage(folder).free)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size:,} bytes"


def _sync_folder(folder: Path) -> None:
    """Sync the folder: a rename lasts through a power cut only when the folder is on the disk too."""
    with suppress(OSError):  # Windows cannot open folders, some network drives cannot flush them
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

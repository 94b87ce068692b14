"""Files of tasks that run on other machines.

Where the machine of a task has the submitter's folder (a network file system, or the same machine), the task
reads and writes there. Elsewhere it works in a temporary folder: copies of its inputs are sent to it, and
what it has written comes back as one archive. Names and sizes in the archive are checked before anything is
unpacked, and nothing in it is run.
"""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from rlzoo.cluster.tasks import Json
from rlzoo.core.errors import CheckpointError, RunFailed
from rlzoo.io.atomic import atomic_write
from rlzoo.io.zip_members import DAMAGE, Limits, check_members, read_member

RESULT = "result.json"
FILES = "files/"
MAX_FILES = 10_000
LIMITS = Limits(total_bytes=16 * 2**30, free_bytes=16 * 2**30)
MENTIONS = (".yml", ".json", ".txt", ".csv")  # text files of a run that may name the folder they were made in
SAFE_NAME = re.compile(r"[\w.,=+@ -]+(/[\w.,=+@ -]+)*")
Digest: TypeAlias = str


class SharedFolder:
    """A folder with a random mark, by which other machines recognise it; the mark goes at the end.

    :param folder: an existing folder
    """

    def __init__(self, folder: Path) -> None:
        self.working_directory = os.getcwd()
        self.path = folder.resolve() / f".rlzoo-{secrets.token_hex(8)}.shared"
        self.token = secrets.token_hex(16)

    def __enter__(self) -> SharedFolder:
        try:
            self.path.write_text(self.token)
        except OSError as error:
            raise RunFailed(f"cannot write to {self.path.parent}: {error.strerror}") from error
        return self

    def __exit__(self, *error: object) -> None:
        self.path.unlink(missing_ok=True)

    def describe(self) -> Json:
        """Return what `is_shared` needs."""
        return {"path": str(self.path), "token": self.token, "cwd": self.working_directory}


def is_shared(mark: Json) -> bool:
    """Return whether this machine has the marked folder, and the working directory of its owner.

    :param mark: `SharedFolder.describe()`; empty: nothing is shared
    """
    try:
        return Path(mark["path"]).read_text() == mark["token"] and Path(mark["cwd"]).is_dir()
    except (KeyError, OSError):
        return False


def pack(outcome: Json, folder: Path | None = None, names: Mapping[str, str] | None = None) -> bytes:
    """Return the outcome of a task, and the files that it wrote into a folder, as one archive.

    :param names: paths here, and what whoever unpacks it calls them; text files are changed so
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(RESULT, json.dumps(outcome))
        for path in sorted(folder.rglob("*")) if folder is not None and folder.is_dir() else ():
            if path.is_file() and not path.is_symlink() and not path.name.startswith("."):
                content = path.read_bytes()
                if path.suffix in MENTIONS:
                    for here, there in (names or {}).items():
                        content = content.replace(here.encode(), there.encode())
                archive.writestr(FILES + path.relative_to(folder or path).as_posix(), content)
    return buffer.getvalue()


def unpack(content: object, folder: Path | None) -> object:
    """Write the files of an archive into a folder, and return the outcome of the task.

    :param content: bytes that `pack` made on another machine
    :param folder: None: the task writes no files
    :raises RunFailed: it is damaged, too large, or a name leads out of the folder
    """
    try:
        if not isinstance(content, bytes):
            raise CheckpointError(f"it is a {type(content).__name__}")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = check_members(archive, LIMITS, folders=True)
            _check_names(members.keys() - {RESULT}, folder)
            outcome: object = json.loads(read_member(archive, members, RESULT))
            for name in sorted(members.keys() - {RESULT}):
                assert folder is not None
                with atomic_write(folder / name.removeprefix(FILES)) as file:
                    file.write(read_member(archive, members, name))
    except RunFailed:
        raise
    except (CheckpointError, *DAMAGE) as error:
        raise RunFailed(f"the files that a worker sent back are damaged: {error}") from None
    return outcome


def _check_names(names: Iterable[str], folder: Path | None) -> None:
    """Check the names of files in an archive.

    :raises CheckpointError: one is not the name of a file below a folder
    """
    names = list(names)
    if len(names) > (MAX_FILES if folder is not None else 0):
        raise CheckpointError(f"{len(names):,} files")
    for name in names:
        below = name.removeprefix(FILES)
        parts = below.split("/")
        hidden = any(part.startswith(".") or part != part.strip() for part in parts)
        if not name.startswith(FILES) or hidden or not SAFE_NAME.fullmatch(below) or len(below) > 500:
            raise CheckpointError(f"a file is called {name[:80]!r}")

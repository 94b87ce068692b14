"""Where studies are kept: a journal file, a database, or another machine that serves one of them."""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from rlzoo.core.errors import RunFailed, UserError, install_command
from rlzoo.tuning.storage.served_storage import open_served

JOURNAL = "journal.log"
CONNECT = 10.0  # seconds until a database server counts as unreachable
BUSY = 120.0  # seconds that an SQLite file may be in use by others

# What `pip install` calls the drivers of SQLAlchemy.
_PACKAGES = {
    "psycopg": "psycopg[binary]",
    "psycopg2": "psycopg2-binary",
    "mysqldb": "mysqlclient",
    "pymysql": "pymysql",
}

# Extras with a driver for URLs that name none.
_EXTRAS = ("postgresql", "mysql")

# The drivers (SQLAlchemy's name, module) of a URL that names none, the preferred one first.
_DRIVERS = {
    "postgresql": (("psycopg", "psycopg"), ("psycopg2", "psycopg2")),
    "mysql": (("mysqldb", "MySQLdb"), ("pymysql", "pymysql")),
}


def open_storage(url: str | None, folder: Path, create: bool = True) -> BaseStorage:
    """Return the storage that a URL names.

    ==============================  =======================================================
    None                            `folder`/journal.log
    x.log, journal://PATH           a journal file (journal:///PATH from the root)
    sqlite:///PATH                  an SQLite file (four strokes from the root)
    postgresql://, mysql://, ...    a database server, as Optuna and SQLAlchemy write it
    grpc://HOST:PORT                the storage that another machine serves
    ==============================  =======================================================

    :param folder: of the study
    :param create: make the file where there is none
    :raises UserError: it cannot be reached, is of another kind or version, or its driver is not installed
    """
    if url is None:
        return _open_journal(folder / JOURNAL, create)
    scheme, separator, rest = url.partition("://")
    if not separator:
        if url.endswith(".log"):
            return _open_journal(Path(url), create)
        raise UserError(f"storage {url!r} is neither a URL nor a .log file; did you mean 'sqlite:///{url}'?")
    if scheme == "journal":
        return _open_journal(Path(rest), create)
    if scheme == "grpc":
        return open_served(rest)
    return _open_database(url, create)


def hide_password(url: str) -> str:
    """Return the URL, or a message that quotes one, as it may be printed and written into files."""
    url = re.sub(r"(://[^:/@\s]*):\S*@", r"\1:***@", url)
    return re.sub(r"([?&](?:password|passwd)=)[^&\s]*", r"\1***", url)


# What Optuna raises on values in a storage that it did not write.
_DAMAGE = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError,
    optuna.exceptions.OptunaError,
)  # fmt: skip


@contextmanager
def reading(what: str, otherwise: str = "") -> Iterator[None]:
    """Turn what a storage raises on damaged content into one line.

    :param what: what is read, for the message
    :param otherwise: another explanation, in place of the storage's error
    :raises UserError: it is damaged
    """
    try:
        yield
    except (UserError, RunFailed):
        raise
    except Exception as error:
        if not isinstance(error, _DAMAGE) and not type(error).__module__.startswith("sqlalchemy."):
            raise
        reason = f", {otherwise}" if otherwise else f": {first_line(error)[:200]}"
        raise UserError(f"{what} is damaged{reason}") from None


# ---- journal


class JournalFile(JournalFileBackend):
    """Optuna's journal, locked by the operating system.

    The lock ends with the process that holds it, however that ends, so there is no lock to go stale. What a
    writer that was killed left of its last line is cut off before the next line is written; readers skip it.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        lines = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        with _locked(self._path) as file:
            _cut_torn_line(file)
            file.write(lines.encode())
            file.flush()
            os.fsync(file.fileno())


class Journal(JournalStorage):
    """A journal in which taking a trial is one step: of all processes and threads, one gets it.

    Optuna lets the order of the lines decide, and a thread that had the trial before takes its own old line
    for a new one; threads that serve other machines do that.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(JournalFile(path))
        self._claims = path.with_name(f"{path.name}.claims")  # an empty file that is only ever locked

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        if state != TrialState.RUNNING:
            return super().set_trial_state_values(trial_id, state, values)
        with _locked(self._claims):
            if self.get_trial(trial_id).state == TrialState.RUNNING:
                return False
            return super().set_trial_state_values(trial_id, state, values)


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Return the file, open for reading and appending, while nobody else has it so."""
    with open(path, "a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)  # closing frees it
        except OSError as error:
            reason = f"{path.parent} cannot be locked ({error.strerror})"
            raise RunFailed(
                f"{reason}: workers would overwrite each other; give --storage elsewhere"
            ) from None
        yield file


def _cut_torn_line(file: BinaryIO) -> None:
    """Shorten the file to its last whole line."""
    file.truncate(_end_of_lines(file, file.seek(0, os.SEEK_END)))


def _end_of_lines(file: BinaryIO, end: int) -> int:
    """Return the position behind the last newline before `end`; 0 without one."""
    block = 4096
    while end > 0:
        start = max(0, end - block)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _check_last_line(path: Path) -> None:
    """Check that the last whole line is a record: Optuna passes over one that is not, until another follows.

    :raises ValueError: it is not
    """
    with open(path, "rb") as file:
        end = _end_of_lines(file, file.seek(0, os.SEEK_END))
        if end:
            start = _end_of_lines(file, end - 1)
            file.seek(start)
            json.loads(file.read(end - start))


def _open_journal(path: Path, create: bool) -> BaseStorage:
    if not create and not path.is_file():
        raise UserError(f"there is no study at {path}; if it is kept elsewhere, name its --storage")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not _is_journal(path):
            raise UserError(f"{path} is not a journal of Optuna")
        with reading(f"the journal {path}", "or of another version of Optuna"):
            storage = Journal(path)
            _check_last_line(path)
        return storage
    except OSError as error:
        raise UserError(f"cannot open the journal {path}: {error.strerror}") from None


def _is_journal(path: Path) -> bool:
    """Return whether a file is empty, missing, or its first line a record or the beginning of one."""
    if not path.exists():
        return True
    with open(path, "rb") as file:
        line = file.readline(2**20)
    beginning = b'{"op_code":'
    return line.startswith(beginning) or beginning.startswith(line)


# ---- databases


def _open_database(url: str, create: bool) -> BaseStorage:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    hidden = hide_password(url)
    try:
        parts = make_url(url)
        for driver, module in _DRIVERS.get(parts.drivername, ()):
            if find_spec(module) is not None:
                parts = parts.set(drivername=f"{parts.drivername}+{driver}")
                break
        backend, driver = parts.get_backend_name(), parts.get_dialect().driver
    except (ArgumentError, ImportError, ValueError):  # a dialect that is not known is an ArgumentError too
        raise UserError(
            f"cannot read the storage {hidden}; known: journal://, sqlite:///, postgresql://, mysql://, grpc://"
        ) from None
    if backend == "sqlite":
        database = parts.database or ":memory:"
        if ":memory:" in database:
            raise UserError("an SQLite database in memory cannot be shared with workers; give it a file")
        if not create and not Path(database).is_file():
            raise UserError(f"there is no study at {database}")
    try:
        return _connect(parts.render_as_string(hide_password=False), backend, driver)
    except ImportError:
        extra = url.partition("://")[0]
        package = _PACKAGES.get(driver, driver)
        command = install_command(extra) if extra in _EXTRAS else f"pip install '{package}'"
        raise UserError(f"storage {hidden} needs a driver: {command}") from None
    except RuntimeError as error:  # of the version check
        raise UserError(f"storage {hidden}: {first_line(error)}") from None
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        cause = getattr(error, "orig", None) or error.__cause__ or error
        raise UserError(f"cannot open the storage {hidden}: {first_line(cause)}") from None
    except _DAMAGE as error:
        raise UserError(f"storage {hidden} is damaged: {first_line(error)[:200]}") from None


def _connect(url: str, backend: str, driver: str) -> BaseStorage:
    """Open a database and make its tables; others may be doing the same."""
    from sqlalchemy import event
    from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

    options: dict[str, Any] = {"pool_pre_ping": True}  # a connection that the server has closed is replaced
    if backend == "sqlite":
        options = {"connect_args": {"timeout": BUSY}}
    elif driver in _PACKAGES and "connect_timeout" not in url:
        options["connect_args"] = {"connect_timeout": int(CONNECT)}
    for attempt in range(5):
        try:
            storage = optuna.storages.RDBStorage(url, engine_kwargs=options)
            break
        except (IntegrityError, OperationalError, ProgrammingError) as error:
            made = "already exists" in str(error) or "duplicate" in str(error) or "UNIQUE" in str(error)
            if not made or attempt == 4:
                raise
            time.sleep(0.2 * (attempt + 1))
    if backend == "sqlite":
        event.listen(storage.engine, "begin", _begin_writing)
    return storage


def _begin_writing(connection: Any) -> None:
    """Without this, SQLite lets two processes read that a trial waits before either writes that it runs."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return hide_password(lines[0].strip()) if lines else type(error).__name__

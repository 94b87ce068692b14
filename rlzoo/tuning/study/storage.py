"""Where studies are kept: a journal file, a database, or another machine that serves one of them."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

import optuna
from optuna.distributions import BaseDistribution, check_distribution_compatibility
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState, create_trial

from rlzoo.core.errors import RunFailed, UserError, unknown

JOURNAL = "journal.log"
CONNECT = 10.0  # seconds until a server counts as unreachable
BUSY = 120.0  # seconds that an SQLite file may be in use by others

# What `pip install` calls the drivers of SQLAlchemy.
_PACKAGES = {
    "psycopg": "psycopg[binary]",
    "psycopg2": "psycopg2-binary",
    "mysqldb": "mysqlclient",
    "pymysql": "pymysql",
}

# What brings a driver for a URL that names none.
_EXTRAS = {"postgresql": "rlzoo[postgresql]", "mysql": "rlzoo[mysql]"}

# The drivers (SQLAlchemy's name, module) of a URL that names none, the preferred one first.
_DRIVERS = {
    "postgresql": (("psycopg", "psycopg"), ("psycopg2", "psycopg2")),
    "mysql": (("mysqldb", "MySQLdb"), ("pymysql", "pymysql")),
}


def open_storage(url: str | None, folder: Path, create: bool = True) -> BaseStorage:
    """The storage that a URL names.

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
        return _open_proxy(rest)
    return _open_database(url, create)


def open_study(storage: BaseStorage, name: str) -> optuna.Study:
    """A study that is there already.

    :raises UserError: there is none of that name, or it is damaged
    """
    try:
        study = optuna.load_study(study_name=name, storage=storage)
    except KeyError:
        raise unknown("study", name, map(str, optuna.get_all_study_names(storage))) from None
    except _DAMAGE as error:
        raise UserError(f"study {name} is damaged: {_first_line(error)}") from None
    check_study(study)
    return study


# What Optuna raises on values in a storage that it did not write.
_DAMAGE = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError,
    optuna.exceptions.OptunaError,
)  # fmt: skip

_ATTRIBUTES: dict[str, Any] = {
    "config": str, "hyperparams": str, "error": str, "worker": str, "attempts": int, "deaths": int,
    "heartbeat": int, "of": int, "run": int, "n_steps": int, "seconds": int | float, "seeds": list,
    "evaluations": list,
}  # fmt: skip


def check_study(study: optuna.Study) -> None:
    """Ask that everything in a study can be read, and is of the types that rlzoo writes.

    :raises UserError: the first value that is not
    """
    try:
        trials, attributes, n_values = (
            study.get_trials(deepcopy=False),
            study.user_attrs,
            len(study.directions),
        )
    except _DAMAGE as error:
        raise UserError(f"study {study.study_name} is damaged: {_first_line(error)}") from None
    if type(attributes.get("n_trials", 0)) is not int:
        raise UserError(f"study {study.study_name} is damaged: n_trials is {attributes['n_trials']!r:.60}")
    known: dict[str, BaseDistribution] = {}
    for trial in trials:
        where = f"trial {trial.number} of study {study.study_name} is damaged"
        if not isinstance(trial.user_attrs, dict) or not isinstance(trial.system_attrs, dict):
            raise UserError(f"{where}: its attributes are no dictionary")
        for name, kind in _ATTRIBUTES.items():
            value = trial.user_attrs.get(name)
            if name in trial.user_attrs and (not isinstance(value, kind) or isinstance(value, bool)):
                raise UserError(f"{where}: {name} is {str(value)[:60]!r}")
        if trial.state == TrialState.COMPLETE and len(trial.values or ()) != n_values:
            raise UserError(f"{where}: it is complete, but without its result")
        if not all(type(value) in (int, float) for value in (trial.values or [])):
            raise UserError(f"{where}: its result is {trial.values!r:.60}")
        try:
            _check_drawn(trial, known)
        except _DAMAGE as error:
            raise UserError(f"{where}: {_first_line(error)[:200]}") from None


def _check_drawn(trial: FrozenTrial, known: dict[str, BaseDistribution]) -> None:
    """Check that a trial's parameters lie in their distributions, which all trials must share.

    :param known: distributions of the trials before; those of this one are added
    :raises ValueError, TypeError, AttributeError: they are not
    """
    for name, distribution in trial.distributions.items():
        if not isinstance(name, str):
            raise TypeError(f"a parameter is called {name!r:.60}")
        check_distribution_compatibility(known.setdefault(name, distribution), distribution)
    values = trial.values if trial.state == TrialState.COMPLETE else None
    create_trial(state=trial.state, values=values, params=trial.params, distributions=trial.distributions)
    for step, value in trial.intermediate_values.items():
        if type(step) is not int or type(value) not in (int, float):
            raise ValueError(f"it reports {value!r:.60} at {step!r:.60}")


def hide_password(url: str) -> str:
    """The URL, or a message that quotes one, as it may be printed and written into files."""
    url = re.sub(r"(://[^:/@\s]*):\S*@", r"\1:***@", url)
    return re.sub(r"([?&](?:password|passwd)=)[^&\s]*", r"\1***", url)


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
    """The file, open for reading and appending, while nobody else has it so."""
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
    end = file.seek(0, os.SEEK_END)
    block = 4096
    while end > 0:
        start = max(0, end - block)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    file.truncate(end)


def _open_journal(path: Path, create: bool) -> BaseStorage:
    if not create and not path.is_file():
        raise UserError(f"there is no study at {path}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not _is_journal(path):
            raise UserError(f"{path} is not a journal of Optuna")
        return Journal(path)
    except OSError as error:
        raise UserError(f"cannot open the journal {path}: {error.strerror}") from None
    except _DAMAGE as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"the journal {path} is damaged, or of another version of Optuna") from None


def _is_journal(path: Path) -> bool:
    """Empty, not there, or the first line is a record or the beginning of one."""
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
        package = _EXTRAS.get(url.partition("://")[0]) or _PACKAGES.get(driver, driver)
        raise UserError(f"storage {hidden} needs a driver: pip install {package}") from None
    except RuntimeError as error:  # of the version check
        raise UserError(f"storage {hidden}: {_first_line(error)}") from None
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        cause = getattr(error, "orig", None) or error.__cause__ or error
        raise UserError(f"cannot open the storage {hidden}: {_first_line(cause)}") from None


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


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return hide_password(lines[0].strip()) if lines else type(error).__name__


# ---- other machines


def _open_proxy(address: str) -> BaseStorage:
    host, port = _split_address(address)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            storage = optuna.storages.GrpcStorageProxy(host=host, port=port)
        storage.wait_server_ready(timeout=CONNECT)
        return storage
    except (AttributeError, ImportError):
        raise UserError(
            "storage grpc:// needs Optuna 4.2 or newer and gRPC: pip install -U optuna grpcio"
        ) from None
    except ConnectionError:
        raise UserError(f"nobody serves a storage at grpc://{address}") from None


def serve(storage: BaseStorage, address: str) -> None:
    """Let other machines open this storage as grpc://HOST:PORT, until Ctrl-C or SIGTERM.

    Whoever can reach the port can read and write the studies: it is meant for a network that is trusted.

    :param address: HOST:PORT to listen on
    :raises UserError: the address cannot be used, or gRPC is not installed
    """
    check_address(address)
    host, port = _split_address(address)
    in_main = threading.current_thread() is threading.main_thread()
    previous = signal.signal(signal.SIGTERM, _interrupt) if in_main else None
    try:
        with warnings.catch_warnings(), suppress(KeyboardInterrupt):
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            optuna.storages.run_grpc_proxy_server(optuna.storages.get_storage(storage), host=host, port=port)
    except (AttributeError, ImportError):
        raise UserError(
            "serving a storage needs Optuna 4.2 or newer and gRPC: pip install -U optuna grpcio"
        ) from None
    finally:
        if in_main:
            signal.signal(signal.SIGTERM, previous)


def check_address(address: str) -> None:
    """Ask that one can listen there; gRPC itself would share a port that another server has.

    :raises UserError: it is not HOST:PORT, or the port is in use
    """
    host, port = _split_address(address)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host.strip("[]"), port), family=family).close()
    except OSError as error:
        raise UserError(f"cannot listen on {address}: {error.strerror or error}") from None


def _interrupt(signal_number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _split_address(address: str) -> tuple[str, int]:
    """
    :raises UserError: the address is not HOST:PORT
    """
    host, _, port = address.rstrip("/").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise UserError(f"{address!r} is not an address; give HOST:PORT, such as 0.0.0.0:13000")
    return host, int(port)

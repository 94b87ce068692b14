"""Storages: every kind opens, none loses a line to a killed writer, and of many takers one gets a trial."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage, RDBStorage
from optuna.trial import TrialState

from rlzoo.core.errors import UserError
from rlzoo.tuning.storage import served_storage, storage, worker_monitor
from rlzoo.tuning.storage import trial_queue as queue
from rlzoo.tuning.storage.served_storage import serve
from rlzoo.tuning.storage.storage import hide_password, open_storage
from rlzoo.tuning.storage.study_integrity import open_study

fork = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def in_processes(work: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> list[Any]:
    """Call `work` in one process each, at the same time; what they returned."""
    results: Any = fork.Queue()
    processes = [
        fork.Process(target=lambda given=given: results.put(work(*given)), daemon=True) for given in arguments
    ]
    for process in processes:
        process.start()
    returned = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    return returned


def test_every_kind_of_file_opens_and_keeps_what_is_written(tmp_path: Path) -> None:
    journal, database = tmp_path / "deep" / "x.log", tmp_path / "x.db"
    for url, path, kind in [
        (None, tmp_path / "study" / "journal.log", JournalStorage),
        (str(journal), journal, JournalStorage),
        (f"journal://{tmp_path}/y.log", tmp_path / "y.log", JournalStorage),
        (f"sqlite:///{database}", database, RDBStorage),
    ]:
        opened = open_storage(url, tmp_path / "study")
        assert isinstance(opened, kind)
        assert path.is_file()
        optuna.create_study(storage=opened, study_name="first", direction="maximize").set_user_attr("a", 1)
        again = open_storage(url, tmp_path / "study", create=False)
        assert open_study(again, "first").user_attrs == {"a": 1}
        with pytest.raises(UserError, match="unknown study 'frist'; did you mean 'first'"):
            open_study(again, "frist")


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.log").write_text("my notes\nmore of them")
    (tmp_path / "notes.db").write_text("my notes " * 200)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()[1]  # nobody listens there once this block ends
    for url, message in [
        ("study.db", "neither a URL nor a .log file; did you mean 'sqlite:///study.db'"),
        (f"{tmp_path}/notes.log", "not a journal"),
        (f"sqlite:///{tmp_path}/notes.db", "file is not a database"),
        (f"sqlite:///{tmp_path}/none/x.db", "unable to open database file"),
        ("sqlite://", "in memory cannot be shared"),
        ("oracel://u:secret@h/d", "cannot read the storage oracel://u:\\*\\*\\*@h/d"),
        ("postgresql+pg8000://u:secret@127.0.0.1/d", "\\*\\*\\*.* needs a driver: pip install .pg8000"),
        ("mysql://u:secret@127.0.0.1/d", "\\*\\*\\*.* needs a driver: pip install .*\\[mysql"),
        (f"postgresql://u:secret@127.0.0.1:{closed}/d", "\\*\\*\\*.*(refused|pip install .*\\[postgresql)"),
        ("grpc://somewhere", "not an address; give HOST:PORT"),
    ]:
        with pytest.raises(UserError, match=message) as raised:
            open_storage(url, tmp_path)
        assert "\n" not in str(raised.value)
        assert "secret" not in str(raised.value)
    assert (tmp_path / "notes.log").read_text() == "my notes\nmore of them"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("update trial_params set distribution_json = '{}'", "study s is damaged"),
        ("update trial_params set distribution_json = 'x'", "study s is damaged"),
        ("update trials set state = 'x'", "study s is damaged"),
        ("update trials set datetime_start = 'x'", "study s is damaged"),
        (
            "update trial_user_attributes set value_json = '5'",
            "trial 0 of study s is damaged: hyperparams is '5'",
        ),
        ("update trial_params set param_value = 5", "trial 0 of study s is damaged: .*'x'"),
        ("update trial_params set param_name = null", "trial 0 of study s is damaged: a parameter is called"),
        ("update trial_params set param_value = null", "trial 0 of study s is damaged"),
        ("update trial_values set value_type = 'x'", "study s is damaged"),
        ("delete from trial_values", "trial 0 of study s is damaged: it is complete, but without"),
        ("update trial_values set value = 'x'", "trial 0 of study s is damaged: its result is"),
        ("update study_user_attributes set value_json = '[1]'", "study s is damaged: n_trials is"),
        ("update studies set study_name = x'ff00'", "unknown study|study s is damaged"),
        ("update study_directions set direction = 'x'", "study s is damaged"),
    ],
)
def test_damaged_database_is_one_line(statement: str, message: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 's.db'}"
    study = optuna.create_study(study_name="s", storage=url)
    study.set_user_attr("n_trials", 1)
    trial = study.ask()
    trial.suggest_float("x", 0, 1)
    trial.set_user_attr("hyperparams", "{}")
    study.tell(trial, 1.0)
    open_study(open_storage(url, tmp_path), "s")
    with sqlite3.connect(tmp_path / "s.db") as database:
        database.execute("pragma ignore_check_constraints = 1")
        database.execute(statement)
    with pytest.raises(UserError, match=message) as caught:
        open_study(open_storage(url, tmp_path), "s")
    assert "\n" not in str(caught.value)


def test_a_server_that_is_not_there_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grpc")
    if not hasattr(optuna.storages, "GrpcStorageProxy"):
        pytest.skip("Optuna before 4.2")
    monkeypatch.setattr(served_storage, "CONNECT", 0.5)
    with pytest.raises(UserError, match=r"nobody serves a storage at grpc://127\.0\.0\.1:1"):
        open_storage("grpc://127.0.0.1:1", tmp_path)


def test_reading_makes_no_files(tmp_path: Path) -> None:
    for url in (None, f"sqlite:///{tmp_path}/x.db"):
        with pytest.raises(UserError, match="there is no study at"):
            open_storage(url, tmp_path / "study", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_database_of_another_version_is_a_mistake(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    opened = open_storage(url, tmp_path)
    assert isinstance(opened, RDBStorage)
    with opened.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'v99.0.0.a'")
    with pytest.raises(UserError, match="no longer compatible"):
        open_storage(url, tmp_path)


def test_passwords_are_hidden() -> None:
    assert hide_password("postgresql://me:s3:c@r/t@host:5432/db") == "postgresql://me:***@host:5432/db"
    assert (
        hide_password("mysql://host/db?user=me&password=s3c&x=1")
        == "mysql://host/db?user=me&password=***&x=1"
    )
    for url in ("sqlite:///a@b/x.db", "grpc://host:13000", "postgresql://me@host/db", "x.log"):
        assert hide_password(url) == url


# ---- the journal


def test_a_torn_last_line_is_cut_off_before_the_next(tmp_path: Path) -> None:
    opened = open_storage(None, tmp_path)
    study = optuna.create_study(storage=opened, study_name="a")
    for number in range(3):
        study.set_user_attr("n", number)
    path = tmp_path / "journal.log"
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, len(whole) - 1) + 1
    for length in (last + 1, (last + len(whole)) // 2, len(whole) - 1):  # killed in the middle of a record
        path.write_bytes(whole[:length])
        reader, writer = open_storage(None, tmp_path), open_storage(None, tmp_path)
        assert open_study(reader, "a").user_attrs == {"n": 1}
        open_study(writer, "a").set_user_attr("x" * 5000, 7)  # longer than what is read at once
        assert open_study(reader, "a").user_attrs == {"n": 1, "x" * 5000: 7}
        assert all(json.loads(line) for line in path.read_text().splitlines())
    path.write_bytes(b'{"op_c')  # the very first record
    study = optuna.create_study(storage=open_storage(None, tmp_path), study_name="b")
    assert [study.study_name for study in open_storage(None, tmp_path).get_all_studies()] == ["b"]


def hold(path: Path, ready: Any) -> None:
    with storage._locked(path):
        ready.set()
        time.sleep(60)


def test_a_killed_holder_frees_the_lock_at_once(tmp_path: Path) -> None:
    study = optuna.create_study(storage=open_storage(None, tmp_path), study_name="a")
    ready = fork.Event()
    holder = fork.Process(target=hold, args=(tmp_path / "journal.log", ready), daemon=True)
    holder.start()
    assert ready.wait(10)
    writer = threading.Thread(target=study.set_user_attr, args=("n", 1))
    writer.start()
    writer.join(0.3)
    assert writer.is_alive()  # it waits for the lock
    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGKILL)
    writer.join(5)
    assert not writer.is_alive()
    assert study.user_attrs == {"n": 1}
    holder.join()


def test_other_programs_read_and_write_the_journal(tmp_path: Path) -> None:
    study = optuna.create_study(storage=open_storage(None, tmp_path), study_name="a")
    path = str(tmp_path / "journal.log")
    theirs = optuna.load_study(
        study_name="a", storage=JournalStorage(optuna.storages.journal.JournalFileBackend(path))
    )
    theirs.set_user_attr("theirs", 1)
    study.set_user_attr("ours", 2)
    assert theirs.user_attrs == study.user_attrs == {"theirs": 1, "ours": 2}


# ---- one gets it


def take_all(url: str, folder: Path, until: float) -> list[int]:
    """Take trials as fast as possible, beginning when the others do."""
    study = open_study(open_storage(url, folder), "a")
    worker = worker_monitor.this_worker()
    time.sleep(max(0.0, until - time.time()))
    taken = []
    while trial := queue.claim_trial(study, 12, worker):
        taken.append(trial.number)
        trial.suggest_float("x", 0, 1)
        study.tell(trial, 1.0)
    return taken


@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_every_trial_goes_to_one_of_many_processes(kind: str, tmp_path: Path) -> None:
    url = {"journal": f"{tmp_path}/x.log", "sqlite": f"sqlite:///{tmp_path}/x.db"}[kind]
    study = optuna.create_study(storage=open_storage(url, tmp_path), study_name="a")
    queue.enqueue_trials(study, 12)
    taken = in_processes(take_all, [(url, tmp_path, time.time() + 1.0)] * 3)
    assert sorted(number for numbers in taken for number in numbers) == list(range(12))
    assert queue.counts(study, 12).complete == 12


@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_taking_again_what_one_had_before_asks_the_storage(kind: str, tmp_path: Path) -> None:
    url = {"journal": f"{tmp_path}/x.log", "sqlite": f"sqlite:///{tmp_path}/x.db"}[kind]
    first, second = open_storage(url, tmp_path), open_storage(url, tmp_path)
    study = optuna.create_study(storage=first, study_name="a")
    queue.enqueue_trials(study, 1)
    trial_id = study.trials[0]._trial_id
    assert first.set_trial_state_values(trial_id, TrialState.RUNNING)
    assert not first.set_trial_state_values(trial_id, TrialState.RUNNING)
    assert first.set_trial_state_values(trial_id, TrialState.WAITING)
    assert second.set_trial_state_values(trial_id, TrialState.RUNNING)
    assert not first.set_trial_state_values(trial_id, TrialState.RUNNING)
    assert second.set_trial_state_values(trial_id, TrialState.COMPLETE, [1.0])
    with pytest.raises(queue.ALREADY_FINISHED_ERROR):
        first.set_trial_state_values(trial_id, TrialState.RUNNING)


def test_who_takes_a_trial_waits_for_others_that_are_taking_one(tmp_path: Path) -> None:
    opened = open_storage(None, tmp_path)
    study = optuna.create_study(storage=opened, study_name="a")
    queue.enqueue_trials(study, 1)
    taker = threading.Thread(target=queue.claim_trial, args=(study, 1, "me"))
    with storage._locked(tmp_path / "journal.log.claims"):
        taker.start()
        taker.join(0.3)
        assert taker.is_alive() and study.trials[0].state == TrialState.WAITING
    taker.join(5)
    assert study.trials[0].state == TrialState.RUNNING


def test_many_processes_make_one_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"

    def begin(number: int) -> int:
        opened = open_storage(url, tmp_path)
        study = optuna.create_study(storage=opened, study_name="a", load_if_exists=True)
        queue.enqueue_trials(study, 5)
        return number

    assert sorted(in_processes(begin, [(number,) for number in range(4)])) == [0, 1, 2, 3]
    trials = open_study(open_storage(url, tmp_path), "a").trials
    assert [trial.number for trial in trials] == list(range(len(trials)))
    assert len(trials) >= 5


# ---- other machines

SERVER = """
import sys
from pathlib import Path
from rlzoo.tuning.storage.served_storage import serve
from rlzoo.tuning.storage.storage import open_storage
serve(open_storage(sys.argv[1] or None, Path(sys.argv[2])), sys.argv[3])
"""

TAKER = """
import sys, time
from pathlib import Path
import optuna
from rlzoo.tuning.storage import trial_queue as queue, worker_monitor
from rlzoo.tuning.storage.study_integrity import open_study
from rlzoo.tuning.storage.storage import open_storage
optuna.logging.set_verbosity(optuna.logging.WARNING)
study = open_study(open_storage(sys.argv[1], Path(".")), "a")
worker = worker_monitor.this_worker()
while trial := queue.claim_trial(study, int(sys.argv[2]), worker):
    with worker_monitor.Heartbeat(trial.storage, trial._trial_id, 0.1):
        x = trial.suggest_float("x", 0, 1)
        trial.report(x, 1)
        time.sleep(0.05)
    study.tell(trial, x)
    print(trial.number, flush=True)
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_other_machines_join_through_grpc(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    url = {"journal": "", "sqlite": f"sqlite:///{tmp_path}/x.db"}[kind]
    address = f"127.0.0.1:{free_port()}"
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, url, str(tmp_path), address], stderr=subprocess.PIPE, text=True
    )
    try:
        proxy = open_storage(f"grpc://{address}", tmp_path)
        study = optuna.create_study(storage=proxy, study_name="a")
        queue.enqueue_trials(study, 30)
        takers = [
            subprocess.Popen(
                [sys.executable, "-c", TAKER, f"grpc://{address}", "30"], stdout=subprocess.PIPE, text=True
            )
            for _ in range(3)
        ]
        taken = [line for taker in takers for line in taker.communicate(timeout=120)[0].split()]
        assert sorted(map(int, taken)) == list(range(30))
        assert queue.counts(study, 30).complete == 30
        direct = open_study(open_storage(url or None, tmp_path), "a")
        assert [trial.params for trial in direct.trials] == [trial.params for trial in study.trials]
        with pytest.raises(UserError, match="cannot listen on"):
            serve(proxy, address)
    finally:
        server.send_signal(signal.SIGTERM)
        _, errors = server.communicate(timeout=10)
    assert server.returncode == 0, errors
    assert "Warning" not in errors

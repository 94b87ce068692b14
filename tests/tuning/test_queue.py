"""The list of trials: nothing is lost, nothing counts twice, whatever dies."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import psutil
import pytest
from optuna.storages import BaseStorage
from optuna.trial import TrialState

from rlzoo.tuning.storage import worker_monitor
from rlzoo.tuning.storage.storage import open_storage
from rlzoo.tuning.storage.study_integrity import open_study
from rlzoo.tuning.storage.trial_queue import Counts, claim_trial, counts, enqueue_trials, release_trial
from rlzoo.tuning.storage.worker_monitor import Heartbeat, WorkerMonitor, is_alive, this_worker
from rlzoo.tuning.study.samplers import make_sampler

fork = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)


@pytest.fixture(params=["journal", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {"journal": f"{tmp_path}/x.log", "sqlite": f"sqlite:///{tmp_path}/x.db"}[request.param]


@pytest.fixture
def study(url: str) -> optuna.Study:
    return new_study(open_storage(url, Path()))


def new_study(storage: BaseStorage | None = None) -> optuna.Study:
    return optuna.create_study(storage=storage, study_name="a", direction="maximize")


def attrs(study: optuna.Study, number: int) -> dict[str, Any]:
    return study.get_trials(deepcopy=False)[number].user_attrs


def state(study: optuna.Study, number: int) -> TrialState:
    return study.get_trials(deepcopy=False)[number].state


# ---- the list


def test_trials_are_taken_in_order_up_to_the_number_asked_for(study: optuna.Study) -> None:
    enqueue_trials(study, 3)
    enqueue_trials(study, 2)  # there are enough
    first, second = claim_trial(study, 2, "me"), claim_trial(study, 2, "you")
    assert first is not None and second is not None
    assert (first.number, second.number) == (0, 1)
    assert first.user_attrs == {"worker": "me", "attempts": 1}
    assert claim_trial(study, 2, "me") is None  # number 2 is surplus
    assert counts(study, 2) == Counts(running=2)
    assert counts(study, 3) == Counts(waiting=1, running=2)
    study.tell(first, 1.0)
    study.tell(second, state=TrialState.FAIL)
    third = claim_trial(study, 3, "me")
    assert third is not None and third.number == 2
    third.report(1.0, 1)
    study.tell(third, state=TrialState.PRUNED)
    assert counts(study, 3) == Counts(complete=1, failed=1, pruned=1)
    assert counts(study, 3).finished == 3


def test_what_is_given_back_is_taken_again_with_its_parameters(study: optuna.Study) -> None:
    enqueue_trials(study, 2)
    trial = claim_trial(study, 2, "me")
    assert trial is not None
    x = trial.suggest_float("x", 0, 1)
    release_trial(study, trial)
    assert counts(study, 2) == Counts(waiting=2)
    again = claim_trial(study, 2, "you")
    assert again is not None
    assert again.number == 0
    assert again.user_attrs == {"worker": "you", "attempts": 2}
    assert again.suggest_float("x", 0, 1) == x
    release_trial(study, trial)  # it is another's by now
    assert state(study, 0) == TrialState.RUNNING
    study.tell(again, 1.0)
    release_trial(study, again)
    assert state(study, 0) == TrialState.COMPLETE


def test_enqueued_points_become_trial_parameters(study: optuna.Study) -> None:
    points = [{"x": number / 10} for number in range(6)]
    others = threading.Thread(
        target=enqueue_trials, args=(study, 4, points)
    )  # another process that does the same
    others.start()
    enqueue_trials(study, 4, points)
    others.join()
    enqueue_trials(study, 7, points)
    drawn = []
    for _ in range(7):
        trial = claim_trial(study, 7, "me")
        assert trial is not None
        drawn.append(trial.suggest_float("x", 0, 1))
        study.tell(trial, 1.0)
    assert drawn[:6] == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert len(study.trials) >= 7


def test_points_find_their_numbers_whatever_others_have_added(study: optuna.Study) -> None:
    points = [{"x": number / 10} for number in range(3)]
    for number in (0, 0, 1):  # two processes took turns
        study.enqueue_trial(points[number])
    enqueue_trials(study, 3, points)
    assert [trial.system_attrs["fixed_params"] for trial in study.trials] == points


def test_sampler_sees_results_of_other_workers(tmp_path: Path) -> None:
    url = f"{tmp_path}/x.log"
    ours = new_study(open_storage(url, Path()))
    theirs = open_study(open_storage(url, Path()), "a")
    enqueue_trials(ours, 30)
    numbers = []

    def sampler(number: int) -> optuna.samplers.BaseSampler:
        numbers.append(number)
        return make_sampler("tpe", 0, 5, 1, number)

    first = claim_trial(ours, 30, "me", sampler)
    assert first is not None
    first.suggest_float("x", 0, 1)
    ours.tell(first, 0.0)
    for _ in range(12):
        trial = claim_trial(theirs, 30, "you", lambda number: make_sampler("random", 0, 0, 1, number))
        assert trial is not None
        theirs.tell(trial, -abs(trial.suggest_float("x", 0, 1) - 0.3))
    trial = claim_trial(ours, 30, "me", sampler)
    assert trial is not None
    assert numbers == [0, 13]
    x = trial.suggest_float("x", 0, 1)
    alone = optuna.create_study(direction="maximize", sampler=make_sampler("tpe", 0, 5, 1, 13))
    alone.add_trials([earlier for earlier in theirs.trials if earlier.state.is_finished()])
    assert alone.ask().suggest_float("x", 0, 1) == x


# ---- who lives


def test_a_process_is_known_by_its_start() -> None:
    worker = this_worker()
    assert worker == this_worker()
    assert is_alive(worker) is True
    host, pid, start = worker.rsplit(":", 2)
    assert int(pid) == os.getpid()
    assert is_alive(f"{host}:{pid}:{float(start) - 100}") is False  # a number that was used again
    assert is_alive(f"elsewhere:{pid}:{start}") is None
    assert is_alive("") is is_alive("nonsense") is None
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = f"{host}:{child.pid}:{worker_monitor._start(psutil.Process(child.pid)):.2f}"
    assert is_alive(name) is True
    child.kill()
    deadline = time.monotonic() + 10
    while is_alive(name) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert is_alive(name) is False  # though nobody has waited for it yet
    child.wait()
    assert is_alive(name) is False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="tells processes apart by another clock")
def test_a_process_lives_on_when_the_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, booted = this_worker(), psutil.boot_time()
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: booted + 3600)
    assert is_alive(worker) is True


def test_the_heart_beats_while_the_block_runs(study: optuna.Study) -> None:
    enqueue_trials(study, 1)
    trial = claim_trial(study, 1, "me")
    assert trial is not None
    with Heartbeat(study._storage, trial._trial_id, interval=0.02):
        deadline = time.monotonic() + 10
        while attrs(study, 0).get("heartbeat", 0) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
    count = attrs(study, 0)["heartbeat"]
    assert count >= 3
    time.sleep(0.1)
    assert attrs(study, 0)["heartbeat"] == count
    with Heartbeat(study._storage, trial._trial_id, interval=0.01) as heartbeat:
        study.tell(trial, 1.0)
        heartbeat._thread.join(10)  # ends by itself: another worker has finished the trial
        assert not heartbeat._thread.is_alive()


def test_a_storage_out_of_reach_does_not_stop_the_heart() -> None:
    beats: list[int] = []

    class Storage:
        def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
            beats.append(value)
            if value == 1:
                raise ConnectionError

    with Heartbeat(Storage(), 0, interval=0.01):  # type: ignore[arg-type]
        deadline = time.monotonic() + 10
        while len(beats) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert beats[:3] == [1, 2, 3]


# ---- workers that die


def take_and_hang(url: str) -> None:
    study = open_study(open_storage(url, Path()), "a")
    trial = claim_trial(study, 10, this_worker())
    assert trial is not None
    trial.suggest_float("x", 0, 1)
    trial.set_user_attr("ready", True)
    time.sleep(60)


class Hanging:
    """A process that has taken a trial."""

    def __init__(self, url: str, study: optuna.Study, number: int) -> None:
        self.process = fork.Process(target=take_and_hang, args=(url,), daemon=True)
        self.process.start()
        deadline = time.monotonic() + 30
        worker = ""
        while not (worker.split(":")[1:2] == [str(self.process.pid)] and attrs(study, number).get("ready")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
            worker = attrs(study, number).get("worker", "")

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


def test_the_trial_of_a_killed_worker_waits_again_at_once(url: str, study: optuna.Study) -> None:
    enqueue_trials(study, 3)
    watch = WorkerMonitor()
    workers = [Hanging(url, study, number) for number in range(2)]
    x = study.trials[0].params["x"]
    assert watch.release_stale(study, 3) == []
    workers[0].kill()
    assert watch.release_stale(study, 3) == [0]
    assert watch.release_stale(study, 3) == []
    assert counts(study, 3) == Counts(waiting=2, running=1)
    trial = claim_trial(study, 3, this_worker())
    assert trial is not None
    assert trial.number == 0
    assert trial.suggest_float("x", 0, 1) == x
    assert trial.user_attrs["attempts"] == 2
    assert trial.user_attrs["deaths"] == 1
    assert watch.release_stale(study, 3) == []  # this process lives
    workers[1].kill()
    assert watch.release_stale(study, 1) == []  # beyond the list


def test_a_trial_that_kills_five_workers_fails(tmp_path: Path) -> None:
    url = f"{tmp_path}/x.log"
    study = new_study(open_storage(url, tmp_path))
    enqueue_trials(study, 1)
    watch = WorkerMonitor()
    for death in range(1, 6):
        worker = Hanging(url, study, 0)
        if death % 2:
            watch.release_stale(study, 1)  # one may die before it was ever seen
        worker.kill()
        assert watch.release_stale(study, 1) == [0]
        assert attrs(study, 0)["deaths"] == death
    assert counts(study, 1) == Counts(failed=1)
    assert attrs(study, 0)["error"] == "its worker died 5 times"


def test_workers_that_died_with_their_parent_are_no_deaths(tmp_path: Path) -> None:
    url = f"{tmp_path}/x.log"
    study = new_study(open_storage(url, tmp_path))
    enqueue_trials(study, 1)
    worker = Hanging(url, study, 0)
    worker.kill()
    watch = WorkerMonitor()
    # As if this process, too, had been started after the death.
    watch._own_start = time.time() + 1000.0
    assert watch.release_stale(study, 1) == [0]
    assert "deaths" not in attrs(study, 0)
    assert state(study, 0) == TrialState.WAITING


class Clock:
    """Time that passes when told to."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    monkeypatch.setattr(worker_monitor, "time", clock)
    yield clock


def look(watch: WorkerMonitor, study: optuna.Study, clock: Clock, seconds: int) -> list[int]:
    """What a watch releases that looks every second."""
    released = []
    for _ in range(seconds):
        clock.now += 1.0
        released += watch.release_stale(study, 10)
    return released


def test_remote_worker_without_heartbeat_is_released(clock: Clock) -> None:
    study = new_study()
    enqueue_trials(study, 1)
    trial = claim_trial(study, 1, "elsewhere:1:1.0")
    assert trial is not None
    watch = WorkerMonitor(grace=60.0)
    assert look(watch, study, clock, 50) == []
    trial.set_user_attr("heartbeat", 1)
    assert look(watch, study, clock, 50) == []
    assert look(watch, study, clock, 12) == [0]
    assert state(study, 0) == TrialState.WAITING
    assert "deaths" not in attrs(study, 0)  # perhaps its machine was switched off
    assert claim_trial(study, 1, "elsewhere:2:1.0") is not None
    assert look(watch, study, clock, 50) == []  # the next one has a grace of its own


def test_a_pause_of_the_watch_is_no_silence_of_the_others(clock: Clock) -> None:
    study = new_study()
    enqueue_trials(study, 1)
    claim_trial(study, 1, "elsewhere:1:1.0")
    watch = WorkerMonitor(grace=60.0)
    assert look(watch, study, clock, 2) == []
    clock.now += 10_000.0  # the storage was out of reach for both
    assert watch.release_stale(study, 10) == []
    assert look(watch, study, clock, 30) == []
    assert look(watch, study, clock, 30) == [0]


def test_a_worker_that_died_before_it_signed_is_missed(clock: Clock) -> None:
    study = new_study()
    enqueue_trials(study, 1)
    study._storage.set_trial_state_values(study.trials[0]._trial_id, TrialState.RUNNING)
    watch = WorkerMonitor()
    assert look(watch, study, clock, 10) == []
    assert look(watch, study, clock, 10) == [0]
    assert state(study, 0) == TrialState.WAITING


# ---- all of it

WORKER = """
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
        for step in range(5):
            time.sleep(0.02)
            if step not in study.trials[trial.number].intermediate_values:
                trial.report(x, step)
    study.tell(trial, x)
    with open(sys.argv[3], "a") as told:
        told.write(f"{trial.number}\\n")
"""


def run_with_kills(url: str, folder: Path, n_trials: int, n_kills: int) -> None:
    """Work a study off while random workers are killed, then check that every trial was told once.

    :param n_kills: fewer than make a trial fail
    """
    study = new_study(open_storage(url, folder))
    enqueue_trials(study, n_trials)
    told = folder / "told"
    watch = WorkerMonitor()
    draw = random.Random(0)
    workers: list[subprocess.Popen[bytes]] = []
    kills = 0
    next_kill = time.monotonic()
    deadline = time.monotonic() + 150
    while counts(study, n_trials).finished < n_trials:
        assert time.monotonic() < deadline, counts(study, n_trials)
        workers = [worker for worker in workers if worker.poll() is None]
        while len(workers) < 2:
            workers.append(subprocess.Popen([sys.executable, "-c", WORKER, url, str(n_trials), str(told)]))
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        names = [trial.user_attrs.get("worker", "") for trial in running]
        names = [name for name in names if is_alive(name)]
        if kills < n_kills and names and time.monotonic() > next_kill:
            os.kill(int(draw.choice(names).split(":")[1]), signal.SIGKILL)
            kills += 1
            next_kill = time.monotonic() + draw.uniform(0.0, 0.5)
        watch.release_stale(study, n_trials)
        time.sleep(0.05)
    for worker in workers:
        worker.wait(30)
    assert kills == n_kills
    assert counts(study, n_trials) == Counts(complete=n_trials)
    numbers = [int(line) for line in told.read_text().split()] if told.exists() else []
    assert len(numbers) == len(set(numbers))
    assert len(numbers) >= n_trials - n_kills  # one may have died between the study and the note
    for trial in study.trials[:n_trials]:
        assert trial.value == trial.params["x"]
        assert sorted(trial.intermediate_values) == list(range(5))


@pytest.mark.slow
def test_kills_lose_nothing(url: str, tmp_path: Path) -> None:
    run_with_kills(url, tmp_path, n_trials=20, n_kills=4)


@pytest.fixture
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL server that lives as long as the test."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if not found:
        pytest.skip("PostgreSQL is not installed")
    pytest.importorskip("psycopg2")
    user = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root
    folder = Path(subprocess.check_output(["mktemp", "-d"], user=user, text=True).strip())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def control(*arguments: str) -> None:
        subprocess.run(
            [found[-1].with_name(arguments[0]), "-D", folder / "data", *arguments[1:]],
            user=user,
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )

    try:
        control("initdb", "-U", "zoo", "--auth=trust", "--no-sync")
        options = (
            f"-c port={port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        )
        control("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql+psycopg2://zoo:secret@127.0.0.1:{port}/postgres"
        finally:
            control("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        subprocess.run(["rm", "-rf", str(folder)], user=user, check=True)


@pytest.mark.slow
def test_kills_lose_nothing_on_postgresql(postgres: str, tmp_path: Path) -> None:
    run_with_kills(postgres, tmp_path, n_trials=20, n_kills=4)


@pytest.mark.slow
def test_kills_lose_nothing_through_grpc(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    code = (
        "import sys; from pathlib import Path; from rlzoo.tuning.storage.storage import open_storage;"
        "from rlzoo.tuning.storage.served_storage import serve;"
        "serve(open_storage(None, Path(sys.argv[1])), sys.argv[2])"
    )
    server = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), address])
    try:
        run_with_kills(f"grpc://{address}", tmp_path, n_trials=20, n_kills=4)
    finally:
        server.terminate()
        assert server.wait(10) == 0


@pytest.mark.slow
def test_searches_in_two_folders_share_postgresql(postgres: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rlzoo", "optimize", "--algo", "ppo", "--env", "CartPole-v1", "-n", "64"]
    command += ["--n-trials", "8", "--n-evaluations", "1", "--no-optim-plots", "--storage", postgres]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    workers = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        workers.append(
            subprocess.Popen(command, cwd=tmp_path / name, env=environment, stdout=subprocess.DEVNULL)
        )
    assert [worker.wait(150) for worker in workers] == [0, 0]
    trials = open_study(open_storage(postgres, tmp_path), "ppo_CartPole-v1").trials
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * 8
    assert len({trial.user_attrs["worker"] for trial in trials}) > 1
    for name in ("first", "second"):
        assert (tmp_path / name / "logs" / "optimize" / "ppo_CartPole-v1" / "best.yml").is_file()

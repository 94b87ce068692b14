from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rlzoo.processes import stop_signals
from rlzoo.processes.stop_signals import StopSignals


def test_a_signal_raises_in_an_interruptible_section():
    with StopSignals() as stop:
        with pytest.raises(KeyboardInterrupt), stop.interruptible():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        assert stop.received == signal.SIGTERM


def test_elsewhere_it_waits_for_the_next_such_section():
    with StopSignals() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        saved = True  # whatever stands here is not cut short
        with pytest.raises(KeyboardInterrupt), stop.interruptible():
            pytest.fail("the section began although a signal was waiting")
    assert saved


class SignalsWhenDeleted:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)  # Python ignores exceptions in here


@pytest.fixture
def reminded_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_signals, "REMINDER", 0.05)


def wait_in_slices() -> None:
    for _ in range(100):
        time.sleep(0.05)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("wait", [wait_in_slices, lambda: time.sleep(5)], ids=["working", "blocked"])
def test_interrupt_that_is_lost_is_raised_again(wait: Callable[[], None], reminded_soon: None):
    began = time.monotonic()
    with StopSignals() as stop, pytest.raises(KeyboardInterrupt), stop.interruptible():
        SignalsWhenDeleted()
        assert stop.received == signal.SIGTERM
        wait()
        pytest.fail("the signal was forgotten")
    assert time.monotonic() - began < 2


def test_cleaning_up_after_an_interrupt_is_not_interrupted(reminded_soon: None):
    cleaned_up = []

    def clean_up() -> None:
        with suppress(ValueError):
            int("no number")
        for _ in range(10):
            time.sleep(0.03)
        cleaned_up.append(True)

    def jobs() -> Iterator[int]:
        try:
            yield 1
        finally:
            clean_up()

    with StopSignals() as stop, pytest.raises(KeyboardInterrupt), stop.interruptible():
        try:
            for _ in jobs():
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(5)
        finally:
            clean_up()
    assert cleaned_up == [True, True]


def test_training_in_a_handler_of_an_interrupt_is_interrupted():
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as first:
        first.__context__ = RuntimeError()
        first.__context__.__context__ = first
        with StopSignals() as stop, pytest.raises(KeyboardInterrupt) as raised, stop.interruptible():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        assert raised.value is not first


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_reminder_does_not_outlive_its_handler(reminded_soon: None):
    came: list[int] = []
    previous = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        with StopSignals() as stop, stop.interruptible():
            SignalsWhenDeleted()
        time.sleep(0.2)
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert not came and stop.received == signal.SIGTERM


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_reminder_waits_for_an_inner_handler(reminded_soon: None):
    inner = StopSignals()
    with StopSignals() as outer, pytest.raises(KeyboardInterrupt), outer.interruptible():
        SignalsWhenDeleted()
        with inner, inner.interruptible():
            time.sleep(0.2)
        time.sleep(5)
    assert inner.received is None


def test_interrupt_needs_no_reminder(monkeypatch: pytest.MonkeyPatch):
    def fail(timer: threading.Timer) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Timer, "start", fail)
    with StopSignals() as stop, pytest.raises(KeyboardInterrupt), stop.interruptible():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)


BLOCKED = """
import os, signal, threading, time
from rlzoo.processes import stop_signals
stop_signals.REMINDER = 0.05
def press_again():
    time.sleep(0.6)
    os.kill(os.getpid(), signal.SIGINT)
with stop_signals.StopSignals() as stop, stop.interruptible():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    finally:
        threading.Thread(target=press_again).start()
        time.sleep(60)
"""


def test_second_signal_ends_what_is_blocked_in_cleaning_up():
    process = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, timeout=30)
    assert process.returncode == 130, process.stderr


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_echo_of_a_signal_is_not_a_second_one():
    with StopSignals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.received == signal.SIGTERM  # we are still here


def test_an_ignored_hangup_stays_ignored():
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        with StopSignals():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_in_another_thread_nothing_is_installed():
    failures = []

    def body() -> None:
        try:
            with StopSignals() as stop, stop.interruptible():
                pass
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert not failures


SECOND = """
import multiprocessing, os, signal, sys, time
from rlzoo.processes.stop_signals import StopSignals
if __name__ == "__main__":
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    worker.start()
    with StopSignals():
        os.kill(os.getpid(), signal.SIGINT)
        print(worker.pid, flush=True)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
"""


def test_second_signal_ends_process_and_workers():
    process = subprocess.run([sys.executable, "-c", SECOND], capture_output=True, text=True, timeout=30)
    assert process.returncode == 130
    assert "once more ends at once" in process.stderr
    worker = int(process.stdout)
    for _ in range(50):
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    status = Path(f"/proc/{worker}/stat").read_text().split()[2]
    assert status == "Z"  # dead, and only not yet collected by whoever adopted it

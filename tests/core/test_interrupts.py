"""Ctrl-C in the middle of an import waits until the module is whole."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from rlzoo.processes.stop_signals import StopSignals, sigint_waits_for_imports

MODULE = """
import os, signal, time
os.kill(os.getpid(), signal.{name})
time.sleep(0.1)  # a handler runs in here
whole = True
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that gets a SIGINT while it is imported."""
    (tmp_path / "interrupted_module.py").write_text(MODULE.format(name="SIGINT"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "interrupted_module", raising=False)
    return "interrupted_module"


def test_sigint_waits_until_the_module_is_whole(module: str) -> None:
    with sigint_waits_for_imports(), pytest.raises(KeyboardInterrupt):
        imported = __import__(module)
        assert imported.whole
        time.sleep(5)
    assert sys.modules[module].whole  # type: ignore[attr-defined]


def test_stop_signal_waits_until_the_module_is_whole(module: str) -> None:
    with StopSignals() as stop, pytest.raises(KeyboardInterrupt), stop.interruptible():
        __import__(module)
        assert stop.received is None
        time.sleep(5)
    assert stop.received == signal.SIGINT


def test_sigint_between_imports_raises_at_once() -> None:
    began = time.monotonic()
    with sigint_waits_for_imports(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    assert time.monotonic() - began < 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handled_sigint_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with sigint_waits_for_imports():
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, previous)

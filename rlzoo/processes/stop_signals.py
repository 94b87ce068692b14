"""Ctrl-C, SIGTERM and SIGHUP: the first asks the run to save and end, the second ends it at once.

Signals that come while a module is imported wait until it is. A KeyboardInterrupt in the middle of an import
leaves half of the module behind: PyTorch's import of NumPy swallows it and continues with a NumPy that lacks
attributes, or aborts the process.
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
ECHO = 0.2  # seconds in which a repeated signal is the same one, sent to the process and to its group
RETRY = 0.05  # seconds until a signal that had to wait is sent again
REMINDER = 1.0  # seconds until KeyboardInterrupt is raised again where it had no effect
IMPORTERS = ("importlib._bootstrap", "importlib._bootstrap_external")


class StopSignals:
    """The first Ctrl-C, SIGTERM or SIGHUP (the terminal is gone) raises KeyboardInterrupt inside
    `interruptible`, and waits elsewhere. It also waits while a module is being imported.

    So the code that must not be cut short (claiming, saving) is everything that is not marked. A signal that
    waited is found in `received`, and raises as soon as an `interruptible` section begins. Where the
    exception is lost (in `__del__`, or in a check of a program that `torch.compile` has made), it is raised
    again. The second signal kills the worker processes and ends the process with exit code 130. A SIGHUP that
    is ignored (`nohup`) stays so. In a thread other than the main one nothing is installed: Python delivers
    signals to the main thread only.

    :param answer: what the first signal is answered with
    """

    def __init__(self, answer: str = "saving and ending") -> None:
        self.answer = answer
        self.received: signal.Signals | None = None
        self._received_at = 0.0
        self._raising = self._is_reminder = False
        self._reminder: threading.Timer | None = None
        self._interrupt: KeyboardInterrupt | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._thread = threading.get_ident()
            self._imports = imports_in_progress(inspect.currentframe())
            wanted = [number for number in SIGNALS if number == signal.SIGINT or not _is_ignored(number)]
            self._previous = {number: signal.signal(number, self._on_signal) for number in wanted}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reminder is not None:  # its signal would meet the former handler
            self._reminder.cancel()
            self._reminder.join()
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the first signal raise KeyboardInterrupt here."""
        self._raising = True
        try:
            if self.received is not None:
                raise KeyboardInterrupt
            yield
        finally:
            self._raising, self._interrupt = False, None  # no call, in which a signal could raise

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        is_reminder, self._is_reminder = self._is_reminder, False
        if imports_in_progress(frame) > self._imports:
            if is_reminder:
                self._remind_later(number)
            else:
                send_again(number)
        elif is_reminder:
            if _is_on_its_way(self._interrupt, sys.exc_info()[1]):
                self._remind_later(number)
            else:
                self._raise(number)
        elif self.received is not None:
            if time.monotonic() - self._received_at > ECHO:
                end_at_once()
        else:
            self.received, self._received_at = signal.Signals(number), time.monotonic()
            message = f"\nrlzoo: {self.received.name}: {self.answer}; once more ends at once\n"
            # Not print: the signal may have come in the middle of another write to the same stream.
            with suppress(OSError):  # the terminal is gone
                os.write(2, message.encode())
            self._raise(number)

    def _raise(self, number: int) -> None:
        """Raise KeyboardInterrupt in an interruptible section."""
        if self._raising:
            self._remind_later(number)
            self._interrupt = KeyboardInterrupt()
            raise self._interrupt

    def _remind_later(self, number: int) -> None:
        """Let the signal come again while the section goes on."""
        if self._raising:
            timer = threading.Timer(REMINDER, self._remind, (number,))
            timer.daemon = True
            with suppress(RuntimeError):  # no thread can be started
                timer.start()
                self._reminder = timer

    def _remind(self, number: int) -> None:
        if not self._raising:
            return
        if signal.getsignal(number) != self._on_signal:  # that of another one inside of this one
            self._remind_later(number)
            return
        self._is_reminder = True
        if hasattr(signal, "pthread_kill"):  # wakes the main thread from what it waits for
            signal.pthread_kill(self._thread, number)
        else:
            signal.raise_signal(number)


def _is_on_its_way(interrupt: KeyboardInterrupt | None, handled: BaseException | None) -> bool:
    """Return whether code that cleans up after `interrupt` handles an exception now.

    A generator that is closed meanwhile handles GeneratorExit.
    """
    if isinstance(handled, GeneratorExit):
        return True
    seen: set[int] = set()
    while handled is not None and id(handled) not in seen:
        if handled is interrupt:
            return True
        seen.add(id(handled))
        handled = handled.__context__
    return False


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) == signal.SIG_IGN


def end_at_once() -> None:
    """Kill the worker processes of this process, and leave without cleaning up."""
    from multiprocessing import active_children  # every command imports this module

    for worker in active_children():
        worker.kill()
    exit_at_once(130)


def exit_at_once(code: int) -> None:
    """End this process from any of its threads, without cleaning up."""
    os._exit(code)


# ---------------------------------------------------------------------- imports


@contextmanager
def sigint_waits_for_imports() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt within the block as ever, but not in the middle of an import.

    Imports that were in progress when the block began do not count. Nothing changes in threads other than the
    main one, and where SIGINT is handled or ignored already.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    before = imports_in_progress(inspect.currentframe())

    def on_sigint(number: int, frame: FrameType | None) -> None:
        if imports_in_progress(frame) > before:
            send_again(number)
        else:
            signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, on_sigint)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def imports_in_progress(frame: FrameType | None) -> int:
    """Return the number of frames of the import system in the stack of `frame`."""
    count = 0
    while frame is not None:
        count += frame.f_globals.get("__name__") in IMPORTERS
        frame = frame.f_back
    return count


def send_again(number: int) -> None:
    """Let the signal come again, a little later."""
    timer = threading.Timer(RETRY, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()

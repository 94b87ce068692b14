"""Signals that come while a module is imported wait until it is.

A KeyboardInterrupt in the middle of an import leaves half of the module behind: PyTorch's import of NumPy
swallows it and continues with a NumPy that lacks attributes, or aborts the process.
"""

from __future__ import annotations

import inspect
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

RETRY = 0.05  # seconds until a signal that had to wait is sent again
IMPORTERS = ("importlib._bootstrap", "importlib._bootstrap_external")


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


def exit_at_once(code: int) -> None:
    """End this process from any of its threads, without cleaning up."""
    os._exit(code)


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

"""How a worker is asked to end, and where it may be cut short."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(BaseException):
    """The worker is to end; no Exception, so that nobody takes it for a failure of the training."""


class Stop:
    """SIGTERM raises `Stopped` inside `interruptible`, and waits elsewhere, above all while a storage writes.

    One that waited raises when an `interruptible` section begins or goes on.
    """

    def __init__(self) -> None:
        self.requested = False
        self._raising = False

    def listen(self) -> None:
        """Take SIGTERM, and the end of standard input, for the wish to stop; leave Ctrl-C to the parent."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._on_signal)
        threading.Thread(target=_wait_for_parent, daemon=True).start()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Here a request to stop raises at once."""
        with self._set(True):
            yield

    @contextmanager
    def held(self) -> Iterator[None]:
        """A part of an `interruptible` section that is finished first."""
        with self._set(False):
            yield
        self._check()

    @contextmanager
    def _set(self, raising: bool) -> Iterator[None]:
        before, self._raising = self._raising, raising
        try:
            self._check()
            yield
        finally:
            self._raising = before

    def _check(self) -> None:
        if self.requested and self._raising:
            raise Stopped

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self.requested:  # one exception, not a second one while the first is cleaned up after
            self.requested = True
            self._check()


def _wait_for_parent() -> None:
    """Read standard input, which the parent never writes to and its death closes."""
    try:
        while os.read(0, 4096):
            pass
    except OSError as error:
        print(f"rlzoo: standard input: {error}", file=sys.stderr)
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGTERM)  # to that thread, so that it wakes from what it waits for

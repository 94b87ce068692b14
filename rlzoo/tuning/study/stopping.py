"""How a worker is asked to end, and where it may be cut short."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rlzoo.processes.workers import end_with_parent


class Stopped(BaseException):
    """The worker is to end; no Exception, so that nobody takes it for a failure of the training."""


class Stop:
    """Handler of SIGTERM that raises `Stopped` inside `interruptible`, and defers it elsewhere.

    So no write to the storage is interrupted. A deferred signal raises when an `interruptible` section begins
    or resumes.
    """

    def __init__(self) -> None:
        self.requested = False
        self._raising = False

    def request(self) -> None:
        """Stop where the next part of the work begins."""
        self.requested = True

    def listen(self) -> None:
        """Take SIGTERM, and the end of standard input, for the wish to stop; leave Ctrl-C to the parent."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._on_signal)
        end_with_parent()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a request to stop raise at once here."""
        with self._set(True):
            yield

    @contextmanager
    def held(self) -> Iterator[None]:
        """Finish a part of an `interruptible` section first."""
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

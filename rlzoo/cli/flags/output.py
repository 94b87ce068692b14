"""Standard output and standard error that work may outlive."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


def open_closed_streams() -> None:
    """Give a process that was started with closed streams (`>&-`) streams that lead nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for the life of the process


class LastingStream:
    """A stream that is switched off at the first write that fails: its reader or its terminal is gone.

    :param stream: a text stream
    :param name: what the note on standard error calls it
    """

    def __init__(self, stream: Any, name: str) -> None:
        self._stream, self._name = stream, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self._switch_off(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._switch_off(error)

    def _switch_off(self, error: OSError) -> None:
        discard(self._stream)
        with suppress(OSError):  # standard error itself
            reason = f"{self._name} is gone ({error.strerror}); the work goes on without it"
            os.write(2, f"rlzoo: {reason}\n".encode())


def discard(stream: Any) -> None:
    """Discard output that could not be written, and all later output: Python would retry at its exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError):  # a stream without a file
        os.dup2(null, stream.fileno())
    os.close(null)


@contextmanager
def lasting_output() -> Iterator[None]:
    """Within the block, a lost terminal or a pipe whose reader has left (`| head`) ends no work."""
    streams = sys.stdout, sys.stderr
    sys.stdout = LastingStream(sys.stdout, "standard output")  # type: ignore[assignment]
    sys.stderr = LastingStream(sys.stderr, "standard error")  # type: ignore[assignment]
    try:
        yield
        sys.stdout.flush()
    finally:
        sys.stdout, sys.stderr = streams

"""Standard output and standard error that may close before the work ends."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


def output_width() -> int | None:
    """Return the columns of the terminal, or those of the variable COLUMNS; None: output goes to a file."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    return None


def open_closed_streams() -> None:
    """Replace streams that were closed at the start (`>&-`) with the null device."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for the life of the process


class LastingStream:
    """Stream that is discarded after the first failed write, when its reader or its terminal is closed.

    :param stream: the stream, in text mode
    :param name: its name in the message on standard error
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
            reason = f"{self._name} is closed ({error.strerror}); continuing without it"
            os.write(2, f"rlzoo: {reason}\n".encode())


def discard(stream: Any) -> None:
    """Discard output that could not be written, and all later output: Python would retry at its exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError):  # a stream without a file
        os.dup2(null, stream.fileno())
    os.close(null)


@contextmanager
def lasting_output() -> Iterator[None]:
    """Continue the work of the block if the terminal or the reader of a pipe (`| head`) closes."""
    streams = sys.stdout, sys.stderr
    sys.stdout = LastingStream(sys.stdout, "standard output")  # type: ignore[assignment]
    sys.stderr = LastingStream(sys.stderr, "standard error")  # type: ignore[assignment]
    try:
        yield
        sys.stdout.flush()
    finally:
        sys.stdout, sys.stderr = streams

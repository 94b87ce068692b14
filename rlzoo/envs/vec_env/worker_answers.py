"""Replies of a worker process to the process that started it."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from multiprocessing.connection import Connection, wait

from rlzoo.envs.single_env.env_failures import describe


class Unsendable(AttributeError):
    """A value that cannot be pickled for another process."""


def answer(connection: Connection, value: object) -> None:
    """Send `(True, value)` from a worker.

    :raises Unsendable: the value cannot be pickled
    """
    try:
        connection.send((True, value))
    except (EOFError, OSError):
        raise
    except Exception as error:  # pickling may raise any class of error
        raise Unsendable(f"{type(value).__name__} cannot be sent between processes: {error}") from error


def answer_error(connection: Connection, error: Exception) -> None:
    """Send `(False, (error, traceback))` from a worker; call it in the `except` block of the error."""
    trace = traceback.format_exc()
    try:
        connection.send((False, (error, trace)))
    except (EOFError, OSError):
        raise
    except Exception:
        connection.send((False, (RuntimeError(describe(error)), trace)))


def die_with_parent() -> None:
    """Exit when the parent process ends; run it in a thread of the worker."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)

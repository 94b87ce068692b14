"""What a worker process tells the process that started it."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from multiprocessing.connection import Connection, wait
from typing import Any

from rlzoo.envs.single_env.env_failures import describe


class Unsendable(AttributeError):
    """A value that cannot be sent from a worker."""


def answer(connection: Connection, value: Any) -> None:
    """Send `(True, value)` from a worker.

    :raises Unsendable: the value cannot be sent
    """
    try:
        connection.send((True, value))
    except (EOFError, OSError):
        raise
    except Exception as error:  # pickle raises all sorts
        raise Unsendable(f"{type(value).__name__} cannot be sent between processes: {error}") from error


def answer_error(connection: Connection, error: Exception) -> None:
    """Send `(False, (error, traceback))` from a worker, in the handler of the error."""
    trace = traceback.format_exc()
    try:
        connection.send((False, (error, trace)))
    except (EOFError, OSError):
        raise
    except Exception:
        connection.send((False, (RuntimeError(describe(error)), trace)))


def die_with_parent() -> None:
    """For a thread of a worker: end the process when the one that started it is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)

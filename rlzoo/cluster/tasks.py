"""Tasks, their events, and the pools of processes that run them.

A task is a function of rlzoo, called in another process with a JSON payload. It returns JSON, and may ask the
process that submitted it. Files travel as files: see `rlzoo.cluster.staging`. Two pools run tasks:
`LocalPool` in processes of this machine, `RayPool` on a Ray cluster.
"""

from __future__ import annotations

import importlib
import json
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from rlzoo.core.errors import RunFailed, UserError, one_line

Json: TypeAlias = dict[str, Any]
"""A JSON object."""


@dataclass(frozen=True)
class Task:
    """A call of a function in another process.

    :param target: `module:function` of rlzoo; the function is called with a `TaskContext`
    :param payload: what the function is told
    :param inputs: files that it reads; it gets their paths from `TaskContext.input`
    :param output: folder that it writes into; it gets the path from `TaskContext.output`; "": none
    """

    target: str
    payload: Json
    inputs: tuple[str, ...] = ()
    output: str = ""


@dataclass(frozen=True)
class Ended:
    """The end of a task.

    :param key: as `Pool.submit` returned it
    :param result: what the function returned; None if it failed or was lost
    :param error: why it failed, in one line; empty if it did not
    :param log: the traceback of an unexpected error
    :param lost: its process or node died; the task may be submitted again
    """

    key: int
    result: Json | None = None
    error: str = ""
    log: str = ""
    lost: bool = False


@dataclass(frozen=True)
class Asked:
    """A message of a running task.

    :param ticket: names the answer that the task waits for; 0: it waits for none
    """

    key: int
    message: Json
    ticket: int = 0


class Pool(Protocol):
    """Processes that run tasks; a context manager that stops them."""

    def slots(self) -> int:
        """Return the number of tasks that can run at the same time now."""

    def submit(self, task: Task) -> int:
        """Start a task, or let it wait for a free slot; return its key."""

    def wait(self, timeout: float) -> list[Ended | Asked]:
        """Return what has happened; wait up to `timeout` seconds for the first event.

        :raises RunFailed: no task can run any longer
        """

    def answer(self, asked: Asked, reply: Json) -> None:
        """Answer a task that waits; nothing happens if it has ended."""

    def interrupt(self, grace: float) -> list[Ended | Asked]:
        """Ask all tasks to save and end, and return the events until they have; kill them after `grace` s."""

    def __enter__(self) -> Pool: ...

    def __exit__(self, *error: object) -> None: ...


class TaskContext:
    """What the function of a task works with.

    :param payload: of the task
    :param output: the folder for its files
    :param inputs: path of each input file by its path in the task
    :param send: sends a message, and returns the answer if it waits for one
    :param is_apart: the folder is a temporary one, whose files are sent to the submitter at the end
    """

    def __init__(
        self,
        payload: Json,
        output: str,
        inputs: Mapping[str, str],
        send: Callable[[Json, bool], Json],
        is_apart: bool = False,
    ) -> None:
        self.payload, self.output, self.is_apart = payload, output, is_apart
        self._inputs, self._send = inputs, send

    def input(self, path: str) -> str:
        """Return where an input file is in this process."""
        return self._inputs.get(path, path)

    def tell(self, message: Json) -> None:
        """Send a message."""
        self._send(message, False)

    def ask(self, message: Json) -> Json:
        """Send a message, and wait for the answer."""
        return self._send(message, True)


def call(target: str, context: TaskContext) -> Json:
    """Call the function of a task; return its outcome as JSON: `result`, or `error` and `log`."""
    module, _, function = target.partition(":")
    if not module.startswith("rlzoo."):
        raise ValueError(f"{target} is no function of rlzoo")
    try:
        return {"result": getattr(importlib.import_module(module), function)(context)}
    except (UserError, RunFailed) as error:
        return {"error": one_line(error)}
    except (Exception, SystemExit) as error:
        return {"error": one_line(f"{type(error).__name__}: {error}"), "log": traceback.format_exc()}


def ended(key: int, outcome: object) -> Ended:
    """Return the end of a task from its outcome, which another process has written.

    :raises RunFailed: it is not what `call` returns
    """
    if isinstance(outcome, dict) and isinstance(outcome.get("result"), dict):
        return Ended(key, outcome["result"])
    if isinstance(outcome, dict) and isinstance(outcome.get("error"), str):
        return Ended(key, error=outcome["error"], log=str(outcome.get("log", "")))
    raise RunFailed(f"a worker returned {json.dumps(outcome)[:80]}, which is no result of a task")

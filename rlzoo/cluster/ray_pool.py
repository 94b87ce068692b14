"""Tasks on a Ray cluster.

Each task is one Ray task; Ray never repeats one by itself, so that the submitter decides what a lost task
means. Between two machines travel JSON and the bytes of files. Ray itself trusts every member of its cluster,
and so does whoever joins one.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rlzoo import __version__
from rlzoo.cluster import ray_cluster
from rlzoo.cluster.mailbox import Mailbox
from rlzoo.cluster.staging import SharedFolder, unpack
from rlzoo.cluster.tasks import Asked, Ended, Json, Task, ended
from rlzoo.config.tune import RayConfig
from rlzoo.core.errors import RunFailed, UserError, one_line
from rlzoo.io import trust

LOOK = 2.0  # seconds between two looks at the nodes
POLL = 0.5  # seconds to wait at a time: a signal is handled between two waits only


class RayPool:
    """Runs tasks on a Ray cluster; a context manager.

    :param config: the cluster, and what each task may use
    :param n_cpus: CPUs of a Ray on this machine
    """

    def __init__(self, config: RayConfig, n_cpus: int) -> None:
        self.config, self.n_cpus = config, n_cpus
        self._mark: Json = {}
        self._resources = ExitStack()
        self._tasks: dict[Any, tuple[int, Task]] = {}  # by what Ray calls its result
        self._sent: dict[str, Any] = {}  # input files in Ray's object store, by path
        self._n_submitted = 0
        self._looked, self._slots = -LOOK, 0

    def __enter__(self) -> RayPool:
        with ExitStack() as opened:
            self.ray = opened.enter_context(ray_cluster.connected(self.config, self.n_cpus))
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            # With the driver, so that the death of another node does not take the mailbox along.
            here = NodeAffinitySchedulingStrategy(self.ray.get_runtime_context().get_node_id(), soft=False)
            actor = self.ray.remote(num_cpus=0, max_concurrency=10_000)(Mailbox)
            self._mailbox = actor.options(scheduling_strategy=here).remote()
            self._taking = self._mailbox.take.remote()
            resources = {"num_cpus": self.config.cpus_per_trial, "num_gpus": self.config.gpus_per_trial}
            self._remote = self.ray.remote(max_retries=0, **resources)(run_in_ray)
            self._resources = opened.pop_all()
        return self

    def share(self, folder: Path) -> None:
        """Let nodes that have this folder too write there, instead of sending files back.

        :param folder: is made where it is missing
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._mark = self._resources.enter_context(SharedFolder(folder)).describe()

    def __exit__(self, *error: object) -> None:
        for ref in self._tasks:
            self.ray.cancel(ref, force=True)
        self._tasks.clear()
        self._resources.close()

    def slots(self) -> int:
        """Return the number of tasks that the nodes can run at the same time now; nodes come and go."""
        if time.monotonic() - self._looked > LOOK:
            self._looked = time.monotonic()
            nodes = ray_cluster.alive_nodes(self.ray)
            self._slots = sum(ray_cluster.slots_of(node, self.config) for node in nodes)
        return min(self._slots, self.config.max_parallel or self._slots)

    def submit(self, task: Task) -> int:
        """Submit a task to Ray."""
        self._n_submitted += 1
        text = json.dumps(
            {
                "version": __version__,
                "target": task.target,
                "payload": task.payload,
                "inputs": task.inputs,
                "output": task.output,
                "mark": self._mark,
                "environment": {name: os.environ[name] for name in (trust.VARIABLE,) if name in os.environ},
            }
        )
        for path in task.inputs:
            if path not in self._sent:
                self._sent[path] = self.ray.put(Path(path).read_bytes())
        files = {path: [self._sent[path]] for path in task.inputs}  # in a list: Ray sends it when asked for
        ref = self._remote.remote(text, self._n_submitted, self._mailbox, files)
        self._tasks[ref] = self._n_submitted, task
        return self._n_submitted

    def wait(self, timeout: float) -> list[Ended | Asked]:
        """Return what has happened within `timeout` seconds.

        :raises RunFailed: the mailbox is gone, or a worker returned something else than a result
        """
        refs = [*self._tasks, self._taking]
        ready, _ = self.ray.wait(refs, num_returns=1, timeout=timeout)
        if ready:
            ready, _ = self.ray.wait(refs, num_returns=len(refs), timeout=0)
        events: list[Ended | Asked] = []
        if self._taking in ready:  # first: a task's messages come before its end
            events += self._take()
        return events + [self._end(ref) for ref in ready if ref in self._tasks]

    def answer(self, asked: Asked, reply: Json) -> None:
        """Answer a task that waits."""
        if asked.ticket:
            self._mailbox.answer.remote(asked.ticket, json.dumps(reply))

    def interrupt(self, grace: float) -> list[Ended | Asked]:
        """Interrupt all tasks as Ctrl-C would, and return what happens until they have ended."""
        for ref in self._tasks:
            self.ray.cancel(ref, force=False)
        deadline = time.monotonic() + grace
        events: list[Ended | Asked] = []
        while self._tasks and time.monotonic() < deadline:
            events += self.wait(POLL)
        return events

    def _take(self) -> list[Asked]:
        """Return the messages in the mailbox.

        :raises RunFailed: the mailbox is gone
        """
        try:
            taken = self.ray.get(self._taking)
        except self.ray.exceptions.RayError as error:
            raise RunFailed(f"the Ray cluster is gone: {one_line(error)[:200]}") from None
        self._taking = self._mailbox.take.remote()
        keys = {key for key, _ in self._tasks.values()}
        return [Asked(key, json.loads(text), ticket) for key, text, ticket in taken if key in keys]

    def _end(self, ref: Any) -> Ended:
        """Return how a task has ended, with its files written.

        :raises UserError: its node has another version of rlzoo
        :raises RunFailed: it returned something else than a result
        """
        key, task = self._tasks.pop(ref)
        needed = {path for _, other in self._tasks.values() for path in other.inputs}
        self._sent = {path: sent for path, sent in self._sent.items() if path in needed}
        try:
            content = self.ray.get(ref)
        except (self.ray.exceptions.RayTaskError, self.ray.exceptions.TaskCancelledError) as error:
            return Ended(
                key, error=one_line(error.cause if hasattr(error, "cause") else error), log=str(error)
            )
        except self.ray.exceptions.RayError as error:  # a process, a node or an object is gone
            return Ended(key, error=one_line(str(error).partition("\n")[0]), lost=True)
        outcome = unpack(content, Path(task.output) if task.output else None)
        if isinstance(outcome, dict) and outcome.get("refused"):
            raise UserError(str(outcome["error"]))
        return ended(key, outcome)


def run_in_ray(text: str, key: int, mailbox: Any, files: dict[str, list[Any]]) -> bytes:
    """Run a task in a process of Ray.

    :param files: reference of each input file in Ray's object store, in a list
    """
    import ray

    from rlzoo.cluster.ray_task import run

    def send(message: Json, wait: bool) -> Json:
        if not wait:
            mailbox.tell.remote(key, json.dumps(message))
            return {}
        reply: Json = json.loads(ray.get(mailbox.ask.remote(key, json.dumps(message))))
        return reply

    def read(path: str) -> bytes:
        content: bytes = ray.get(files[path][0])
        return content

    return run(text, send, read)

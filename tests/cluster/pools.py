"""A pool that runs its tasks in this process, in threads, and loses those that it is told to."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Collection

from rlzoo.cluster.tasks import Asked, Ended, Json, Task, TaskContext, call, ended


class ThreadPool:
    """Runs tasks in threads of this process.

    :param n_slots: tasks at the same time
    :param lost: keys of tasks that are lost
    """

    def __init__(self, n_slots: int = 1, lost: Collection[int] = ()) -> None:
        self.n_slots, self.lost, self.tasks = n_slots, lost, list[Task]()
        self.events: queue.Queue[Ended | Asked] = queue.Queue()
        self.replies: dict[int, queue.Queue[Json]] = {}

    def slots(self) -> int:
        return self.n_slots

    def submit(self, task: Task) -> int:
        self.tasks.append(task)
        key = len(self.tasks)
        self.replies[key] = queue.Queue()
        threading.Thread(target=self._run, args=(key, task)).start()
        return key

    def _run(self, key: int, task: Task) -> None:
        def send(message: Json, wait: bool) -> Json:
            self.events.put(Asked(key, json.loads(json.dumps(message)), int(wait)))
            return self.replies[key].get() if wait else {}

        if key in self.lost:
            self.events.put(Ended(key, error="the node is gone", lost=True))
            return
        payload = json.loads(json.dumps(task.payload))
        outcome = call(task.target, TaskContext(payload, task.output, {}, send))
        self.events.put(ended(key, json.loads(json.dumps(outcome))))

    def wait(self, timeout: float) -> list[Ended | Asked]:
        try:
            return [self.events.get(timeout=timeout)]
        except queue.Empty:
            return []

    def answer(self, asked: Asked, reply: Json) -> None:
        self.replies[asked.key].put(reply)

    def interrupt(self, grace: float) -> list[Ended | Asked]:
        return []

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(self, *error: object) -> None:
        pass

"""Jobs of a benchmark as tasks of a pool, such as a Ray cluster.

This process claims the jobs. Trainings are tasks; the episodes of experts are recorded on this machine, which
has the agents. A lost training begins again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlzoo.benchmark.finished import interrupted_run
from rlzoo.benchmark.run_list import (
    END,
    SAVE,
    Claim,
    Ended,
    Job,
    JobProcess,
    Options,
    Processes,
    Training,
    Worker,
    worker_file,
)
from rlzoo.benchmark.run_worker import remove_unfinished, train_agent
from rlzoo.cluster import tasks
from rlzoo.cluster.tasks import Json, Pool, Task, TaskContext
from rlzoo.config.run import latest_run_id, run_name
from rlzoo.processes.job_lock import JobLock

MAX_LOSSES = 5  # of one training
TARGET = "rlzoo.benchmark.parallel.pool_jobs:train"


@dataclass
class PoolJob:
    """A training that runs as a task.

    :param lock: the claim on the job
    """

    job: Training
    folder: Path
    options: Options
    lock: JobLock
    began: float = field(default_factory=time.monotonic)
    n_lost: int = 0
    end: tasks.Ended | None = None

    @property
    def slot(self) -> object:
        """The task."""
        return self

    def has_ended(self) -> bool:
        """Return whether the task is over."""
        return self.end is not None

    def ended(self) -> Ended:
        """Return how the training ended; a log is kept of one that failed."""
        assert self.end is not None
        seconds = time.monotonic() - self.began
        self.lock.release()
        if self.end.result is not None and not self.end.result["interrupted"]:
            return Ended(self.job, seconds)
        problem = self.end.error or "interrupted"
        log = worker_file(self.folder, self.job, "log")
        log.write_text(f"{self.end.log or problem}\n")
        return Ended(self.job, seconds, f"{problem} ({log})")

    def task(self) -> Task:
        """Return the task; what an earlier attempt left on this machine is removed."""
        run = self.job.run_config(self.folder, self.options)
        resumable = self.options.resume and interrupted_run(Path(run.log_folder), run.algo, run.env_id)
        remove_unfinished(run, resumable or None)
        given = self.job.task(self.folder, self.options)
        given["latest_run"] = latest_run_id(run.log_folder, run.algo, run.env_id)
        paths = (run.expert, run.conf_file)
        inputs = tuple(path for path in paths if path and Path(path).is_file())
        return Task(TARGET, given, inputs, run.log_folder)


class PoolWorkers:
    """Does the trainings of a benchmark as tasks of a pool.

    :param pool: open; the folder of the benchmark is shared with it
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.here = Processes(1)
        self.running: dict[int, PoolJob] = {}  # by the key of the task

    def slots(self) -> int:
        """Return the number of tasks that there is room for."""
        return self.pool.slots()

    def together(self, job: Job, waiting: Sequence[Job], n_free: int) -> Sequence[Job]:
        """Return nothing: each job is a task."""
        return ()

    def start(self, claims: Sequence[Claim], folder: Path, options: Options) -> Sequence[Worker]:
        """Submit a training, or start to record episodes here."""
        ((job, lock),) = claims
        if not isinstance(job, Training):
            return self.here.start(claims, folder, options)
        worker = PoolJob(job, folder, options, lock)
        self.running[self.pool.submit(worker.task())] = worker
        return [worker]

    def wait(self, seconds: float) -> None:
        """Handle the events of some seconds; a lost training is submitted again."""
        for event in self.pool.wait(seconds):
            if not isinstance(event, tasks.Ended) or event.key not in self.running:
                continue
            worker = self.running.pop(event.key)
            worker.n_lost += event.lost
            if event.lost and worker.n_lost < MAX_LOSSES:
                self.running[self.pool.submit(worker.task())] = worker
            else:
                worker.end = event

    def stop(self, running: Sequence[Worker]) -> None:
        """Interrupt the trainings, which save what they can resume, and end the processes."""
        resume = any(worker.options.resume for worker in self.running.values())
        self.pool.interrupt(SAVE if resume else END)
        self.running.clear()
        self.here.stop([worker for worker in running if isinstance(worker, JobProcess)])


def train(context: TaskContext) -> Json:
    """Train the agent of a job, in the folder of the task."""
    given = context.payload
    values = {**given["train"], "log_folder": context.output}
    for key in ("expert", "conf_file"):
        if values[key]:
            values[key] = context.input(values[key])
    if context.is_apart and given["latest_run"]:  # the next number is free where the files go
        name = run_name(values["env_id"], given["latest_run"])
        (Path(context.output) / values["algo"] / name).mkdir(parents=True)
    code = train_agent(values, given["command"], given["name"], given["resume"] and not context.is_apart)
    return {"interrupted": code != 0}

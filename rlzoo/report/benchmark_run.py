"""Training what the list of a benchmark asks for, several agents at a time, each in a process of its own.

    <folder>/seed<k>/<algo>/<env>_1/      the runs, as `rlzoo train` leaves them
    <folder>/experts/<env>_<algo>_<n>.npz   demonstrations
    <folder>/workers/<job>.log            what a process said whose training failed

What is finished is not done again. What was cut short begins again, so that an agent never depends on when
somebody pressed Ctrl-C.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen, TimeoutExpired
from typing import Any, TypeAlias

from rlzoo.config.benchmark import Row
from rlzoo.config.run import RunConfig, find_runs, safe_name
from rlzoo.core.errors import UserError
from rlzoo.experiment.train import check
from rlzoo.report.finished import is_finished

FOLDER = "logs/benchmark"
WORKER = (sys.executable, "-m", "rlzoo.report.benchmark_worker")
POLL = 0.2  # seconds between two looks at the processes
END = 30.0  # seconds that a process has to save its agent


@dataclass(frozen=True)
class Training:
    """One agent to train."""

    row: Row
    seed: int

    def __str__(self) -> str:
        return f"{self.row.algo} {self.row.env} seed {self.seed}"

    def run_config(self, folder: Path, num_threads: int = 1) -> RunConfig:
        """The run; it is not evaluated, which would only cost time."""
        return RunConfig(
            algo=self.row.algo,
            env_id=self.row.env,
            seed=self.seed,
            n_timesteps=self.row.n_timesteps or -1,
            conf_file=self.row.conf_file,
            expert=str(Recording(self.row).file(folder)) if self.row.expert else "",
            eval_freq=-1,
            num_threads=num_threads,
            verbose=0,
            log_folder=str(folder / f"seed{self.seed}"),
        )

    def run_folder(self, folder: Path) -> Path | None:
        """The folder of its newest run; None before it has begun."""
        runs = find_runs(folder / f"seed{self.seed}", self.row.algo, self.row.env)
        return runs[-1][1] if runs else None

    def is_done(self, folder: Path) -> bool:
        run = self.run_folder(folder)
        return run is not None and is_finished(run)

    def task(self, folder: Path, num_threads: int) -> dict[str, Any]:
        """What the worker is told."""
        command = ["rlzoo", *training_command(self.row, self.seed, folder)]
        return {"train": asdict(self.run_config(folder, num_threads)), "command": command}


@dataclass(frozen=True)
class Recording:
    """The episodes that a row learns from."""

    row: Row

    def __str__(self) -> str:
        return f"{self.expert.episodes} episodes of {self.training}"

    @property
    def expert(self) -> Any:
        assert self.row.expert is not None
        return self.row.expert

    @property
    def training(self) -> Training:
        """The agent that is recorded."""
        return Training(Row(algo=self.expert.algo, env=self.row.env), self.expert.seed)

    def file(self, folder: Path) -> Path:
        return folder / "experts" / f"{safe_name(self.row.env)}_{self.expert.algo}_{self.expert.episodes}.npz"

    def is_done(self, folder: Path) -> bool:
        return self.file(folder).is_file()

    def task(self, folder: Path, num_threads: int) -> dict[str, Any]:
        """What the worker is told."""
        agent = {"algo": self.expert.algo, "env_id": self.row.env, "n_episodes": self.expert.episodes}
        logs = str(folder / f"seed{self.expert.seed}")
        play = {**agent, "folder": logs, "num_threads": num_threads}
        return {"record": play, "output": str(self.file(folder))}


Job: TypeAlias = "Training | Recording"


@dataclass
class Ended:
    """A job that is over."""

    job: Job
    seconds: float
    problem: str = ""  # empty: it is done


def jobs_of(rows: Iterable[Row]) -> list[Job]:
    """The jobs of a list: experts and their episodes before what learns from them, then seed by seed."""
    rows = list(rows)
    experts: dict[Job, None] = {}
    for row in rows:
        if row.expert:
            recording = Recording(row)
            experts |= {recording.training: None, recording: None}
    seeds = sorted({seed for row in rows for seed in row.seeds})
    trainings = [Training(row, seed) for seed in seeds for row in rows if seed in row.seeds]
    return list(dict.fromkeys([*experts, *trainings]))


def run_jobs(jobs: Iterable[Job], folder: Path, n_jobs: int, num_threads: int = 1) -> Iterator[Ended]:
    """Do the jobs that are not done, `n_jobs` at a time; each is told of when it is over.

    A job that fails is no end of the others, except of those that need it. When the caller goes no further,
    or is interrupted, the processes are asked to end.
    """
    waiting = [job for job in jobs if not job.is_done(folder)]
    running: list[_Worker] = []
    failed: set[Job] = set()
    for job in list(waiting):  # a mistake in the last must not wait until the others are trained
        if problem := _problem(job, folder):
            waiting.remove(job)
            failed.add(job)
            yield Ended(job, 0.0, problem)
    try:
        while waiting or running:
            for job in list(waiting):
                needs = _needs(job)
                if needs in failed:
                    waiting.remove(job)
                    failed.add(job)
                    yield Ended(job, 0.0, f"it needs {needs}, which failed")
                elif len(running) < n_jobs and (needs is None or needs.is_done(folder)):
                    waiting.remove(job)
                    running.append(_Worker(job, folder, num_threads))
            time.sleep(POLL)
            for worker in [worker for worker in running if worker.process.poll() is not None]:
                running.remove(worker)
                ended = worker.ended()
                if ended.problem:
                    failed.add(ended.job)
                yield ended
    finally:
        _end(running)


def training_command(row: Row, seed: int | str, folder: Path = Path(FOLDER)) -> list[str]:
    """The arguments of `rlzoo` that train an agent of a row."""
    command = ["train", "--algo", row.algo, "--env", row.env, "--seed", str(seed), "--eval-freq", "-1"]
    if row.n_timesteps:
        command += ["-n", str(row.n_timesteps)]
    if row.conf_file:
        command += ["--conf-file", row.conf_file]
    if row.expert:
        command += ["--expert", str(Recording(row).file(folder))]
    return command


def record_command(row: Row, folder: Path = Path(FOLDER)) -> list[str]:
    """The arguments of `rlzoo` that record the episodes which a row learns from."""
    recording = Recording(row)
    agent = [
        "--algo",
        recording.expert.algo,
        "--env",
        row.env,
        "-f",
        str(folder / f"seed{recording.expert.seed}"),
    ]
    return ["record-expert", *agent, "-n", str(recording.expert.episodes), "-o", str(recording.file(folder))]


def _needs(job: Job) -> Job | None:
    """What has to be done before a job."""
    if isinstance(job, Recording):
        return job.training
    return Recording(job.row) if job.row.expert else None


def _problem(job: Job, folder: Path) -> str:
    """What is wrong with a training, if it can be told before it begins."""
    if isinstance(job, Recording) or job.row.expert:  # whose demonstrations may not be there yet
        return ""
    try:
        check(job.run_config(folder))
    except UserError as error:
        return str(error)
    return ""


class _Worker:
    """The process that does one job; a session of its own keeps Ctrl-C from it, its parent decides."""

    def __init__(self, job: Job, folder: Path, num_threads: int) -> None:
        self.job, self.began = job, time.monotonic()
        self.log = folder / "workers" / f"{safe_name(str(job)).replace(' ', '_')}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self.process = Popen(
                [*WORKER, json.dumps(job.task(folder, num_threads))],
                stdin=PIPE,  # its end tells the worker that this process is gone
                stdout=log,
                stderr=STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": str(num_threads)},
                start_new_session=True,
            )

    def ended(self) -> Ended:
        """How the process ended; the log of one that did its work goes."""
        seconds, code = time.monotonic() - self.began, self.process.returncode
        if code == 0:
            self.log.unlink()
            return Ended(self.job, seconds)
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        reason = f"killed by signal {-code}" if code < 0 else (lines[-1] if lines else f"exit code {code}")
        return Ended(self.job, seconds, f"{reason.removeprefix('rlzoo: error: ')} ({self.log})")


def _end(workers: list[_Worker]) -> None:
    """Ask processes to end, and see to it that they do."""
    for worker in workers:
        worker.process.terminate()
    deadline = time.monotonic() + END
    for worker in workers:
        try:
            worker.process.wait(max(0.0, deadline - time.monotonic()))
        except TimeoutExpired:
            worker.process.kill()
            worker.process.wait()

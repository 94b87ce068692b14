"""Training what the list of a benchmark asks for, several agents at a time, each in a process of its own.

    <folder>/seed<k>/<algo>/<env>_1/      the runs, as `rlzoo train` leaves them
    <folder>/experts/<env>_<algo>_seed<k>_<n>.npz   demonstrations
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
from rlzoo.experiment.run_folder import read_run
from rlzoo.experiment.train import check
from rlzoo.report.finished import is_finished

FOLDER = "logs/benchmark"
WORKER = (sys.executable, "-m", "rlzoo.report.benchmark_worker")
POLL = 0.2  # seconds between two looks at the processes
END = 30.0  # seconds that a process has to end, before it is killed


@dataclass(frozen=True, eq=False)
class Training:
    """One agent to train; the same agent for somebody to learn from is the same training."""

    row: Row
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        """Algorithm, environment and seed, which have one folder."""
        return (*self.row.key, self.seed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Training) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

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
            expert=str(recording_of(self.row).file(folder)) if self.row.expert else "",
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

    def check_finished(self, folder: Path) -> None:
        """Ask that what is done is what the row asks for.

        :raises UserError: the list has changed since
        """
        run = self.run_folder(folder)
        if run is None or not is_finished(run):
            return
        found, wanted = read_run(run), self.run_config(folder)
        for name in ("n_timesteps", "conf_file"):
            if (value := getattr(found, name)) != getattr(wanted, name):
                shown = "the shipped" if value in (-1, None) else value
                raise UserError(
                    f"{run} was trained with {shown} {name}, the list now says otherwise: "
                    "remove that folder, or take another with -f"
                )

    def task(self, folder: Path, num_threads: int) -> dict[str, Any]:
        """What the worker is told."""
        command = ["rlzoo", *training_command(self.row, self.seed, folder)]
        return {"train": asdict(self.run_config(folder, num_threads)), "command": command}


@dataclass(frozen=True)
class Recording:
    """Episodes that rows learn from.

    :param training: of the agent that is recorded
    """

    training: Training
    episodes: int

    def __str__(self) -> str:
        return f"{self.episodes} episodes of {self.training}"

    def file(self, folder: Path) -> Path:
        algo, env, seed = self.training.key
        return folder / "experts" / f"{safe_name(env)}_{algo}_seed{seed}_{self.episodes}.npz"

    def is_done(self, folder: Path) -> bool:
        return self.file(folder).is_file()

    def task(self, folder: Path, num_threads: int) -> dict[str, Any]:
        """What the worker is told."""
        algo, env, seed = self.training.key
        agent = {"algo": algo, "env_id": env, "n_episodes": self.episodes}
        logs = str(folder / f"seed{seed}")
        play = {**agent, "folder": logs, "num_threads": num_threads}
        return {"record": play, "output": str(self.file(folder))}


Job: TypeAlias = "Training | Recording"


@dataclass
class Ended:
    """A job that is over."""

    job: Job
    seconds: float
    problem: str = ""  # empty: it is done


def recording_of(row: Row) -> Recording:
    """The episodes that a row with an expert learns from."""
    assert row.expert is not None
    return Recording(Training(Row(algo=row.expert.algo, env=row.env), row.expert.seed), row.expert.episodes)


def jobs_of(rows: Iterable[Row]) -> list[Job]:
    """The jobs of a list: experts and their episodes before what learns from them, then seed by seed.

    An expert that the list also has as a row is trained as that row says.
    """
    rows = list(rows)
    seeds = sorted({seed for row in rows for seed in row.seeds})
    trainings = [Training(row, seed) for seed in seeds for row in rows if seed in row.seeds]
    listed = {training: training for training in trainings}
    experts: list[Job] = []
    for recording in (recording_of(row) for row in rows if row.expert):
        experts += [listed.get(recording.training, recording.training), recording]
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
        command += ["--expert", str(recording_of(row).file(folder))]
    return command


def record_command(row: Row, folder: Path = Path(FOLDER)) -> list[str]:
    """The arguments of `rlzoo` that record the episodes which a row learns from."""
    recording = recording_of(row)
    algo, env, seed = recording.training.key
    agent = ["--algo", algo, "--env", env, "-f", str(folder / f"seed{seed}")]
    return ["record-expert", *agent, "-n", str(recording.episodes), "-o", str(recording.file(folder))]


def _needs(job: Job) -> Job | None:
    """What has to be done before a job."""
    if isinstance(job, Recording):
        return job.training
    return recording_of(job.row) if job.row.expert else None


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

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

from rlzoo.config.benchmark import FOLDER, Row
from rlzoo.config.literals import plain
from rlzoo.config.run import RunConfig, find_runs, safe_name
from rlzoo.config.yaml_text import read_yaml
from rlzoo.core.errors import UserError
from rlzoo.core.safe_path import child_environment
from rlzoo.experiment.run_folder import config_path, model_path
from rlzoo.experiment.train import check
from rlzoo.report.finished import is_finished, learned_from
from rlzoo.report.scores import digest

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
        return run is not None and is_finished(run) and model_path(run, self.row.env).is_file()

    def check(self, folder: Path) -> None:
        """Ask that it can be trained, and that what is done is what the row asks for.

        :raises UserError: it is a mistake, or the list or the hyperparameters have changed since
        """
        blueprint = check(self.run_config(folder), read_demonstrations=self.row.expert is None, own=False)
        if not self.is_done(folder):
            return
        run = self.run_folder(folder)
        assert run is not None
        found, wanted = _comparable(read_yaml(config_path(run, self.row.env))), _comparable(blueprint.values)
        changed = sorted(key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key))
        episodes = recording_of(self.row).file(folder) if self.row.expert else None
        if episodes is not None and episodes.is_file() and learned_from(run) not in (None, digest(episodes)):
            changed.append("episodes of its expert")
        if changed:
            raise UserError(
                f"{run} was trained with other {changed[0]} than is asked for now: "
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

    def agent(self, folder: Path) -> str | None:
        """SHA-256 of the model file that is recorded; None before there is one."""
        run = self.training.run_folder(folder)
        if run is None or not self.training.is_done(folder):
            return None
        return digest(model_path(run, self.training.row.env))

    def is_done(self, folder: Path) -> bool:
        """Whether the episodes are there, and are of the agent that is there."""
        file, agent = self.file(folder), self.agent(folder)
        mark = recorded_mark(file)
        return (
            file.is_file()
            and mark.is_file()
            and agent is not None
            and mark.read_text(errors="replace").strip() == agent
        )

    def check(self, folder: Path) -> None:
        """Nothing can be wrong with it before its expert is there."""

    def task(self, folder: Path, num_threads: int) -> dict[str, Any]:
        """What the worker is told."""
        algo, env, seed = self.training.key
        agent = {"algo": algo, "env_id": env, "n_episodes": self.episodes}
        logs = str(folder / f"seed{seed}")
        play = {**agent, "folder": logs, "num_threads": num_threads}
        return {"record": play, "output": str(self.file(folder)), "agent": self.agent(folder)}


Job: TypeAlias = "Training | Recording"


@dataclass
class Ended:
    """A job that is over."""

    job: Job
    seconds: float
    problem: str = ""  # empty: it is done


def recorded_mark(file: Path) -> Path:
    """Where the SHA-256 of the agent stands whose episodes a file holds."""
    return file.with_suffix(".sha256")


def recording_of(row: Row) -> Recording:
    """The episodes that a row with an expert learns from."""
    assert row.expert is not None
    return Recording(Training(Row(algo=row.expert.algo, env=row.env), row.expert.seed), row.expert.episodes)


def jobs_of(rows: Iterable[Row], listed_rows: Iterable[Row] = ()) -> list[Job]:
    """The jobs of a list: experts and their episodes before what learns from them, then seed by seed.

    An expert that the list also has as a row is trained as that row says.

    :param listed_rows: all of the list, where `rows` are only some
    """
    rows = list(rows)
    seeds = sorted({seed for row in rows for seed in row.seeds})
    trainings = [Training(row, seed) for seed in seeds for row in rows if seed in row.seeds]
    listed = {training: training for row in (*listed_rows, *rows) for training in _trainings(row)}
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
    for job in list(waiting):  # a package that the last one needs is missed before the others are trained
        try:
            job.check(folder)
        except UserError as error:
            waiting.remove(job)
            failed.add(job)
            yield Ended(job, 0.0, str(error))
    try:
        while waiting or running:
            for job in list(waiting):
                needs = _needs(job)
                is_ready = needs is None or needs.is_done(folder)
                if not is_ready and needs not in [*waiting, *(worker.job for worker in running)]:
                    waiting.remove(job)
                    failed.add(job)
                    why = "failed" if needs in failed else "has gone"
                    yield Ended(job, 0.0, f"it needs {needs}, which {why}")
                elif is_ready and len(running) < n_jobs:
                    waiting.remove(job)
                    try:
                        running.append(_Worker(job, folder, num_threads))
                    except OSError as error:
                        failed.add(job)
                        yield Ended(job, 0.0, f"its process cannot be started: {error}")
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


def expert_command(row: Row, folder: Path = Path(FOLDER)) -> list[str]:
    """The arguments of `rlzoo` that train the agent which a row learns from."""
    training = recording_of(row).training
    return [*training_command(training.row, training.seed), "-f", str(folder / f"seed{training.seed}")]


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


def _comparable(hyperparams: dict[str, Any]) -> dict[str, Any]:
    """Hyperparameters as two runs can be compared by, wherever their demonstrations are."""
    values: dict[str, Any] = plain(hyperparams)
    if isinstance(source := values.get("expert_dataset"), dict) and "expert_path" in source:
        values["expert_dataset"] = {**source, "expert_path": Path(str(source["expert_path"])).name}
    return values


def _trainings(row: Row) -> list[Training]:
    return [Training(row, seed) for seed in row.seeds]


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
                env={**os.environ, **child_environment(), "OMP_NUM_THREADS": str(num_threads)},
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

"""Train the agents of a benchmark list, several at a time, each in a separate process.

    <folder>/seed<k>/<algo>/<env>_1/      the runs, as `rlzoo train` leaves them
    <folder>/seed<k>/<name>/<algo>/<env>_1/         those of a row with a name
    <folder>/experts/<env>_<algo>_seed<k>_<n>.npz   demonstrations
    <folder>/workers/<job>.log            output of a process whose training failed
    <folder>/workers/<job>.lock           while a process does the job

What is finished is not done again. What was cut short begins again, so that an agent never depends on when
somebody pressed Ctrl-C; with `Options.resume` it is saved, and continues. Several processes may work in one
folder, on different rows or seeds or on the same ones: each job is done by one of them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from subprocess import Popen
from typing import Any, Protocol, TypeAlias, runtime_checkable

from rlzoo.benchmark.finished import interrupted_run, is_finished, learned_from
from rlzoo.benchmark.scores import digest
from rlzoo.config.benchmark import FOLDER, Row, planned_steps
from rlzoo.config.run import RunConfig, find_runs, safe_name
from rlzoo.config.values_as_text import interpret, override_text, plain, read_yaml
from rlzoo.core.errors import UserError
from rlzoo.experiment.training_run import check
from rlzoo.processes.job_lock import JobLock, claim
from rlzoo.processes.workers import describe_exit, last_line, start_command, stop
from rlzoo.runs.run_folder import config_path, model_path

N_EVALUATIONS = 20
EVAL_EPISODES = 5
MAX_EVAL_ENVS = 10
WORKER = (sys.executable, "-m", "rlzoo.benchmark.run_worker")
POLL = 0.2  # seconds between two looks at the processes
CLAIM = 2.0  # seconds between two attempts to claim a job that another process does
END = 30.0  # seconds that a process has to end, before it is killed
SAVE = 600.0  # likewise, if it saves its training first; replay buffers are large


@dataclass(frozen=True, kw_only=True)
class Options:
    """How the agents of a list are trained, whatever its rows say.

    :param n_evaluations: over each training, for its learning curve; they do not change what is learned
    """

    num_threads: int = 1  # PyTorch's, of each process
    n_evaluations: int = N_EVALUATIONS  # 0: none
    eval_episodes: int = EVAL_EPISODES  # of each evaluation
    gym_packages: tuple[str, ...] = ()  # modules to import first
    resume: bool = False  # save trainings that are interrupted, and continue them

    @property
    def n_eval_envs(self) -> int:
        """Environments to evaluate in, side by side: one for each episode takes the least time."""
        return min(self.eval_episodes, MAX_EVAL_ENVS)

    def eval_freq(self, row: Row) -> int:
        """Return environment steps between two evaluations; -1: there are none."""
        steps = planned_steps(row) if self.n_evaluations else None
        return -1 if steps is None else max(steps // self.n_evaluations, 1)


DEFAULTS = Options()
WITHOUT_EVALUATIONS = Options(n_evaluations=0)


@dataclass(frozen=True, eq=False)
class Training:
    """One agent to train; the same agent for somebody to learn from is the same training."""

    row: Row
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        """Label, environment and seed, which have one folder."""
        return (*self.row.key, self.seed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Training) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return f"{self.row.label} {self.row.env} seed {self.seed}"

    def log_folder(self, folder: Path) -> Path:
        """Return the log folder; a named variant has a separate one."""
        return folder / f"seed{self.seed}" / (self.row.name or "")

    def run_config(self, folder: Path, options: Options = DEFAULTS) -> RunConfig:
        """Return the run."""
        eval_freq = options.eval_freq(self.row)
        return RunConfig(
            algo=self.row.algo,
            env_id=self.row.env,
            seed=self.seed,
            n_timesteps=self.row.n_timesteps or -1,
            conf_file=self.row.conf_file,
            hyperparams=interpret(self.row.hyperparams),
            expert=str(recording_of(self.row).file(folder)) if self.row.expert else "",
            gym_packages=options.gym_packages,
            eval_freq=eval_freq,
            eval_episodes=options.eval_episodes if eval_freq > 0 else EVAL_EPISODES,
            n_eval_envs=options.n_eval_envs if eval_freq > 0 else 1,
            num_threads=options.num_threads,
            save_replay_buffer=options.resume,
            verbose=0,
            log_folder=str(self.log_folder(folder)),
        )

    def run_folder(self, folder: Path) -> Path | None:
        """Return the folder of its newest run; None before it has begun."""
        runs = find_runs(self.log_folder(folder), self.row.algo, self.row.env)
        return runs[-1][1] if runs else None

    def is_done(self, folder: Path) -> bool:
        run = self.run_folder(folder)
        return run is not None and is_finished(run) and model_path(run, self.row.env).is_file()

    def check(self, folder: Path, options: Options = DEFAULTS) -> None:
        """Check that it can be trained, and that a run to keep or to resume has the settings of the row.

        Evaluations do not count: they change nothing in the agent.

        :raises UserError: it is a mistake, or the list or the hyperparameters have changed since
        """
        run = self.run_config(folder, options)
        resolved = check(run, read_demonstrations=self.row.expert is None, trusted=False)
        done = self.run_folder(folder) if self.is_done(folder) else None
        if done is None and options.resume:
            done = interrupted_run(self.log_folder(folder), self.row.algo, self.row.env)
        if done is None:
            return
        found, wanted = _comparable(read_yaml(config_path(done, self.row.env))), _comparable(resolved.values)
        changed = sorted(key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key))
        episodes = recording_of(self.row).file(folder) if self.row.expert else None
        if episodes is not None and episodes.is_file() and is_finished(done):
            if learned_from(done) not in (None, digest(episodes)):
                changed.append("episodes of its expert")
        if changed:
            verb = "trained" if is_finished(done) else "begun"
            raise UserError(
                f"{done} was {verb} with other {changed[0]} than is asked for now: "
                "remove that folder, or take another with -f"
            )

    def task(self, folder: Path, options: Options) -> dict[str, Any]:
        """Return what the worker is told; hyperparameters as the list has them, which JSON can hold."""
        command = ["rlzoo", *training_command(self.row, self.seed, folder, options)]
        run = replace(self.run_config(folder, options), hyperparams=self.row.hyperparams)
        what = {"train": asdict(run), "command": command, "name": self.row.name}
        return {**what, "resume": options.resume}


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
        """Return SHA-256 of the model file that is recorded; None before there is one."""
        run = self.training.run_folder(folder)
        if run is None or not self.training.is_done(folder):
            return None
        return digest(model_path(run, self.training.row.env))

    def is_done(self, folder: Path) -> bool:
        """Return whether the episodes are there, and are of the agent that is there."""
        file, agent = self.file(folder), self.agent(folder)
        mark = recorded_mark(file)
        return (
            file.is_file()
            and mark.is_file()
            and agent is not None
            and mark.read_text(errors="replace").strip() == agent
        )

    def check(self, folder: Path, options: Options = DEFAULTS) -> None:
        """Do nothing: nothing can be wrong with it before its expert is there."""

    def task(self, folder: Path, options: Options) -> dict[str, Any]:
        """Return what the worker is told."""
        algo, env, _ = self.training.key
        agent = {"algo": algo, "env_id": env, "n_episodes": self.episodes}
        logs, packages = str(self.training.log_folder(folder)), options.gym_packages
        play = {**agent, "folder": logs, "num_threads": options.num_threads, "gym_packages": packages}
        return {"record": play, "output": str(self.file(folder)), "agent": self.agent(folder)}


Job: TypeAlias = "Training | Recording"


@dataclass
class Ended:
    """A job that is over."""

    job: Job
    seconds: float
    problem: str = ""  # empty: it is done
    elsewhere: bool = False  # another process has done it


def recorded_mark(file: Path) -> Path:
    """Return where the SHA-256 of the agent stands whose episodes a file holds."""
    return file.with_suffix(".sha256")


def recording_of(row: Row) -> Recording:
    """Return the episodes that a row with an expert learns from."""
    assert row.expert is not None
    return Recording(Training(Row(algo=row.expert.algo, env=row.env), row.expert.seed), row.expert.episodes)


def jobs_of(rows: Iterable[Row], listed_rows: Iterable[Row] = ()) -> list[Job]:
    """Return the jobs of a list: experts and their episodes before what learns from them, seed by seed.

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


def run_jobs(
    jobs: Iterable[Job],
    folder: Path,
    n_jobs: int,
    options: Options = DEFAULTS,
    workers: Workers | None = None,
) -> Iterator[Ended]:
    """Do the jobs that are not done, `n_jobs` at a time; yield each as it ends.

    A job that fails is no end of the others, except of those that need it. A job that another process does is
    waited for, and done here if it fails there. When the caller goes no further, or is interrupted, the
    processes are asked to end.

    :param workers: does the jobs; None: `n_jobs` processes of this machine
    """
    workers = workers or Processes(n_jobs, SAVE if options.resume else END)
    queue = _Queue([job for job in jobs if not job.is_done(folder)], folder, workers, options)
    for job in list(
        queue.waiting
    ):  # a package that the last one needs is missed before the others are trained
        try:
            job.check(folder, options)
        except UserError as error:
            yield queue.ended(job, problem=str(error))
    try:
        while queue.waiting or queue.running:
            yield from queue.begin()
            if queue.waiting or queue.running:
                workers.wait(POLL)
            yield from queue.collect()
    finally:
        _end(workers, queue.running)


@dataclass
class _Queue:
    """The waiting and the running jobs."""

    waiting: list[Job]
    folder: Path
    workers: Workers
    options: Options
    running: list[Worker] = field(default_factory=list)
    failed: set[Job] = field(default_factory=set)
    claim_again: dict[Job, float] = field(default_factory=dict)  # when, of those that another process does

    def ended(self, job: Job, problem: str = "", elsewhere: bool = False) -> Ended:
        """Return a job that is over without having been begun here."""
        self.waiting.remove(job)
        if problem:
            self.failed.add(job)
        return Ended(job, 0.0, problem, elsewhere)

    def has_room(self) -> bool:
        """Return whether another job can begin."""
        return self.n_free() > 0

    def n_free(self) -> int:
        """Return how many processes can begin."""
        return self.workers.slots() - len({id(worker.slot) for worker in self.running})

    def begin(self) -> Iterator[Ended]:
        """Begin the jobs that are ready, as far as there is room."""
        for job in list(self.waiting):
            if job not in self.waiting:
                continue  # it has begun together with another one
            needs = _needs(job)
            if needs is not None and not needs.is_done(self.folder):
                if needs not in [*self.waiting, *(worker.job for worker in self.running)]:
                    why = "failed" if needs in self.failed else "has gone"
                    yield self.ended(job, f"it needs {needs}, which {why}")
            elif self.has_room() and time.monotonic() >= self.claim_again.get(job, 0.0):
                try:
                    if (ended := self._begin(job)) is not None:
                        yield ended
                except OSError as error:
                    yield self.ended(job, f"its process cannot be started: {error}")

    def collect(self) -> Iterator[Ended]:
        """Return the jobs whose processes have ended."""
        for worker in [worker for worker in self.running if worker.has_ended()]:
            self.running.remove(worker)
            ended = worker.ended()
            if ended.problem:
                self.failed.add(ended.job)
            yield ended

    def _begin(self, job: Job) -> Ended | None:
        """Begin a job, unless another process does it or has done it."""
        lock = claim(worker_file(self.folder, job, "lock"))
        if lock is None:
            self.claim_again[job] = time.monotonic() + CLAIM
            return None
        try:
            if job.is_done(self.folder):
                lock.release()
                return self.ended(job, elsewhere=True)
            claims = [(job, lock), *self._claim_others(job)]
        except BaseException:
            lock.release()
            raise
        try:
            self.running += self.workers.start(claims, self.folder, self.options)
        except BaseException:
            for _, claimed in claims:
                claimed.release()
            raise
        for begun, _ in claims:
            self.waiting.remove(begun)
        return None

    def _claim_others(self, job: Job) -> list[Claim]:
        """Claim what is begun together with a job, as far as no other process does it or has done it."""
        claims: list[Claim] = []
        for other in self.workers.together(job, self.waiting, self.n_free()):
            lock = claim(worker_file(self.folder, other, "lock"))
            if lock is not None and other.is_done(self.folder):
                lock.release()
            elif lock is not None:
                claims.append((other, lock))
        return claims


def training_command(
    row: Row, seed: int | str, folder: Path = Path(FOLDER), options: Options = WITHOUT_EVALUATIONS
) -> list[str]:
    """Return the arguments of `rlzoo` that train an agent of a row."""
    eval_freq = options.eval_freq(row)
    command = [
        "train",
        "--algo",
        row.algo,
        "--env",
        row.env,
        "--seed",
        str(seed),
        "--eval-freq",
        str(eval_freq),
    ]
    if eval_freq > 0:
        command += ["--eval-episodes", str(options.eval_episodes), "--n-eval-envs", str(options.n_eval_envs)]
    if row.n_timesteps:
        command += ["-n", str(row.n_timesteps)]
    if row.conf_file:
        command += ["--conf-file", row.conf_file]
    if row.hyperparams:
        command += ["--hyperparams", *(override_text(key, value) for key, value in row.hyperparams.items())]
    if row.expert:
        command += ["--expert", str(recording_of(row).file(folder))]
    if options.gym_packages:
        command += ["--gym-packages", *options.gym_packages]
    return command


def expert_command(row: Row, folder: Path = Path(FOLDER)) -> list[str]:
    """Return the arguments of `rlzoo` that train the agent which a row learns from."""
    training = recording_of(row).training
    return [*training_command(training.row, training.seed), "-f", str(folder / f"seed{training.seed}")]


def record_command(row: Row, folder: Path = Path(FOLDER)) -> list[str]:
    """Return the arguments of `rlzoo` that record the episodes which a row learns from."""
    recording = recording_of(row)
    algo, env, seed = recording.training.key
    agent = ["--algo", algo, "--env", env, "-f", str(folder / f"seed{seed}")]
    return ["record-expert", *agent, "-n", str(recording.episodes), "-o", str(recording.file(folder))]


def _needs(job: Job) -> Job | None:
    """Return what has to be done before a job."""
    if isinstance(job, Recording):
        return job.training
    return recording_of(job.row) if job.row.expert else None


def _comparable(hyperparams: dict[str, Any]) -> dict[str, Any]:
    """Return hyperparameters as two runs can be compared by, wherever their demonstrations are."""
    values: dict[str, Any] = plain(hyperparams)
    if isinstance(source := values.get("expert_dataset"), dict) and "expert_path" in source:
        values["expert_dataset"] = {**source, "expert_path": Path(str(source["expert_path"])).name}
    return values


def worker_file(folder: Path, job: Job, suffix: str) -> Path:
    """Return a file of the process that does a job."""
    return folder / "workers" / f"{safe_name(str(job)).replace(' ', '_')}.{suffix}"


def _trainings(row: Row) -> list[Training]:
    return [Training(row, seed) for seed in row.seeds]


class Worker(Protocol):
    """A job that is being done."""

    lock: JobLock  # the claim on the job

    @property
    def job(self) -> Job:
        """The job."""

    @property
    def slot(self) -> object:
        """What takes up the room: the process or task, which several jobs may share."""

    def has_ended(self) -> bool:
        """Return whether it is over."""

    def ended(self) -> Ended:
        """Return how it ended, and release the claim."""


Claim: TypeAlias = tuple["Job", JobLock]
"""A job, and the claim on it."""


@runtime_checkable
class HasProcess(Protocol):
    """A worker that is a process of this machine."""

    process: Popen[bytes]


class Workers(Protocol):
    """Do jobs, several at the same time."""

    def slots(self) -> int:
        """Return the number of jobs that there is room for now."""

    def together(self, job: Job, waiting: Sequence[Job], n_free: int) -> Sequence[Job]:
        """Return those of the waiting jobs that are begun together with a job.

        :param n_free: room for processes, this one included
        """

    def start(self, claims: Sequence[Claim], folder: Path, options: Options) -> Sequence[Worker]:
        """Start a job, and what is begun together with it."""

    def wait(self, seconds: float) -> None:
        """Wait until something may have changed, or for some seconds."""

    def stop(self, running: Sequence[Worker]) -> None:
        """Ask jobs to end, and wait until they have."""


class Processes:
    """Processes of this machine, one for each job.

    :param n_jobs: at the same time
    :param grace: seconds that they have to end, before they are killed
    """

    def __init__(self, n_jobs: int, grace: float = END) -> None:
        self.n_jobs, self.grace = n_jobs, grace

    def slots(self) -> int:
        """Return the number of processes."""
        return self.n_jobs

    def together(self, job: Job, waiting: Sequence[Job], n_free: int) -> Sequence[Job]:
        """Return nothing: each job has a process."""
        return ()

    def start(self, claims: Sequence[Claim], folder: Path, options: Options) -> Sequence[Worker]:
        """Start the process of a job."""
        return [JobProcess(job, folder, options, lock) for job, lock in claims]

    def wait(self, seconds: float) -> None:
        """Wait before the next look at the processes."""
        time.sleep(seconds)

    def stop(self, running: Sequence[Worker]) -> None:
        """Terminate the processes, and kill those that do not end."""
        processes = [worker.process for worker in running if isinstance(worker, HasProcess)]
        stop(dict.fromkeys(processes), self.grace)


class JobProcess:
    """The process that does one job.

    :param lock: the claim on the job, which ends with the process
    """

    def __init__(self, job: Job, folder: Path, options: Options, lock: JobLock) -> None:
        self.job, self.began, self.lock = job, time.monotonic(), lock
        self.log = worker_file(folder, job, "log")
        with self.log.open("wb") as log:
            command = [*WORKER, json.dumps(job.task(folder, options))]
            self.process = start_command(command, log, options.num_threads, pass_fds=lock.inherited)

    @property
    def slot(self) -> object:
        """The process."""
        return self.process

    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        return self.process.poll() is not None

    def ended(self) -> Ended:
        """Return how the process ended; the log of one that did its work goes."""
        seconds, code = time.monotonic() - self.began, self.process.returncode
        self.lock.release()
        if code == 0:
            self.log.unlink()
            return Ended(self.job, seconds)
        reason = (last_line(self.log) if code > 0 else "") or describe_exit(code)
        return Ended(self.job, seconds, f"{reason.removeprefix('rlzoo: error: ')} ({self.log})")


def _end(workers: Workers, running: list[Worker]) -> None:
    """Stop what is being done, then release the claims."""
    workers.stop(running)
    for worker in running:
        worker.lock.release()

"""`rlzoo optimize --scheduler pbt`: train a population, from its definition to its report.

    logs/optimize/<study>/
        pbt.json            all members of all intervals; the same command continues from it
        members/            agents of the last two intervals
        lineage.csv         every member of every interval, with its parent and hyperparameters
        schedule.yml        hyperparameters of the best lineage, for `rlzoo train --conf-file`

Only this process writes pbt.json. Intervals are synchronous: the worst members are replaced when all have
trained, so the same seed gives the same population however many members train at the same time.
"""

from __future__ import annotations

import csv
import io
import json
import secrets
import shlex
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rlzoo.accel.threads import available_cores
from rlzoo.callbacks.hyperparameter_schedule import CHANGEABLE
from rlzoo.cluster.local_pool import LocalPool
from rlzoo.cluster.ray_pool import RayPool
from rlzoo.cluster.tasks import Ended, Pool, Task
from rlzoo.config.hyperparams import lookup
from rlzoo.config.run import RunConfig
from rlzoo.config.tune import TuneConfig
from rlzoo.config.values_as_text import dump_yaml, plain
from rlzoo.core.errors import RunFailed, UserError, one_line
from rlzoo.experiment.resolve import resolve_run
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.io.atomic import atomic_write
from rlzoo.processes.stop_signals import StopSignals
from rlzoo.runs.json_records import check_fields
from rlzoo.runs.run_folder import refuse_links
from rlzoo.tuning.pbt.population import Generation, first_generation, lineage, next_generation, replay
from rlzoo.tuning.pbt.segment import AGENT, TARGET
from rlzoo.tuning.space.default_spaces import overrides
from rlzoo.tuning.space.search_space import Space
from rlzoo.tuning.storage.study_settings import StudySettings
from rlzoo.tuning.study.objective import training_seed
from rlzoo.tuning.study.study import difference, validate

ALGORITHMS = ("ppo", "ppo_lstm", "ppo_mask", "a2c", "trpo", "ddpg", "td3", "sac", "tqc", "crossq")
"""Algorithms whose agents continue with other hyperparameters; others decay exploration over a training."""
STATE = "pbt.json"
MAX_LOSSES = 5  # of one member in one interval
POLL = 0.5  # seconds between two looks at the pool


@dataclass
class Population:
    """A population and how far it has come.

    :param history: members by interval and number
    :param interval: environment steps between two replacements
    """

    folder: Path
    settings: StudySettings
    space: Space
    size: int
    interval: int
    n_timesteps: int
    history: list[list[Generation]]

    @property
    def n_intervals(self) -> int:
        """Intervals of a whole training."""
        return -(-self.n_timesteps // self.interval)

    @property
    def best(self) -> Generation:
        """The member with the highest return after the last interval."""
        return max((member for member in self.history[-1] if member.value is not None), key=_value)

    @property
    def is_done(self) -> bool:
        """Whether all intervals are over."""
        return len(self.history) == self.n_intervals and all(map(_is_over, self.history[-1]))

    def output(self, member: int, interval: int) -> Path:
        """Return the folder of a member's agent after an interval."""
        return self.folder / "members" / f"member_{member}" / f"interval_{interval}"

    def save(self) -> None:
        """Write the state, whole or not at all."""
        history = [[asdict(member) for member in generation] for generation in self.history]
        state = {"settings": self.settings.to_json(), "size": self.size, "interval": self.interval}
        with atomic_write(self.folder / STATE) as file:
            file.write(json.dumps({**state, "history": history}).encode())

    def run_of(self, member: Generation) -> RunConfig:
        """Return the configuration with which a member trains in its interval."""
        settings, conf_file = self.settings, self.settings.config_file(self.folder)
        values = lookup(settings.algo, settings.env_id, conf_file).values
        return RunConfig(
            algo=settings.algo,
            env_id=settings.env_id,
            conf_file=str(conf_file),
            hyperparams=overrides(settings.algo, values, replay(self.space, member.params)),
            verbose=0,
        )

    def resolved(self, member: Generation) -> ResolvedConfig:
        """Return all hyperparameters of a member in its interval."""
        return resolve_run(self.run_of(member), trusted=False)

    def task(self, member: Generation, threads: int) -> Task:
        """Return the task that trains a member for its interval."""
        settings, agent = self.settings, ""
        inputs: tuple[str, ...] = ()
        if member.interval:
            parent = self.output(member.parent, member.interval - 1)
            agent = str(parent / AGENT)
            inputs = tuple(str(path) for path in sorted(parent.iterdir()))
        payload = {
            "algo": settings.algo,
            "env_id": settings.env_id,
            "config": settings.config,
            "hyperparams": dump_yaml(plain(self.run_of(member).hyperparams)),
            "seed": training_seed(settings, member.member, member.interval),
            "agent": agent,
            "end": min((member.interval + 1) * self.interval, self.n_timesteps),
            "threads": threads,
            "eval_episodes": settings.eval_episodes,
            "n_eval_envs": settings.n_eval_envs,
            "vec_env": settings.vec_env,
            "device": settings.device,
            "gym_packages": settings.gym_packages,
        }
        output = self.output(member.member, member.interval)
        shutil.rmtree(output, ignore_errors=True)  # of an attempt that was cut short
        output.mkdir(parents=True)
        return Task(TARGET, payload, inputs, str(output))


def _value(member: Generation) -> float:
    return float("-inf") if member.value is None else member.value


def _is_over(member: Generation) -> bool:
    return member.value is not None or bool(member.error)


def optimize_population(config: TuneConfig, size: int, interval: int | None) -> Population:
    """Train a population to its end, or continue one, and write its report.

    :param size: members
    :param interval: environment steps between two replacements; None: a tenth of the training
    :raises UserError: the configuration is wrong, or the study was begun with another
    :raises RunFailed: no member has been trained without an error
    """
    if config.run.algo not in ALGORITHMS:
        raise UserError(f"--scheduler pbt trains {', '.join(ALGORITHMS)}, not {config.run.algo}")
    with StopSignals("ending; finished intervals are kept") as stop, ExitStack() as resources:
        with stop.interruptible():
            settings, space = validate(config)
            pool = resources.enter_context(_pool(config))
            population = _open(config, settings, space, size, interval)
            if isinstance(pool, RayPool):
                pool.share(population.folder)
            threads = config.run.num_threads if config.run.num_threads > 0 else 1
            with suppress(KeyboardInterrupt):  # `stop` has said so; the same command goes on
                _train_all(population, pool, threads, config.run.verbose)
        write_population_report(population)
    return population


@contextmanager
def _pool(config: TuneConfig) -> Iterator[Pool]:
    """Open the pool of worker processes or of Ray."""
    if config.ray is not None:
        with RayPool(config.ray, available_cores()) as cluster:
            yield cluster
        return
    threads = config.run.num_threads if config.run.num_threads > 0 else 1
    with LocalPool(config.n_jobs, threads, config.folder / "workers.log") as pool:
        yield pool


def _open(
    config: TuneConfig, settings: StudySettings, space: Space, size: int, interval: int | None
) -> Population:
    """Return the population in the folder of the study, new or as it was begun.

    :raises UserError: it was begun with other settings, or the folder holds another study or is damaged
    """
    folder = config.folder
    refuse_links(folder)
    n_timesteps = resolve_run(replace(config.run, verbose=0)).n_timesteps
    interval = min(interval or max(1, n_timesteps // 10), n_timesteps)
    path = folder / STATE
    if not path.is_file():
        if (folder / "journal.log").is_file():
            raise UserError(f"{folder} holds a study without --scheduler pbt: give another --study-name")
        seed = settings.seed if settings.seed >= 0 else secrets.randbelow(2**31)
        settings = replace(settings, seed=seed)
        first = first_generation(space, size, seed)
        population = Population(folder, settings, space, size, interval, n_timesteps, [first])
        population.save()
        return population
    try:
        state = json.loads(path.read_text())
        known = StudySettings.from_json(state["settings"])
        history = [
            [Generation(**check_fields(path, Generation, member)) for member in generation]
            for generation in state["history"]
        ]
        found = {"population size": int(state["size"]), "perturbation interval": int(state["interval"])}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged: {str(error)[:100]}") from None
    wanted = {"population size": size, "perturbation interval": interval}
    if settings.seed < 0:
        settings = replace(settings, seed=known.seed)
    changed = difference(known.to_json(), settings.to_json()) or difference(found, wanted)
    if changed is not None:
        raise UserError(f"study {config.study} was begun with {changed}; give another --study-name")
    return Population(folder, known, space, size, interval, n_timesteps, history)


def _train_all(population: Population, pool: Pool, threads: int, verbose: int) -> None:
    """Train the intervals that are left.

    :raises RunFailed: all members of an interval failed
    """
    while True:
        _train_interval(population, pool, threads, verbose)
        members = population.history[-1]
        if all(member.value is None for member in members):
            raise RunFailed(f"no member is left; the last error: {members[-1].error}")
        if population.is_done:
            return
        population.history.append(next_generation(population.space, members, population.settings.seed))
        population.save()
        for number in range(population.size):  # only the last interval is needed
            shutil.rmtree(population.output(number, members[0].interval - 1), ignore_errors=True)


def _train_interval(population: Population, pool: Pool, threads: int, verbose: int) -> None:
    """Train the members that have not yet been trained in the last interval."""
    running: dict[int, Generation] = {}
    n_lost: dict[int, int] = {}
    for member in population.history[-1]:
        if not _is_over(member):
            running[pool.submit(population.task(member, threads))] = member
    while running:
        for event in pool.wait(POLL):
            if not isinstance(event, Ended) or event.key not in running:
                continue
            member = running.pop(event.key)
            n_lost[member.member] = n_lost.get(member.member, 0) + event.lost
            if event.lost and n_lost[member.member] < MAX_LOSSES:
                running[pool.submit(population.task(member, threads))] = member
                continue
            if event.result is None:
                member.error = event.error
            else:
                member.value, member.n_steps = event.result["value"], event.result["n_steps"]
                member.seconds = event.result["seconds"]
            population.save()
            if verbose > 0:
                print(_line(population, member), flush=True)


def _line(population: Population, member: Generation) -> str:
    result = member.error or f"{member.value:10.2f} after {member.n_steps:,} steps"
    copied = "" if member.parent == member.member else f", copied member {member.parent}"
    place = f"interval {member.interval + 1} of {population.n_intervals}, member {member.member}"
    return f"{place}  {result}{copied}"


# ---------------------------------------------------------------------- report


def write_population_report(population: Population) -> None:
    """Write lineage.csv and, if a member has a return, schedule.yml."""
    members = [member for generation in population.history for member in generation]
    names = list(dict.fromkeys(name for member in members for name in member.params))
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["interval", "member", "parent", "steps", "return", "seconds", "error", *names])
    for member in members:
        row: list[object] = [member.interval, member.member, member.parent, member.n_steps]
        row += ["" if member.value is None else member.value, f"{member.seconds:.1f}", member.error]
        writer.writerow(row + [member.params.get(name, "") for name in names])
    with atomic_write(population.folder / "lineage.csv") as file:
        file.write(text.getvalue().encode())
    if any(member.value is not None for member in population.history[-1]):
        with atomic_write(population.folder / "schedule.yml") as file:
            file.write(schedule_yaml(population).encode())


def schedule_yaml(population: Population) -> str:
    """Return the hyperparameters of the best lineage as a file for `rlzoo train --conf-file`."""
    line = lineage(population.history, population.best.member)
    resolved = [population.resolved(member) for member in line]
    values: dict[str, Any] = plain(resolved[0].values)
    before = _changeable(resolved[0])
    changes = []
    for member, config in zip(line[1:], resolved[1:], strict=True):
        now = _changeable(config)
        if different := {key: value for key, value in now.items() if before.get(key) != value}:
            changes.append([member.interval * population.interval, different])
        before = now
    if changes:
        given = values.get("callback") or []
        others = given if isinstance(given, list) else [given]
        name = "rlzoo.callbacks.hyperparameter_schedule.HyperparameterSchedule"
        values["callback"] = [*others, {name: {"changes": changes}}]
    settings, best = population.settings, population.best
    command = ["rlzoo", "train", "--algo", settings.algo, "--env", settings.env_id]
    command += ["--conf-file", str(population.folder / "schedule.yml")]
    comments = [
        f"Population based training, member {best.member}: return {_value(best):.2f}.",
        f"Train with it: {shlex.join(command)}",
    ]
    text = "".join(f"# {one_line(line)}\n" for line in comments)
    return text + dump_yaml({settings.env_id: values})


def _changeable(resolved: ResolvedConfig) -> dict[str, Any]:
    """Return the hyperparameters that can change during training, as YAML has them."""
    return {key: plain(resolved.hyperparams[key]) for key in CHANGEABLE if key in resolved.hyperparams}

"""A population study: its members, its folder, and the tasks that train it.

    logs/optimize/<study>/
        pbt.json            all members of all intervals; the same command continues from it
        members/            agents of the last two intervals
        lineage.csv         every member of every interval, with its parent and hyperparameters
        schedule.yml        hyperparameters of the best lineage, for `rlzoo train --conf-file`
        report.html, *.png  the report

Only the process of the command writes pbt.json.
"""

from __future__ import annotations

import json
import secrets
import shutil
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rlzoo.algorithms.on_policy.on_policy_algorithm import OnPolicyAlgorithm
from rlzoo.cluster.tasks import Task
from rlzoo.config.hyperparams import lookup
from rlzoo.config.run import RunConfig
from rlzoo.config.tune import POPULATION, SCHEDULERS, TuneConfig
from rlzoo.config.values_as_text import dump_yaml, load_yaml, plain
from rlzoo.core.errors import UserError
from rlzoo.experiment.resolve import resolve_run
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.io.atomic import atomic_write
from rlzoo.runs.json_records import check_fields
from rlzoo.runs.run_folder import refuse_links
from rlzoo.tuning.pbt.population import Generation, first_generation, lineage, replay
from rlzoo.tuning.pbt.segment import AGENT, TARGET
from rlzoo.tuning.space.default_spaces import overrides
from rlzoo.tuning.space.search_space import Space
from rlzoo.tuning.storage.study_settings import StudySettings
from rlzoo.tuning.study.objective import training_seed
from rlzoo.tuning.study.study import difference

N_DRAWS = 32  # for each member of the first interval


@dataclass
class Population:
    """A population and how far it has come.

    :param scheduler: pbt or pb2, which differ in how the copies explore
    :param interval: environment steps between two replacements
    :param history: members by interval and number
    """

    folder: Path
    settings: StudySettings
    space: Space
    scheduler: str
    size: int
    interval: int
    n_timesteps: int
    history: list[list[Generation]]

    @property
    def n_intervals(self) -> int:
        """Intervals of a whole training; the steps that are left over belong to the last."""
        return self.n_timesteps // self.interval

    @property
    def winner(self) -> list[Generation]:
        """The best member of the last interval with a return, after its ancestors; empty if there is none."""
        for end in range(len(self.history), 0, -1):
            if any(member.value is not None for member in self.history[end - 1]):
                best = max(self.history[end - 1], key=value_of)
                return lineage(self.history[:end], best.member)
        return []

    @property
    def best(self) -> Generation:
        """The member with the highest return after the last interval that has one."""
        return self.winner[-1]

    @property
    def is_done(self) -> bool:
        """Whether all intervals are over."""
        return len(self.history) >= self.n_intervals and all(map(is_over, self.history[-1]))

    def steps_after(self, interval: int) -> int:
        """Return the environment steps of a member after an interval."""
        return (interval + 1) * self.interval if interval + 1 < self.n_intervals else self.n_timesteps

    def output(self, member: int, interval: int) -> Path:
        """Return the folder of a member's agent after an interval."""
        return self.folder / "members" / f"member_{member}" / f"interval_{interval}"

    def save(self) -> None:
        """Write the state, whole or not at all."""
        history = [[asdict(member) for member in generation] for generation in self.history]
        state: dict[str, object] = {"settings": self.settings.to_json(), "scheduler": self.scheduler}
        state |= {"size": self.size, "interval": self.interval}
        with atomic_write(self.folder / POPULATION) as file:
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
            "end": self.steps_after(member.interval),
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


def value_of(member: Generation) -> float:
    """Return the return of a member; minus infinity if it has none."""
    return float("-inf") if member.value is None else member.value


def is_over(member: Generation) -> bool:
    """Return whether a member has finished its interval, with a return or an error."""
    return member.value is not None or bool(member.error)


def open_population(
    config: TuneConfig,
    settings: StudySettings,
    space: Space,
    scheduler: str,
    size: int,
    interval: int | None,
) -> Population:
    """Return the population in the folder of the study, new or as it was begun.

    :raises UserError: it was begun with other settings, or the folder holds another study or is damaged
    """
    folder = config.folder
    refuse_links(folder)
    n_timesteps = resolve_run(replace(config.run, verbose=0)).n_timesteps
    interval = interval or max(1, n_timesteps // 10)
    if 2 * interval > n_timesteps:
        raise UserError(
            f"--perturbation-interval {interval} leaves no second interval in {n_timesteps} steps: nothing"
            f" would be replaced; give at most {n_timesteps // 2}"
        )
    if not (folder / POPULATION).is_file():
        if (folder / "journal.log").is_file():
            raise UserError(
                f"{folder} holds a study without --scheduler {scheduler}: give another --study-name"
            )
        seed = settings.seed if settings.seed >= 0 else secrets.randbelow(2**31)
        settings = replace(settings, seed=seed)
        population = Population(folder, settings, space, scheduler, size, interval, n_timesteps, [])
        try:
            population.history.append(members_that_fit(population))
        except UserError:
            settings.config_file(folder).unlink(missing_ok=True)
            with suppress(OSError):  # the folder had other files
                folder.rmdir()
            raise
        population.save()
        return population
    population = load_population(folder)
    known = population.settings
    if settings.seed < 0:
        settings = replace(settings, seed=known.seed)
    changed = difference(known.to_json(), settings.to_json()) or difference(
        _asked(population.scheduler, population.size, population.interval),
        _asked(scheduler, size, interval),
    )
    if changed is not None:
        raise UserError(f"study {config.study} was begun with {changed}; give another --study-name")
    return population


def rollout_steps(resolved: ResolvedConfig) -> int:
    """Return the environment steps of a rollout; 0 for an off-policy algorithm, which learns at any time."""
    if not issubclass(resolved.algorithm, OnPolicyAlgorithm):
        return 0
    n_steps = resolved.hyperparams.get("n_steps", resolved.algorithm.Config().n_steps)
    return int(n_steps) * resolved.n_envs


def members_that_fit(population: Population) -> list[Generation]:
    """Draw the members of the first interval: those whose rollout is not longer than an interval.

    Otherwise a member would train in some intervals and only be evaluated in others.

    :raises UserError: too few of many draws fit
    """
    fitting: list[Generation] = []
    shortest = sys.maxsize
    for drawn in first_generation(population.space, N_DRAWS * population.size, population.settings.seed):
        n_steps = rollout_steps(population.resolved(drawn))
        shortest = min(shortest, n_steps)
        if n_steps <= population.interval:
            fitting.append(replace(drawn, member=len(fitting), parent=len(fitting)))
        if len(fitting) == population.size:
            return fitting
    raise UserError(
        f"rollouts of {shortest} steps and more (n_steps times n_envs) do not fit into an interval of"
        f" {population.interval}: give a larger --perturbation-interval, or fewer n_steps"
    )


def _asked(scheduler: str, size: int, interval: int) -> dict[str, object]:
    """Return the flags of a population, under the names of the message."""
    return {"scheduler": scheduler, "population size": size, "perturbation interval": interval}


def load_population(folder: Path) -> Population:
    """Return the population in the folder of a study.

    :raises UserError: pbt.json is damaged, or of another version of rlzoo
    """
    path = folder / POPULATION
    try:
        state = json.loads(path.read_text())
        settings = StudySettings.from_json(state["settings"])
        history = [
            [Generation(**check_fields(path, Generation, member)) for member in generation]
            for generation in state["history"]
        ]
        scheduler, size, interval = state.get("scheduler", "pbt"), int(state["size"]), int(state["interval"])
        n_timesteps = int(load_yaml(settings.config, "the study's configuration")["n_timesteps"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged: {str(error)[:100]}") from None
    numbers = list(range(size))
    whole = interval > 0 and scheduler in SCHEDULERS and bool(history)
    for generation in history:
        whole &= [member.member for member in generation] == numbers
        whole &= all(member.parent in numbers for member in generation)
    whole &= all(m.interval == index for index, generation in enumerate(history) for m in generation)
    if not whole:
        raise UserError(f"{path} is damaged: its members are not those of a population")
    space = Space.from_json(settings.space)
    return Population(folder, settings, space, scheduler, size, interval, n_timesteps, history)

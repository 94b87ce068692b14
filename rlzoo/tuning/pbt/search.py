"""`rlzoo optimize --scheduler pbt` or `pb2`: train a population, from its definition to its report.

Intervals are synchronous: the worst members are replaced when all have trained, so the same seed gives the
same population however many members train at the same time.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from rlzoo.callbacks.hyperparameter_schedule import CHANGEABLE
from rlzoo.cluster.local_pool import LocalPool
from rlzoo.cluster.ray_pool import RayPool
from rlzoo.cluster.tasks import Ended, Pool
from rlzoo.config.tune import TuneConfig
from rlzoo.core.cpu_cores import available_cores
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.processes.stop_signals import StopSignals
from rlzoo.runs.run_folder import locked, refuse_links
from rlzoo.tuning.pbt.bandit import Bandit
from rlzoo.tuning.pbt.population import Generation, first_generation, next_generation, ranges_of
from rlzoo.tuning.pbt.population_report import write_population_report
from rlzoo.tuning.pbt.population_study import Population, is_over, load_population, open_population
from rlzoo.tuning.space.search_space import Space
from rlzoo.tuning.study.study import validate

ALGORITHMS = ("ppo", "ppo_lstm", "ppo_mask", "a2c", "trpo", "ddpg", "td3", "sac", "tqc", "crossq")
"""Algorithms whose agents continue with other hyperparameters; others decay exploration over a training."""
N_DRAWS = 32  # of the space, to find ranges that only some members have
MAX_LOSSES = 5  # of one member in one interval
POLL = 0.5  # seconds between two looks at the pool


def optimize_population(
    config: TuneConfig, size: int, interval: int | None, scheduler: str = "pbt"
) -> Population:
    """Train a population to its end, or continue one, and write its report.

    :param size: members
    :param interval: environment steps between two replacements; None: a tenth of the training
    :param scheduler: pbt: copies explore by random perturbations; pb2: by a Gaussian process
    :raises UserError: the configuration is wrong, the study was begun with another, or another command trains
        it
    :raises RunFailed: no member has been trained without an error
    """
    if config.run.algo not in ALGORITHMS:
        raise UserError(f"--scheduler {scheduler} trains {', '.join(ALGORITHMS)}, not {config.run.algo}")
    with StopSignals("ending; finished intervals are kept") as stop, ExitStack() as resources:
        with stop.interruptible():
            settings, space = validate(config)
            if scheduler == "pb2":
                check_bandit_space(space)
            pool = resources.enter_context(_pool(config))
            population = open_population(config, settings, space, scheduler, size, interval)
            resources.enter_context(locked(population.folder))
            if isinstance(pool, RayPool):
                pool.share(population.folder)
            threads = config.run.num_threads if config.run.num_threads > 0 else 1
            with suppress(KeyboardInterrupt):  # `stop` has said so; the same command goes on
                _train_all(population, pool, threads, config.run.verbose)
        write_population_report(population, config.figures)
    return population


def check_bandit_space(space: Space) -> None:
    """Raise if a space has no number that can change during training.

    :raises UserError: names the hyperparameters that can
    """
    if not ranges_of(space, first_generation(space, N_DRAWS, seed=0)):
        raise UserError(
            "--scheduler pb2 needs a range of numbers in the search space that can change during training:"
            f" {', '.join(CHANGEABLE)}"
        )


def report_population(config: TuneConfig) -> Population:
    """Write the report of a population study again.

    :raises UserError: its state is damaged
    """
    refuse_links(config.folder)
    population = load_population(config.folder)
    write_population_report(population, config.figures)
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
        seed = population.settings.seed
        explore = Bandit(population.space, population.history) if population.scheduler == "pb2" else None
        population.history.append(next_generation(population.space, members, seed, explore))
        population.save()
        for number in range(population.size):  # only the last interval is needed
            shutil.rmtree(population.output(number, members[0].interval - 1), ignore_errors=True)


def _train_interval(population: Population, pool: Pool, threads: int, verbose: int) -> None:
    """Train the members that have not yet been trained in the last interval."""
    running: dict[int, Generation] = {}
    n_lost: dict[int, int] = {}
    for member in population.history[-1]:
        if not is_over(member):
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

"""`rlzoo train --seeds`: one run for each seed, and a table of all."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path

from rlzoo.benchmark.parallel.seed_runs import SeedResult, finished_run, summary, train_seeds
from rlzoo.benchmark.parallel.stacked_rows import MAX_STACK
from rlzoo.cli.benchmark.benchmark_flags import choose_jobs, make_folder
from rlzoo.cli.flags.search_flags import ray_config
from rlzoo.cluster.local_pool import LocalPool
from rlzoo.cluster.ray_pool import RayPool
from rlzoo.cluster.tasks import Pool
from rlzoo.config import catalog
from rlzoo.config.run import RunConfig
from rlzoo.core.cpu_cores import available_cores
from rlzoo.core.errors import RunFailed, UserError, printable
from rlzoo.experiment.training_run import check


def train_all(args: argparse.Namespace, runs: Sequence[RunConfig]) -> int:
    """Train every run with every seed, print how each ended and a table, and return the exit code.

    :raises UserError: flags that do not go together, or a wrong configuration
    :raises RunFailed: some failed
    """
    if args.seed >= 0:
        raise UserError("--seed and --seeds cannot be given together")
    if args.n_procs > 1:
        raise UserError("--n-procs trains one agent in several processes: leave it out with --seeds")
    if own := next((run.algo for run in runs if catalog.is_of_this_process(run.algo)), None):
        raise UserError(f"{own} is known in this process alone: train it with one --seed at a time")
    ray = ray_config(args, args.n_jobs)
    n_threads = args.num_threads if args.num_threads > 0 else 1
    if ray is not None:
        n_threads = max(n_threads, ray.threads)
    for run in runs:
        check(run)
    seeds = dict.fromkeys(chain.from_iterable(args.seeds))
    planned = [replace(run, seed=seed, verbose=0, progress=False) for run in runs for seed in seeds]
    results = [SeedResult(run, folder) for run in planned if (folder := finished_run(run)) is not None]
    if results:
        print(f"{len(results)} of {len(planned)} are done already")
    done = {(result.run.env_id, result.run.seed) for result in results}
    waiting = [replace(run, num_threads=n_threads) for run in planned if (run.env_id, run.seed) not in done]
    if not waiting:
        return 0
    n_jobs = args.n_jobs if ray is not None else choose_jobs(args.n_jobs, n_threads)
    size = stack_size(args.stack_seeds, runs, len(waiting), None if ray is not None else n_jobs)
    with ExitStack() as resources:
        pool = open_pool(args, n_jobs, n_threads, runs[0], resources)
        for n_ended, result in enumerate(
            train_seeds(waiting, pool, shlex.join(["rlzoo", *sys.argv[1:]]), size), len(results) + 1
        ):
            results.append(result)
            how = result.problem or f"{result.n_steps:,} steps in {result.seconds:.0f} s, {result.folder}"
            print(f"[{n_ended}/{len(planned)}] {label(result)}: {printable(how)}", flush=True)
    print(printable(summary([result for result in results if result.n_steps or result.problem])))
    if any(result.interrupted for result in results):
        print("Interrupted; run the same command again for the runs that have not begun, and")
        print("  rlzoo train --resume FOLDER for those that were saved.")
        return 0
    if n_failed := sum(bool(result.problem) for result in results):
        raise RunFailed(f"{n_failed} of {len(planned)} failed; run the same command again to retry")
    return 0


def open_pool(
    args: argparse.Namespace, n_jobs: int, n_threads: int, run: RunConfig, resources: ExitStack
) -> Pool:
    """Return the processes that train, until `resources` is closed."""
    folder = Path(run.log_folder)
    make_folder(folder)
    if (ray := ray_config(args, args.n_jobs)) is not None:
        cluster = resources.enter_context(RayPool(ray, available_cores()))
        cluster.share(folder)
        return cluster
    log = folder / run.algo / "workers.log"
    return resources.enter_context(LocalPool(n_jobs, n_threads, log))


def label(result: SeedResult) -> str:
    """Return how messages call a run."""
    return f"{result.run.algo} {result.run.env_id} seed {result.run.seed}"


def stack_size(choice: str, runs: Sequence[RunConfig], n_waiting: int, n_jobs: int | None) -> int:
    """Return how many seeds a process trains together.

    :param choice: `--stack-seeds`
    :param runs: one of each environment
    :param n_waiting: number of runs that are to be trained
    :param n_jobs: processes of this machine; None: a Ray cluster trains
    :raises UserError: `--stack-seeds on` where it is not possible
    """
    if choice == "off":
        return 1
    if n_jobs is None:
        if choice == "on":
            raise UserError("--stack-seeds on is for processes of this machine: leave --backend ray out")
        return 1
    if choice == "auto" and n_waiting <= n_jobs:
        return 1  # a core for each
    from rlzoo.benchmark.parallel.stacked_seeds import stack_problem

    for run in runs:
        if (problem := stack_problem(run, only_if_faster=choice == "auto")) is not None:
            if choice == "on":
                raise UserError(f"--stack-seeds on: {run.algo} on {run.env_id} cannot be stacked: {problem}")
            print(f"a process trains one seed at a time, since {problem} (see --stack-seeds)")
            return 1
    return min(MAX_STACK, -(-n_waiting // n_jobs))

"""`rlzoo benchmark run`: train every algorithm, environment and seed of a list."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlzoo.cli.benchmark.benchmark_flags import add_jobs_flag, choose_jobs, make_folder
from rlzoo.cli.flags.list_flags import add_list_flags
from rlzoo.cli.flags.search_flags import add_ray_flags, ray_config
from rlzoo.core.errors import NotInstalled, RunFailed, UserError

if TYPE_CHECKING:
    from rlzoo.benchmark.run_list import Ended, Job, Options, Workers
    from rlzoo.config.tune import RayConfig

EPILOG = """\
examples:
  rlzoo benchmark run benchmarks/learning.yml
  rlzoo benchmark run benchmarks/learning.yml --rows ppo:CartPole-v1 --seeds 0 1
  rlzoo benchmark run my_list.yml -f logs/mine --n-jobs 8
  rlzoo benchmark run my_list.yml --backend ray --ray-address auto
  rlzoo benchmark run my_list.yml --rows big_net:CartPole-v1 --dry-run

A list is a YAML file:

  seeds: [0, 1, 2]
  rows:
    - {algo: [ppo, a2c], env: [CartPole-v1, Acrobot-v1]}
    - {algo: sac, env: Pendulum-v1, n_timesteps: 20000, required: -165}
    - name: big_net
      algo: ppo
      env: CartPole-v1
      hyperparams: {policy_kwargs: {net_arch: [256, 256]}}

Run the same command again to continue; finished trainings are skipped. Several
processes can share one list and folder: each training is done once. In a Slurm
array job: --seeds $SLURM_ARRAY_TASK_ID; `rlzoo jobs` writes the scripts.

Environment i of a training is seeded with its seed plus i, so neighbouring
seeds share random streams if there are several environments; seeds further
apart, such as 0 100 200, do not.
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("list", metavar="LIST", help="benchmark list (YAML)")
    add_list_flags(parser)
    add_jobs_flag(parser, "trainings")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="save trainings that Ctrl-C or SIGTERM ends, and continue those that were saved (default: they"
        " begin again)",
    )
    parser.add_argument(
        "--stack-seeds",
        choices=("auto", "on", "off"),
        default="off",
        help="train several seeds of a row in one process, with batched matrix products; on: where that is"
        " supported; auto: where it is faster, too. The training time of an agent is then that of its process"
        " (default: off)",
    )
    add_ray_flags(parser, "trainings")
    parser.add_argument("--dry-run", action="store_true", help="print the trainings, but run none")


def run(args: argparse.Namespace) -> int:
    from rlzoo.benchmark.run_list import Options, jobs_of
    from rlzoo.config.benchmark import choose, read_list
    from rlzoo.config.hyperparams import benchmark_file

    ray = ray_config(args, args.n_jobs)
    options = Options(
        num_threads=args.num_threads if ray is None else max(args.num_threads, ray.threads),
        n_evaluations=args.n_evaluations,
        eval_episodes=args.eval_episodes,
        gym_packages=tuple(args.gym_packages),
        resume=args.resume,
    )
    if ray is not None and args.stack_seeds != "off":
        raise UserError("--stack-seeds is for processes of this machine: leave --backend ray out")
    listed = read_list(benchmark_file(args.list))
    rows = choose(listed, args.rows)
    if args.seeds:
        rows = [replace(row, seeds=tuple(dict.fromkeys(args.seeds))) for row in rows]
    jobs = jobs_of(rows, listed)
    if not args.dry_run:
        mend(jobs, args.folder)
    for job in jobs:
        try:
            job.check(args.folder, options)
        except NotInstalled:
            pass  # the others can be trained
        except UserError as error:
            raise UserError(f"{job}: {error}") from error
    waiting = [job for job in jobs if not job.is_done(args.folder)]
    if len(waiting) < len(jobs):
        print(f"{len(jobs) - len(waiting)} of {len(jobs)} are done already")
    if args.dry_run:
        for job in waiting:
            print(job)
    elif waiting:
        with ExitStack() as resources:
            workers = None
            if ray is not None:
                make_folder(args.folder)
                workers = workers_on_ray(ray, args.folder, resources)
            elif args.stack_seeds != "off":
                workers = stacking_workers(args, options)
            train(waiting, args, options, workers)
    return 0


def mend(jobs: Iterable[Job], folder: Path) -> None:
    """Write the damaged marks of finished trainings again, and say so."""
    from rlzoo.benchmark.finished import mend_marks
    from rlzoo.benchmark.run_list import Training

    for job in jobs:
        if not isinstance(job, Training) or job.row.expert is not None:  # whose episodes the mark names
            continue
        if job.is_done(folder) and (run := job.run_folder(folder)) is not None:
            for mark in mend_marks(run, job.row.name):
                print(f"rlzoo: {mark} was damaged, and is written again", file=sys.stderr)


def workers_on_ray(ray: RayConfig, folder: Path, resources: ExitStack) -> Workers:
    """Connect to a Ray cluster that trains the agents, until `resources` is closed."""
    from rlzoo.benchmark.parallel.pool_jobs import PoolWorkers
    from rlzoo.cluster.ray_pool import RayPool
    from rlzoo.core.cpu_cores import available_cores

    pool = resources.enter_context(RayPool(ray, available_cores()))
    pool.share(folder)
    return PoolWorkers(pool)


def stacking_workers(args: argparse.Namespace, options: Options) -> Workers:
    """Return processes that train several seeds each."""
    from rlzoo.benchmark.parallel.stacked_rows import StackingProcesses
    from rlzoo.benchmark.run_list import END, SAVE

    n_jobs = choose_jobs(args.n_jobs, args.num_threads)
    return StackingProcesses(n_jobs, SAVE if options.resume else END, args.stack_seeds, args.folder, options)


def train(jobs: list[Job], args: argparse.Namespace, options: Options, workers: Workers | None) -> None:
    """Run the trainings and print how each ended.

    :param workers: None: processes of this machine, one for each training
    :raises RunFailed: some trainings failed
    """
    from rlzoo.benchmark.run_list import run_jobs
    from rlzoo.processes.stop_signals import StopSignals

    n_jobs = choose_jobs(args.n_jobs, args.num_threads) if workers is None else 1
    make_folder(args.folder)
    n_failed = 0
    with StopSignals("saving and ending" if options.resume else "ending") as stop, stop.interruptible():
        for n_ended, ended in enumerate(run_jobs(jobs, args.folder, n_jobs, options, workers), 1):
            n_failed += bool(ended.problem)
            print(f"[{n_ended}/{len(jobs)}] {ended.job}: {_result(ended)}", flush=True)
    if n_failed:
        raise RunFailed(f"{n_failed} of {len(jobs)} failed; run the same command again to retry")
    packages = ["--gym-packages", *args.gym_packages] if args.gym_packages else []
    score = shlex.join(["rlzoo", "benchmark", "score", str(args.folder), "--list", args.list, *packages])
    print(f"The runs are in {args.folder}; next: {score}")


def _result(ended: Ended) -> str:
    if ended.problem:
        return f"failed: {ended.problem}"
    return "done by another process" if ended.elsewhere else f"done in {ended.seconds:,.0f} s"

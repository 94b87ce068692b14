"""`rlzoo jobs`: write job scripts for Slurm, PBS or this machine."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from rlzoo.cli.flags.list_flags import add_list_flags
from rlzoo.cli.flags.parser import Choice, FlagGroup, IntInRange, Parser, warn_ignored_flags
from rlzoo.cli.jobs.study_file import study_commands
from rlzoo.config.benchmark import choose, read_list
from rlzoo.config.hyperparams import benchmark_file
from rlzoo.config.values_as_text import read_yaml
from rlzoo.core.errors import NotInstalled, UserError
from rlzoo.jobs.job_options import (
    GRACE,
    SCHEDULERS,
    TIME,
    JobOptions,
    parse_directive,
    parse_line,
    parse_memory,
    parse_time,
)

EPILOG = """\
examples:
  rlzoo jobs my_list.yml --scheduler slurm -o jobs/ --time 04:00:00 --memory 4G
  rlzoo jobs my_list.yml --scheduler pbs -o jobs/ --parallel 20
  rlzoo jobs my_list.yml --scheduler shell -o jobs/ --parallel 4
  rlzoo jobs my_study.yml --scheduler slurm -o jobs/ --directive=--qos=long \\
      --setup "module load python" "source .venv/bin/activate"

A list of `rlzoo benchmark run` becomes one task per row and seed. A study
becomes workers of one `rlzoo optimize`, with its flags as keys:

  workers: 8
  optimize: {algo: sac, env: Pendulum-v1, n_timesteps: 20000, n_trials: 100}

A training that reaches the time limit is saved, queued again and continued to
its end; a search continues with its unfinished trials.
"""
NOT_IN_SHELL = ("time", "grace", "cpus", "gpus", "memory", "partition", "account", "directive")
NOT_IN_STUDIES = ("rows", "seeds", "folder", "num_threads", "n_evaluations", "eval_episodes", "gym_packages")


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("list", metavar="LIST", help="benchmark list or study (YAML)")
    parser.add_argument(
        "--scheduler",
        type=Choice("scheduler", SCHEDULERS),
        required=True,
        metavar="NAME",
        help=f"{', '.join(SCHEDULERS)}",
    )
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="new folder for the scripts"
    )
    _add_resource_flags(parser.add_argument_group("resources"))
    _add_site_flags(parser.add_argument_group("site"))
    tasks = parser.add_argument_group("tasks of a list, as in `rlzoo benchmark run`")
    add_list_flags(tasks, ", on a shared file system")


def _add_resource_flags(asks: FlagGroup) -> None:
    asks.add_argument(
        "--time",
        type=_argument(parse_time),
        default=parse_time(TIME),
        metavar="[D-]HH:MM:SS",
        help=f"time limit of a task (default: {TIME})",
    )
    asks.add_argument(
        "--grace",
        type=IntInRange(1, 65535),
        default=GRACE,
        metavar="SECONDS",
        help=f"time to save before the limit (default: {GRACE})",
    )
    asks.add_argument(
        "--cpus", type=IntInRange(1), default=1, metavar="N", help="cores of a task (default: 1)"
    )
    asks.add_argument(
        "--gpus", type=IntInRange(0), default=0, metavar="N", help="GPUs of a task (default: 0)"
    )
    asks.add_argument(
        "--memory",
        type=_argument(parse_memory),
        default=None,
        metavar="SIZE",
        help="memory of a task, such as 4G (default: that of the cluster)",
    )
    asks.add_argument(
        "--parallel",
        type=IntInRange(1),
        default=None,
        metavar="N",
        help="tasks at a time (default: no limit; shell: 1)",
    )


def _add_site_flags(asks: FlagGroup) -> None:
    asks.add_argument(
        "--partition",
        type=_argument(parse_line),
        default=None,
        metavar="NAME",
        help="partition, or PBS queue",
    )
    asks.add_argument(
        "--account", type=_argument(parse_line), default=None, metavar="NAME", help="account to charge"
    )
    asks.add_argument(
        "--directive",
        type=_argument(parse_directive),
        action="append",
        default=[],
        metavar="TEXT",
        help="further option of sbatch or qsub, such as --directive=--qos=long; may be repeated",
    )
    asks.add_argument(
        "--setup",
        type=_argument(parse_line),
        nargs="+",
        default=[],
        metavar="LINE",
        help="shell commands to run before each task",
    )


def run(args: argparse.Namespace) -> int:
    from rlzoo.jobs.slurm import MAX_ARRAY
    from rlzoo.jobs.task_script import TASKS
    from rlzoo.jobs.write_jobs import write_jobs

    parser = Parser("rlzoo jobs", "")
    build_parser(parser)
    if args.scheduler == "shell":
        warn_ignored_flags(parser, args, NOT_IN_SHELL, "with --scheduler shell")
    place = benchmark_file(args.list)
    content = read_yaml(place)
    if not isinstance(content, dict) or not {"rows", "optimize"} & content.keys():
        raise UserError(f"{args.list} is neither a benchmark list (`rows`) nor a study (`optimize`)")
    is_study = "optimize" in content
    if is_study:
        warn_ignored_flags(parser, args, NOT_IN_STUDIES, "with a study")
        commands = study_commands(content, args.list)
    else:
        commands = list_commands(place, args)
    path, submit = write_jobs(args.output, args.scheduler, commands, job_options(args))
    if args.scheduler == "slurm" and len(commands) > MAX_ARRAY:
        print(
            f"rlzoo: {len(commands)} tasks are more than most clusters allow in an array (MaxArraySize);"
            " write them in parts, with --rows or --seeds",
            file=sys.stderr,
        )
    print(f"{len(commands)} tasks are in {path.parent / TASKS}")
    print(f"Next: {submit}")
    if is_study:
        print("When all tasks have ended: rlzoo optimize --report STUDY")
    else:
        packages = ["--gym-packages", *args.gym_packages] if args.gym_packages else []
        score = ["rlzoo", "benchmark", "score", str(args.folder), "--list", args.list, *packages]
        print(f"When all tasks have ended: {shlex.join(score)}")
    return 0


def job_options(args: argparse.Namespace) -> JobOptions:
    """Build the options of the job from the flags."""
    setup = [*args.setup]
    if trusted := os.environ.get("RLZOO_TRUST"):
        setup.append(f"export RLZOO_TRUST={shlex.quote(trusted)}")
    return JobOptions(
        name=re.sub(r"[^A-Za-z0-9_-]+", "-", Path(args.list).stem).strip("-") or "rlzoo",
        working_folder=Path.cwd(),
        command=shlex.join(["rlzoo", *sys.argv[1:]]),
        time=args.time,
        grace=args.grace if args.scheduler != "shell" else min(args.grace, args.time - 1),
        cpus=args.cpus,
        gpus=args.gpus,
        memory=args.memory or "",
        partition=args.partition or "",
        account=args.account or "",
        parallel=args.parallel,
        directives=tuple(args.directive),
        setup=tuple(setup),
    )


def list_commands(place: Path, args: argparse.Namespace) -> list[list[str]]:
    """Return the command of each row and seed of a list.

    :raises UserError: the list, or a training in it, is wrong
    """
    from rlzoo.benchmark.run_list import Options, Training

    options = Options(
        num_threads=args.num_threads,
        n_evaluations=args.n_evaluations,
        eval_episodes=args.eval_episodes,
        gym_packages=tuple(args.gym_packages),
        resume=True,
    )
    same = ["-f", str(args.folder), "--n-jobs", "1", "--resume"]
    for key in ("num_threads", "n_evaluations", "eval_episodes"):
        same += [f"--{key.replace('_', '-')}", str(getattr(args, key))]
    if args.gym_packages:
        same += ["--gym-packages", *args.gym_packages]
    commands = []
    for row in choose(read_list(place), args.rows):
        for seed in dict.fromkeys(args.seeds or row.seeds):
            training = Training(row, seed)
            try:
                training.check(args.folder, options)
            except NotInstalled as error:  # the nodes may have it
                print(f"rlzoo: {training}: {error}", file=sys.stderr)
            except UserError as error:
                raise UserError(f"{training}: {error}") from error
            chosen = ["--rows", ":".join(row.key), "--seeds", str(seed)]
            commands.append(["benchmark", "run", str(place.absolute()), *chosen, *same])
    return commands


def _argument(parse: Callable[[str], object]) -> Callable[[str], object]:
    """Return a parser of texts as argparse calls it."""

    def parsed(text: str) -> object:
        try:
            return parse(text)
        except UserError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed

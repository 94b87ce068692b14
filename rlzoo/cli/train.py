"""`rlzoo train`: train an agent with tuned or custom hyperparameters."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from functools import partial
from typing import Any

from rlzoo.cli.flags.parser import FlagGroup, IntInRange, Parser, non_default_args, warn_ignored_flags
from rlzoo.cli.flags.training_flags import (
    add_output_args,
    add_run_output_args,
    add_runtime_args,
    add_tracking_args,
    add_training_args,
    run_config,
)
from rlzoo.cli.main import quick_imports
from rlzoo.config.run import CHANGED_BY_RESUME, RunConfig
from rlzoo.core.errors import UserError

EPILOG = """\
examples:
  rlzoo train --algo ppo --env CartPole-v1
  rlzoo train --algo a2c --env Pendulum-v1 -n 100000 --seed 1 -P
  rlzoo train --algo ppo --env CartPole-v1 \\
      -params n_steps:64 policy_kwargs:"dict(net_arch=[64])"
  rlzoo train --algo ppo --env CartPole-v1 --eval-freq 10000 --save-freq 50000
  rlzoo train --algo ppo --env MyEnv-v0 --gym-packages my_package \\
      -conf my_hyperparams.yml
  rlzoo train --algo bc --env CartPole-v1 --expert cartpole.npz
  rlzoo train --resume logs/ppo/CartPole-v1_1
"""


def build_parser(parser: Parser) -> None:
    parser.epilog = EPILOG
    what = add_training_args(parser)
    what.add_argument(
        "-i", "--trained-agent", default="", metavar="ZIP", help="initialise from this model file"
    )
    what.add_argument(
        "--resume",
        default="",
        metavar="RUN_FOLDER",
        help="continue this run in its folder from its last checkpoint",
    )
    how = add_runtime_args(parser, one_run=True)
    how.add_argument(
        "-P",
        "--progress",
        action="store_true",
        help="show a progress bar instead of log tables (both: --verbose 2)",
    )
    how.add_argument(
        "--n-procs",
        type=IntInRange(1),
        default=1,
        metavar="N",
        help="processes that train one agent together, each in n_envs / N of the environments (default: 1)",
    )
    search = parser.add_argument_group(
        "search", "-optimize and --trial-id K take the search flags of `rlzoo optimize --help`"
    )
    parser.defer(partial(_add_search_flags, search))
    add_run_output_args(add_output_args(parser))
    add_tracking_args(parser)


def _add_search_flags(group: FlagGroup, parser: Parser) -> None:
    from rlzoo.cli.flags.search_flags import add_hidden_search_flags

    add_hidden_search_flags(group, parser)


def run(args: argparse.Namespace) -> int:
    has_search_flags = hasattr(args, "optimize_hyperparameters") and not args.resume
    if has_search_flags and args.optimize_hyperparameters:
        return _optimize(args)
    if has_search_flags and args.seeds:
        from rlzoo.cli.benchmark.train_seeds import train_all

        return train_all(args, runs_of(args))
    if args.n_procs > 1 or "WORLD_SIZE" in os.environ:  # torchrun sets it
        from rlzoo.cli.train_ranks import several_processes, train_in_ranks

        if several_processes(args.n_procs):
            changes = changes_by_resume(args) if args.resume else None
            return train_in_ranks(args, [] if args.resume else runs_of(args), changes)
    if args.resume:
        return _resume(args)
    runs = runs_of(args)

    with quick_imports():
        from rlzoo.experiment.training_run import check, train
    for config in runs[1:]:  # a mistake in the last must not wait until the first are trained
        check(config)
    command = shlex.join(["rlzoo", *sys.argv[1:]])
    for config in runs:
        if train(config, command).interrupted:
            break
    return 0


def runs_of(args: argparse.Namespace) -> list[RunConfig]:
    """Return the run of each environment, and warn about flags that have no effect."""
    env_ids = args.env or ["CartPole-v1"]
    if not hasattr(args, "trial_id"):  # no flag of a search was given
        return [run_config(args, env_id) for env_id in env_ids]
    from rlzoo.cli.flags import search_flags

    parser = _parser()
    warn_ignored_flags(parser, args, search_flags.unused_keys(args), "without -optimize")
    if args.trial_id is None:
        warn_ignored_flags(parser, args, ("study_name", "storage"), "without -optimize or --trial-id")
        return [run_config(args, env_id) for env_id in env_ids]
    from rlzoo.tuning.study.study import run_of_trial

    return [run_of_trial(search_flags.tune_config(args, env_id), args.trial_id) for env_id in env_ids]


def _parser() -> Parser:
    parser = Parser("rlzoo train", "")
    build_parser(parser)
    return parser


def _optimize(args: argparse.Namespace) -> int:
    """Search as `rlzoo optimize` does, without the flags that save or log a single run."""
    from rlzoo.cli.flags.search_flags import TRAIN_ONLY_FLAGS
    from rlzoo.cli.optimize import search_all

    for key in ("trained_agent", "trial_id", "seeds"):
        if getattr(args, key) not in ("", None, []):
            raise UserError(f"--{key.replace('_', '-')} is for one agent and cannot be given with -optimize")
    parser = _parser()
    warn_ignored_flags(parser, args, TRAIN_ONLY_FLAGS, "in a search")
    for key in TRAIN_ONLY_FLAGS:
        setattr(args, key, parser.get_default(key))
    search_all(args)
    return 0


def _resume(args: argparse.Namespace) -> int:
    from rlzoo.experiment.resumed_run import resume

    resume(args.resume, **changes_by_resume(args))
    return 0


def changes_by_resume(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that `--resume` changes.

    :raises UserError: a flag would change the results of the run
    """
    changes = {}
    for key, flag in non_default_args(_parser(), args).items():
        if key in ("resume", "n_procs"):
            continue
        if key not in CHANGED_BY_RESUME:
            raise UserError(f"{flag} cannot be changed by --resume, which continues a run as it was started")
        changes[key] = getattr(args, key)
    for key in ("gym_packages", "wandb_tags"):
        if key in changes:
            changes[key] = tuple(changes[key])
    return changes

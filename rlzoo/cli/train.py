"""`rlzoo train`: train an agent with the tuned hyperparameters, or with one's own."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

from rlzoo.cli.flags.parser import Parser, Whole, given, say_ignored
from rlzoo.cli.flags.search_flags import add_search_flags, add_study_flags, search_keys, tune_config
from rlzoo.cli.flags.training_flags import add_agent_to_train, add_how_to_run, add_what_to_keep, run_config
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import UserError

HELP = "train an agent"
CHANGED_BY_RESUME = (
    "n_timesteps",
    "device",
    "num_threads",
    "verbose",
    "progress",
    "log_interval",
    "gym_packages",
    "expert",
    "conf_file",
    "tensorboard_log",
    "track",
    "wandb_project_name",
    "wandb_entity",
    "wandb_group",
    "wandb_tags",
)
OF_ONE_RUN = (
    "uuid",
    "eval_freq",
    "save_freq",
    "save_replay_buffer",
    "truncate_last_trajectory",
    "tensorboard_log",
    "log_interval",
    "progress",
    "track",
    "wandb_project_name",
    "wandb_entity",
    "wandb_group",
    "wandb_tags",
)  # what saves, logs or shows a run: a search has no place for it
EPILOG = """\
examples:
  rlzoo train --algo ppo --env CartPole-v1
  rlzoo train --algo a2c --env Pendulum-v1 -n 100000 --seed 1 -P
  rlzoo train --algo ppo --env CartPole-v1 -params n_steps:64 policy_kwargs:"dict(net_arch=[64])"
  rlzoo train --algo ppo --env CartPole-v1 --eval-freq 10000 --save-freq 50000 -tb tensorboard/
  rlzoo train --algo ppo --env my_package:MyEnv-v0 --gym-packages my_package -conf my_hyperparams.yml
  rlzoo train --algo bc --env CartPole-v1 --expert cartpole.npz
  rlzoo train --resume logs/ppo/CartPole-v1_1
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    what = add_agent_to_train(parser)
    what.add_argument("-i", "--trained-agent", default="", metavar="ZIP", help="start from this agent")
    what.add_argument(
        "--resume",
        default="",
        metavar="RUN_FOLDER",
        help="continue this run in place from its newest checkpoint",
    )
    how = add_how_to_run(parser)
    how.add_argument("-P", "--progress", action="store_true", help="show a progress bar")
    add_study_flags(parser)
    search = parser.add_argument_group("searching instead (`rlzoo optimize --help`)")
    search.add_argument(
        "-optimize", "--optimize-hyperparameters", action="store_true", help="as `rlzoo optimize`"
    )
    add_search_flags(parser)
    keep = add_what_to_keep(parser)
    keep.add_argument(
        "-uuid", "--uuid", action="store_true", help="add a unique id to the name of the run folder"
    )
    keep.add_argument(
        "--eval-freq",
        type=int,
        default=25000,
        metavar="N",
        help="evaluate every N steps; 0 or less: never (default: 25000)",
    )
    keep.add_argument(
        "--save-freq",
        type=int,
        default=-1,
        metavar="N",
        help="save a checkpoint every N steps; 0 or less: never (default: never)",
    )
    keep.add_argument(
        "--save-replay-buffer",
        action="store_true",
        help="save the replay buffer with each checkpoint and at the end, where there is one",
    )
    keep.add_argument(
        "--truncate-last-trajectory",
        type=_boolean,
        default=True,
        metavar="BOOL",
        help="end the last trajectories of a reloaded replay buffer at once; otherwise they end when the new"
        " environments begin theirs (default: true)",
    )
    keep.add_argument(
        "-tb", "--tensorboard-log", default="", metavar="DIR", help="write TensorBoard files here"
    )
    keep.add_argument(
        "--log-interval",
        type=Whole(1, special=(-2, -1)),
        default=-1,
        metavar="N",
        help="log every N iterations (default: the algorithm's; -2: never)",
    )

    track = parser.add_argument_group("Weights and Biases (`pip install rlzoo[wandb]`)")
    track.add_argument("--track", action="store_true", help="track the run")
    track.add_argument(
        "--wandb-project-name", default="rlzoo", metavar="NAME", help="project (default: rlzoo)"
    )
    track.add_argument("--wandb-entity", default=None, metavar="NAME", help="entity (team)")
    track.add_argument("--wandb-group", default=None, metavar="NAME", help="group")
    track.add_argument("-tags", "--wandb-tags", nargs="+", default=[], metavar="TAG", help="tags")


def run(args: argparse.Namespace) -> int:
    if args.resume:
        return _resume(args)
    if args.optimize_hyperparameters:
        return _optimize(args)
    runs = runs_of(args)

    from rlzoo.experiment.training_run import check, train

    for config in runs[1:]:  # a mistake in the last must not wait until the first are trained
        check(config)
    command = shlex.join(["rlzoo", *sys.argv[1:]])
    for config in runs:
        if train(config, command).interrupted:
            break
    return 0


def runs_of(args: argparse.Namespace) -> list[RunConfig]:
    """Return the runs that the flags describe, one for each environment, and say which flags do nothing."""
    env_ids = args.env or ["CartPole-v1"]
    say_ignored(_parser(), args, search_keys(), "without -optimize")
    if args.trial_id is None:
        say_ignored(_parser(), args, ("study_name", "storage"), "without -optimize or --trial-id")
    if args.trial_id is None:
        return [run_config(args, env_id) for env_id in env_ids]
    from rlzoo.tuning.study.study import run_of_trial

    return [run_of_trial(tune_config(args, env_id), args.trial_id) for env_id in env_ids]


def _parser() -> Parser:
    parser = Parser("rlzoo train", HELP)
    build_parser(parser)
    return parser


def _optimize(args: argparse.Namespace) -> int:
    """`rlzoo train -optimize`: what saves or logs a single run does nothing there."""
    from rlzoo.cli.optimize import search_all

    for key in ("trained_agent", "trial_id"):
        if getattr(args, key) not in ("", None):
            raise UserError(f"--{key.replace('_', '-')} is for one agent and cannot be given with -optimize")
    parser = _parser()
    say_ignored(parser, args, OF_ONE_RUN, "in a search")
    for key in OF_ONE_RUN:
        setattr(args, key, parser.get_default(key))
    search_all(args)
    return 0


def _resume(args: argparse.Namespace) -> int:
    from rlzoo.experiment.training_run import resume

    resume(args.resume, **changes_by_resume(args))
    return 0


def changes_by_resume(args: argparse.Namespace) -> dict[str, Any]:
    """Return what changes about a run that is continued.

    :raises UserError: it would change its course
    """
    changes = {}
    for key, flag in given(_parser(), args).items():
        if key not in (*CHANGED_BY_RESUME, "resume"):
            raise UserError(f"{flag} cannot be changed by --resume, which continues a run as it was started")
        changes[key] = getattr(args, key)
    del changes["resume"]
    for key in ("gym_packages", "wandb_tags"):
        if key in changes:
            changes[key] = tuple(changes[key])
    return changes


def _boolean(text: str) -> bool:
    try:
        return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
    except KeyError:
        raise argparse.ArgumentTypeError(f"expected true or false, not {text!r}") from None

"""`rlzoo train`: train an agent with the tuned hyperparameters, or with one's own."""

from __future__ import annotations

import argparse
import shlex
import sys

from rlzoo.cli.parser import SEED, OneOf, Parser, Whole
from rlzoo.config import catalog
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
)
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
    what = parser.add_argument_group("what to train")
    what.add_argument(
        "--algo",
        type=OneOf("algorithm", catalog.names()),
        metavar="ALGO",
        help="algorithm (default: ppo; `rlzoo list algos`)",
    )
    what.add_argument(
        "--env",
        nargs="+",
        metavar="ENV",
        help="environment id; several train one after the other (default: CartPole-v1)",
    )
    what.add_argument(
        "-n",
        "--n-timesteps",
        type=Whole(1, special=(-1,)),
        default=-1,
        metavar="N",
        help="number of environment steps (default: from the hyperparameters)",
    )
    what.add_argument("-i", "--trained-agent", default="", metavar="ZIP", help="start from this agent")
    what.add_argument(
        "--expert",
        default="",
        metavar="FILE",
        help="demonstrations for bc and gail to learn from (`rlzoo record-expert` makes them)",
    )
    what.add_argument(
        "--resume",
        default="",
        metavar="RUN_FOLDER",
        help="continue this run in place from its newest checkpoint",
    )
    what.add_argument("--seed", type=SEED, default=-1, help="seed of the run (default: a random one)")
    what.add_argument(
        "--gym-packages",
        nargs="+",
        default=[],
        metavar="MODULE",
        help="modules to import first: they register environments",
    )
    what.add_argument(
        "--env-kwargs", nargs="+", default=[], metavar="KEY:VALUE", help="arguments of the environment"
    )
    what.add_argument(
        "--eval-env-kwargs",
        nargs="+",
        default=[],
        metavar="KEY:VALUE",
        help="further arguments of the evaluation environment",
    )
    what.add_argument(
        "-params",
        "--hyperparams",
        nargs="+",
        default=[],
        metavar="KEY:VALUE",
        help="override hyperparameters, e.g. learning_rate:0.01 policy_kwargs.net_arch:[64,64]",
    )
    what.add_argument(
        "-conf",
        "--conf-file",
        default=None,
        metavar="FILE",
        help="hyperparameters from this YAML or Python file instead of the shipped ones",
    )

    how = parser.add_argument_group("how to run it")
    how.add_argument(
        "--vec-env",
        type=OneOf("vectorisation", ("auto", "dummy", "subproc", "native", "envpool")),
        default="auto",
        metavar="KIND",
        help="auto, dummy, subproc, native or envpool (default: auto, the fastest that is the same)",
    )
    how.add_argument(
        "--device", default="auto", help="PyTorch device: auto, cpu, cuda, cuda:1 (default: auto)"
    )
    how.add_argument(
        "--num-threads",
        type=Whole(1, special=(-1,)),
        default=-1,
        metavar="N",
        help="PyTorch threads (default: 1, and all cores for images and large replayed batches)",
    )
    how.add_argument(
        "--verbose",
        type=int,
        choices=(0, 1, 2),
        default=1,
        help="0: errors only, 1: progress, 2: more (default: 1)",
    )
    how.add_argument("-P", "--progress", action="store_true", help="show a progress bar")

    keep = parser.add_argument_group("what to keep")
    keep.add_argument(
        "-f", "--log-folder", default="logs", metavar="DIR", help="where runs are kept (default: logs)"
    )
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
        "--eval-episodes",
        type=Whole(1),
        default=5,
        metavar="N",
        help="episodes of one evaluation (default: 5)",
    )
    keep.add_argument(
        "--n-eval-envs",
        type=Whole(1),
        default=1,
        metavar="N",
        help="environments to evaluate in (default: 1)",
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
    from rlzoo.config.literals import parse_overrides
    from rlzoo.config.run import RunConfig

    if args.resume:
        return _resume(args)
    values = vars(args) | {
        key: parse_overrides(getattr(args, key)) for key in ("hyperparams", "env_kwargs", "eval_env_kwargs")
    }
    for key in ("gym_packages", "wandb_tags"):
        values[key] = tuple(values[key])
    env_ids = values.pop("env") or ["CartPole-v1"]
    values["algo"] = args.algo or "ppo"
    del values["resume"]
    runs = [RunConfig(env_id=env_id, **values) for env_id in env_ids]

    from rlzoo.experiment.train import check, train

    for config in runs[1:]:  # a mistake in the last must not wait until the first are trained
        check(config)
    command = shlex.join(["rlzoo", *sys.argv[1:]])
    for config in runs:
        if train(config, command).interrupted:
            break
    return 0


def _resume(args: argparse.Namespace) -> int:
    """The run's own arguments hold; only what does not change its course can be said anew."""
    parser = Parser("rlzoo train", HELP)
    build_parser(parser)
    defaults = vars(parser.parse_args([]))
    given = {key: value for key, value in vars(args).items() if value != defaults[key] and key != "resume"}
    for key in given:
        if key not in CHANGED_BY_RESUME:
            flag = f"--{key.replace('_', '-')}"
            raise UserError(f"{flag} cannot be changed by --resume, which continues a run as it was started")
    if "gym_packages" in given:
        given["gym_packages"] = tuple(given["gym_packages"])

    from rlzoo.experiment.train import resume

    resume(args.resume, **given)
    return 0


def _boolean(text: str) -> bool:
    try:
        return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
    except KeyError:
        raise argparse.ArgumentTypeError(f"expected true or false, not {text!r}") from None

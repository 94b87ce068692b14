"""Flags of commands that train: `train`, and `optimize`."""

from __future__ import annotations

import argparse
import sys

from rlzoo.cli.flags.parser import SEED, Choice, FlagGroup, IntInRange, boolean
from rlzoo.config import catalog
from rlzoo.config.run import PRECISIONS, RunConfig

MAX_SEEDS = 10_000  # of one range


def add_training_args(parser: argparse.ArgumentParser) -> FlagGroup:
    """Add algorithm, environment and hyperparameters."""
    what = parser.add_argument_group("training")
    what.add_argument(
        "--algo",
        type=Choice("algorithm", catalog.names()),
        metavar="ALGO",
        help="algorithm (default: ppo; `rlzoo list algos`)",
    )
    what.add_argument(
        "--env",
        nargs="+",
        metavar="ENV",
        help="environment id; several are trained one after the other (default: CartPole-v1)",
    )
    what.add_argument(
        "-n",
        "--n-timesteps",
        type=IntInRange(1, special=(-1,)),
        default=-1,
        metavar="N",
        help="environment steps (default: n_timesteps of the hyperparameters)",
    )
    what.add_argument(
        "--expert",
        default="",
        metavar="FILE",
        help="demonstrations for bc and gail (see `rlzoo record-expert`)",
    )
    what.add_argument(
        "--seed", type=SEED, default=-1, metavar="N", help="random seed (default: a random one)"
    )
    what.add_argument(
        "--gym-packages",
        nargs="+",
        default=[],
        metavar="MODULE",
        help="modules that register environments; imported first",
    )
    what.add_argument(
        "--env-kwargs",
        nargs="+",
        default=[],
        metavar="KEY:VALUE",
        help="keyword arguments of the environment",
    )
    what.add_argument(
        "--eval-env-kwargs",
        nargs="+",
        default=[],
        metavar="KEY:VALUE",
        help="further keyword arguments of the evaluation environments",
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
        help="YAML or Python file of hyperparameters instead of the shipped ones",
    )
    return what


def add_runtime_args(parser: argparse.ArgumentParser, one_run: bool = False) -> FlagGroup:
    """Add flags that do not change what is learned, except for rounding.

    :param one_run: the command trains one agent at a time, whose gradient steps can be accelerated
    """
    how = parser.add_argument_group("runtime")
    how.add_argument(
        "--vec-env",
        type=Choice("vectorisation", ("auto", "dummy", "subproc", "native", "envpool")),
        default="auto",
        metavar="KIND",
        help="auto, dummy, subproc, native or envpool (default: auto: the fastest backend that gives"
        " identical environments)",
    )
    how.add_argument(
        "--device",
        default="auto",
        metavar="NAME",
        help="PyTorch device: auto, cpu, cuda, cuda:1 (default: auto)",
    )
    how.add_argument(
        "--num-threads",
        type=IntInRange(1, special=(-1,)),
        default=-1,
        metavar="N",
        help="PyTorch threads (default: 1, and with images or wide networks as many as are fastest, which"
        " can change the last bits of results)",
    )
    how.add_argument(
        "--verbose",
        type=int,
        choices=(0, 1, 2),
        default=1,
        help="0: errors only, 1: progress, 2: more (default: 1)",
    )
    if one_run:
        add_acceleration_args(how)
    return how


def add_acceleration_args(how: FlagGroup) -> None:
    """Add what makes gradient steps faster on some machines."""
    how.add_argument(
        "--matmul-precision",
        type=Choice("precision", PRECISIONS),
        default=None,
        metavar="P",
        help="precision of matrix products: highest, high (TF32; on a CPU gradients in bfloat16) or medium"
        " (bfloat16) (default: from the hyperparameters, else highest)",
    )
    how.add_argument(
        "--cuda-graphs",
        type=Choice("choice", ("off", "auto", "on")),
        default="auto",
        metavar="WHEN",
        help="capture gradient steps as CUDA graphs: off, on, or auto, but no custom code (default: auto)",
    )
    how.add_argument(
        "--compile",
        action="store_true",
        help="compile gradient steps with torch.compile: faster after 10 to 50 seconds",
    )


def add_output_args(parser: argparse.ArgumentParser) -> FlagGroup:
    """Add the log folder and the evaluations."""
    keep = parser.add_argument_group("output")
    keep.add_argument(
        "-f", "--log-folder", default="logs", metavar="DIR", help="folder of the runs (default: logs)"
    )
    keep.add_argument(
        "--eval-episodes",
        type=IntInRange(1),
        default=5,
        metavar="N",
        help="episodes per evaluation (default: 5)",
    )
    keep.add_argument(
        "--n-eval-envs",
        type=IntInRange(1),
        default=1,
        metavar="N",
        help="parallel evaluation environments (default: 1)",
    )
    return keep


def add_run_output_args(keep: FlagGroup) -> None:
    """Add what a single run evaluates, saves and logs."""
    keep.add_argument(
        "-uuid", "--uuid", action="store_true", help="append a unique id to the name of the run folder"
    )
    keep.add_argument(
        "--eval-freq",
        type=int,
        default=25000,
        metavar="N",
        help="evaluate every N steps; 0: never (default: 25000)",
    )
    keep.add_argument(
        "--save-freq",
        type=int,
        default=-1,
        metavar="N",
        help="save a checkpoint every N steps (default: never)",
    )
    keep.add_argument(
        "--save-replay-buffer",
        action="store_true",
        help="save the replay buffer with each checkpoint and at the end",
    )
    keep.add_argument(
        "--truncate-last-trajectory",
        type=boolean,
        default=True,
        metavar="BOOL",
        help="treat the unfinished episodes of a reloaded replay buffer as truncated (default: true)",
    )
    keep.add_argument(
        "-tb", "--tensorboard-log", default="", metavar="DIR", help="write TensorBoard logs to this folder"
    )
    keep.add_argument(
        "--log-interval",
        type=IntInRange(1, special=(-2, -1)),
        default=-1,
        metavar="N",
        help="log every N iterations, or episodes of DQN, SAC, ...; -2: never (default: 1 to 100, by"
        " algorithm)",
    )


def add_tracking_args(parser: argparse.ArgumentParser) -> None:
    """Add the flags of Weights & Biases."""
    track = parser.add_argument_group("Weights & Biases (needs the extra `wandb`)")
    track.add_argument("--track", action="store_true", help="track the run")
    track.add_argument(
        "--wandb-project-name", default="rlzoo", metavar="NAME", help="project (default: rlzoo)"
    )
    track.add_argument("--wandb-entity", default=None, metavar="NAME", help="entity (team)")
    track.add_argument("--wandb-group", default=None, metavar="NAME", help="group")
    track.add_argument("-tags", "--wandb-tags", nargs="+", default=[], metavar="TAG", help="tags")


def seed_range(text: str) -> range:
    """Return the seeds of one argument of `--seeds`.

    >>> list(seed_range("0-3"))
    [0, 1, 2, 3]
    """
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise argparse.ArgumentTypeError(f"expected a seed or a range of seeds such as 0-9, not {text!r}")
    seeds = range(int(first), int(last or first) + 1)
    if not 0 < len(seeds) <= MAX_SEEDS or seeds[-1] >= 2**32:
        raise argparse.ArgumentTypeError(f"expected up to {MAX_SEEDS:,} seeds below 2^32, not {text!r}")
    return seeds


def run_config(args: argparse.Namespace, env_id: str) -> RunConfig:
    """Build the configuration of a run from the flags that a command has."""
    from rlzoo.config.hyperparams import shipped_path
    from rlzoo.config.values_as_text import overrides_of

    values = {name: value for name, value in vars(args).items() if name in RunConfig.__dataclass_fields__}
    for key in ("hyperparams", "env_kwargs", "eval_env_kwargs"):
        values[key] = overrides_of(values[key])
    for key in ("trained_agent", "expert"):
        if values.get(key):
            values[key] = str(shipped_path(values[key]))
    for key in ("gym_packages", "wandb_tags"):
        values[key] = tuple(values.get(key, ()))
    of_wandb = {"wandb_project_name": "rlzoo", "wandb_entity": None, "wandb_group": None, "wandb_tags": ()}
    unused = [key for key, default in of_wandb.items() if values.get(key, default) != default]
    if unused and not values.get("track"):
        flags = ", ".join(f"--{key.replace('_', '-')}" for key in unused)
        print(f"rlzoo: without --track no effect: {flags}", file=sys.stderr)
    return RunConfig(**{**values, "env_id": env_id, "algo": args.algo or "ppo"})

"""The flags of commands that train: one agent, or the many of a search."""

from __future__ import annotations

import argparse

from rlzoo.cli.flags.parser import SEED, OneOf, Whole
from rlzoo.config import catalog
from rlzoo.config.literals import overrides_of
from rlzoo.config.run import RunConfig
from rlzoo.config.shipped import shipped_path


def add_agent_to_train(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add what is trained: algorithm, environment, hyperparameters."""
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
    what.add_argument(
        "--expert",
        default="",
        metavar="FILE",
        help="demonstrations for bc and gail to learn from (`rlzoo record-expert` makes them)",
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
    return what


def add_how_to_run(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add what does not change what is learned, rounding apart."""
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
        help="PyTorch threads (default: 1, and for images and wide networks as many as are fastest at the"
        " time, which can change the last bits of results)",
    )
    how.add_argument(
        "--verbose",
        type=int,
        choices=(0, 1, 2),
        default=1,
        help="0: errors only, 1: progress, 2: more (default: 1)",
    )
    return how


def add_what_to_keep(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add where it is kept and how it is evaluated."""
    keep = parser.add_argument_group("what to keep")
    keep.add_argument(
        "-f", "--log-folder", default="logs", metavar="DIR", help="where runs are kept (default: logs)"
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
    return keep


def run_config(args: argparse.Namespace, env_id: str) -> RunConfig:
    """The run that the flags of `rlzoo train` describe, or those of them that a command has."""
    values = {name: value for name, value in vars(args).items() if name in RunConfig.__dataclass_fields__}
    for key in ("hyperparams", "env_kwargs", "eval_env_kwargs"):
        values[key] = overrides_of(values[key])
    for key in ("trained_agent", "expert"):
        if values.get(key):
            values[key] = str(shipped_path(values[key]))
    for key in ("gym_packages", "wandb_tags"):
        values[key] = tuple(values.get(key, ()))
    return RunConfig(**{**values, "env_id": env_id, "algo": args.algo or "ppo"})

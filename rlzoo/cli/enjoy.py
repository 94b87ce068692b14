"""`rlzoo enjoy`: play an agent and say how well it does."""

from __future__ import annotations

import argparse

from rlzoo.cli.agent_flags import add_agent_flags
from rlzoo.cli.parser import Whole

HELP = "watch a trained agent play and report its scores"
EPILOG = """\
examples:
  rlzoo enjoy --algo ppo --env CartPole-v1
  rlzoo enjoy --algo ppo --env CartPole-v1 --no-render --n-episodes 100
  rlzoo enjoy --algo a2c --env Pendulum-v1 --exp-id 2 --load-best -n 5000
  rlzoo enjoy --algo ppo --env CartPole-v1 --load-checkpoint 50000
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_agent_flags(parser, "play")
    how = parser.add_argument_group("how to play")
    how.add_argument(
        "-n",
        "--n-timesteps",
        type=Whole(1),
        default=None,
        metavar="N",
        help="steps per environment (default: 1000, unless --n-episodes)",
    )
    how.add_argument(
        "--n-episodes", type=Whole(1), default=None, metavar="N", help="play this many whole episodes instead"
    )
    how.add_argument(
        "--n-envs", type=Whole(1), default=1, metavar="N", help="environments side by side (default: 1)"
    )
    how.add_argument(
        "--seed", type=Whole(0, 2**32 - 1), default=0, help="seed of the environments (default: 0)"
    )
    mode = how.add_mutually_exclusive_group()
    mode.add_argument(
        "--deterministic",
        action="store_true",
        help="the most likely action (the default, except in Atari games)",
    )
    mode.add_argument("--stochastic", action="store_true", help="sampled actions")
    how.add_argument("--no-render", action="store_true", help="open no window")
    how.add_argument(
        "--norm-reward", action="store_true", help="report normalised rewards, where training normalised them"
    )
    how.add_argument(
        "--reward-log",
        default="",
        metavar="DIR",
        help="write the episodes' returns and lengths here, as monitor files",
    )
    how.add_argument(
        "--env-kwargs", nargs="+", default=[], metavar="KEY:VALUE", help="arguments of the environment"
    )
    how.add_argument(
        "--gym-packages",
        nargs="+",
        default=[],
        metavar="MODULE",
        help="modules to import first: they register environments",
    )
    how.add_argument("--device", default="auto", help="PyTorch device (default: auto)")
    how.add_argument(
        "--num-threads",
        type=Whole(1, special=(-1,)),
        default=-1,
        metavar="N",
        help="PyTorch threads (default: 1, and all cores for images)",
    )
    how.add_argument(
        "--verbose",
        type=int,
        choices=(0, 1, 2),
        default=1,
        help="0: only the result, 1: every episode (default: 1)",
    )
    how.add_argument("-P", "--progress", action="store_true", help="show a progress bar")


def run(args: argparse.Namespace) -> int:
    from rlzoo.config.literals import parse_overrides
    from rlzoo.config.run import PlayConfig

    values = vars(args) | {
        "env_kwargs": parse_overrides(args.env_kwargs),
        "gym_packages": tuple(args.gym_packages),
    }
    config = PlayConfig(env_id=values.pop("env"), **values)

    from rlzoo.experiment.play import play

    play(config)
    return 0

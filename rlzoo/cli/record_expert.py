"""`rlzoo record-expert`: record episodes of a trained agent for others to learn from."""

from __future__ import annotations

import argparse

from rlzoo.cli.parser import OneOf, Whole
from rlzoo.config import catalog

HELP = "record a trained agent as demonstrations for bc and gail"
EPILOG = """\
examples:
  rlzoo record-expert --algo ppo --env CartPole-v1 -n 25 -o cartpole.npz
  rlzoo record-expert --algo sac --env Pendulum-v1 --exp-id 2 --load-best -n 10 -o pendulum.npz
  rlzoo train --algo bc --env CartPole-v1 --expert cartpole.npz
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    which = parser.add_argument_group("which agent")
    which.add_argument(
        "--algo",
        type=OneOf("algorithm", catalog.names()),
        default="ppo",
        metavar="ALGO",
        help="algorithm (default: ppo)",
    )
    which.add_argument(
        "--env", default="CartPole-v1", metavar="ENV", help="environment id (default: CartPole-v1)"
    )
    which.add_argument(
        "-f",
        "--folder",
        default="logs",
        metavar="DIR",
        help="where runs are kept (default: logs, then the shipped agents)",
    )
    which.add_argument(
        "--exp-id",
        type=Whole(0, special=(-1,)),
        default=0,
        metavar="N",
        help="number of the run; 0: the newest, -1: the folder itself (default: 0)",
    )
    kind = which.add_mutually_exclusive_group()
    kind.add_argument("--load-best", action="store_true", help="record the best model of the evaluations")
    kind.add_argument(
        "--load-checkpoint",
        type=Whole(0),
        default=None,
        metavar="STEPS",
        help="record the checkpoint of this many steps",
    )
    kind.add_argument("--load-last-checkpoint", action="store_true", help="record the newest checkpoint")

    how = parser.add_argument_group("how to record")
    how.add_argument(
        "-n",
        "--n-episodes",
        type=Whole(1),
        default=100,
        metavar="EPISODES",
        help="whole episodes to record (default: 100)",
    )
    how.add_argument("-o", "--output", required=True, metavar="FILE", help="the .npz file to write")
    how.add_argument(
        "--image-folder",
        default="recorded_images",
        metavar="DIR",
        help="where images go, beside the file (default: recorded_images)",
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


def run(args: argparse.Namespace) -> int:
    from rlzoo.config.literals import parse_overrides
    from rlzoo.config.run import PlayConfig

    values = vars(args) | {
        "env_kwargs": parse_overrides(args.env_kwargs),
        "gym_packages": tuple(args.gym_packages),
    }
    output, image_folder = values.pop("output"), values.pop("image_folder")
    config = PlayConfig(env_id=values.pop("env"), **values)

    from rlzoo.experiment.record_expert import record_expert

    record_expert(config, output, image_folder)
    return 0

"""`rlzoo record-expert`: record episodes of a trained agent for others to learn from."""

from __future__ import annotations

import argparse

from rlzoo.cli.agent_flags import add_agent_flags
from rlzoo.cli.parser import Whole

HELP = "record a trained agent as demonstrations for bc and gail"
EPILOG = """\
examples:
  rlzoo record-expert --algo ppo --env CartPole-v1 -n 25 -o cartpole.npz
  rlzoo record-expert --algo sac --env Pendulum-v1 --exp-id 2 --load-best -n 10 -o pendulum.npz
  rlzoo train --algo bc --env CartPole-v1 --expert cartpole.npz
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_agent_flags(parser, "record")
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

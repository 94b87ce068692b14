"""`rlzoo enjoy`: watch a trained agent and print its returns."""

from __future__ import annotations

import argparse

from rlzoo.cli.flags.agent_flags import add_agent_flags, add_playing_flags, play_config
from rlzoo.cli.flags.parser import IntInRange

EPILOG = """\
examples:
  rlzoo enjoy --algo ppo --env CartPole-v1
  rlzoo enjoy --algo ppo --env CartPole-v1 --no-render --n-episodes 100
  rlzoo enjoy --algo a2c --env Pendulum-v1 --exp-id 2 --load-best -n 5000
  rlzoo enjoy --algo ppo --env CartPole-v1 --load-checkpoint 50000
  rlzoo enjoy -i ppo-CartPole-v1.zip
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_agent_flags(parser, "play")
    how = parser.add_argument_group("evaluation")
    how.add_argument(
        "-n",
        "--n-timesteps",
        type=IntInRange(1),
        default=None,
        metavar="N",
        help="steps per environment (default: 1000, unless --n-episodes is given)",
    )
    how.add_argument(
        "--n-episodes",
        type=IntInRange(1),
        default=None,
        metavar="N",
        help="play this many episodes instead",
    )
    add_playing_flags(how)
    how.add_argument("--no-render", action="store_true", help="open no window")
    how.add_argument(
        "--norm-reward", action="store_true", help="print normalised rewards, if training normalised them"
    )
    how.add_argument(
        "--reward-log",
        default="",
        metavar="DIR",
        help="write monitor files (return and length of each episode) to this folder",
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
    config = play_config(vars(args))

    from rlzoo.playback.play import play

    play(config)
    return 0

"""`rlzoo record-expert`: record demonstrations of a trained agent for imitation learning."""

from __future__ import annotations

import argparse

from rlzoo.cli.flags.agent_flags import add_agent_flags, add_playing_flags, play_config
from rlzoo.cli.flags.parser import IntInRange

EPILOG = """\
examples:
  rlzoo record-expert --algo ppo --env CartPole-v1 -n 25 -o cartpole.npz
  rlzoo record-expert --algo sac --env Pendulum-v1 -n 10 -o expert.npz
  rlzoo train --algo bc --env CartPole-v1 --expert cartpole.npz
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_agent_flags(parser, "record")
    how = parser.add_argument_group("recording")
    how.add_argument(
        "-n",
        "--n-episodes",
        type=IntInRange(1),
        default=100,
        metavar="EPISODES",
        help="episodes to record (default: 100)",
    )
    how.add_argument("-o", "--output", required=True, metavar="FILE", help=".npz file to write")
    how.add_argument(
        "--image-folder",
        default="recorded_images",
        metavar="DIR",
        help="folder for image observations, next to the file (default: recorded_images)",
    )
    add_playing_flags(how)


def run(args: argparse.Namespace) -> int:
    values = dict(vars(args))
    output, image_folder = values.pop("output"), values.pop("image_folder")
    config = play_config(values)

    from rlzoo.playback.expert_recording import record_expert

    record_expert(config, output, image_folder)
    return 0

"""`rlzoo record-training`: one video of all checkpoints of a run, its best and its final agent."""

from __future__ import annotations

import argparse

from rlzoo.cli.flags.agent_flags import add_run_flags
from rlzoo.cli.record.record_video import add_length_flags, add_video_flags, video_config

EPILOG = """\
examples:
  rlzoo train --algo ppo --env CartPole-v1 --save-freq 20000
  rlzoo record-training --algo ppo --env CartPole-v1
  rlzoo record-training --algo ppo --env CartPole-v1 --exp-id 3 -n 200 --gif
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_run_flags(parser, "run")
    add_length_flags(parser)
    add_video_flags(parser)


def run(args: argparse.Namespace) -> int:
    config = video_config(args)

    from rlzoo.playback.video_recording import record_training

    record_training(config)
    return 0

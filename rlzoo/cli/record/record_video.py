"""`rlzoo record-video`: record a video of a trained agent."""

from __future__ import annotations

import argparse
import sys

from rlzoo.cli.flags.agent_flags import add_agent_flags, add_playing_flags, play_config
from rlzoo.cli.flags.parser import IntInRange, NotNeeded
from rlzoo.config.run import VideoConfig

LONG = 1000  # steps
EPILOG = """\
examples:
  rlzoo record-video --algo ppo --env CartPole-v1
  rlzoo record-video --algo ppo --env CartPole-v1 --episodes 3 -o pole.gif
  rlzoo record-video --algo trpo --env HalfCheetah-v5 -n 500 --n-envs 4
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_agent_flags(parser, "record")
    add_length_flags(parser)
    add_video_flags(parser)


def add_length_flags(parser: argparse.ArgumentParser) -> None:
    """Add the number of steps or episodes, and the environments."""
    how = parser.add_argument_group("evaluation")
    how.add_argument(
        "-n",
        "--n-timesteps",
        type=IntInRange(1),
        default=None,
        metavar="N",
        help="steps per environment (default: 1000, unless --episodes is given)",
    )
    how.add_argument(
        "--episodes",
        "--n-episodes",
        dest="n_episodes",
        type=IntInRange(1),
        default=None,
        metavar="N",
        help="record this many episodes instead; with -n, at most that many steps",
    )
    add_playing_flags(how)


def add_video_flags(parser: argparse.ArgumentParser) -> None:
    """Add the file and the format of the video."""
    video = parser.add_argument_group("output")
    video.add_argument(
        "-o",
        "--output",
        "--output-folder",
        dest="output",
        default="",
        metavar="PLACE",
        help="file (.mp4 or .gif) or folder (default: `videos` in the run folder)",
    )
    video.add_argument("-g", "--gif", action="store_true", help="write a GIF instead of an mp4 file")
    video.add_argument(
        "--fps",
        type=IntInRange(1, 1000),
        default=None,
        metavar="N",
        help="frames per second (default: those of the environment)",
    )
    video.add_argument(
        "--no-render",
        action=NotNeeded,
        reason="recording opens no window",
        help="no effect",
    )
    video.add_argument(
        "--no-label", action="store_true", help="no label with algorithm, environment and return"
    )
    video.add_argument(
        "-P",
        "--progress",
        action="store_true",
        help="show a progress bar (default for long videos in a terminal)",
    )


def video_config(args: argparse.Namespace) -> VideoConfig:
    """Build the configuration from the flags."""
    values = vars(args)
    of_video = {key: values.pop(key) for key in ("output", "gif", "fps")}
    label = not values.pop("no_label")
    is_long = (values["n_timesteps"] or 0) > LONG or (values["n_episodes"] or 0) > 1
    values["progress"] = values["progress"] or (is_long and sys.stderr.isatty())
    return VideoConfig(play=play_config(values), label=label, **of_video)


def run(args: argparse.Namespace) -> int:
    config = video_config(args)

    from rlzoo.playback.video_recording import record

    record(config)
    return 0

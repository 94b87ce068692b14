"""`rlzoo push`: upload a trained agent to the Hugging Face Hub."""

from __future__ import annotations

import argparse

from rlzoo.cli.flags.agent_flags import add_agent_flags, add_playing_flags, play_config
from rlzoo.cli.flags.parser import IntInRange
from rlzoo.cli.share.hub_flags import add_repository_flags, add_verbose_flag
from rlzoo.config.hub import PushConfig

EPILOG = """\
examples:
  rlzoo push --algo ppo --env CartPole-v1     # to the account of the token
  rlzoo push -orga my-lab --algo sac --env Hopper-v5 --load-best --private
  rlzoo push -orga my-lab --algo ppo --env Catch-v0 -name catch-agent --no-video

One commit contains the agent, config.yml, args.yml, command.txt, score.json,
replay.mp4 and a model card. Nothing is pickled; local paths and passwords are
removed. The token is that of huggingface_hub: `hf auth login`, or HF_TOKEN.
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_agent_flags(parser, "push")
    where = parser.add_argument_group("repository")
    add_repository_flags(where, "organization or user (default: the user of the token)")
    where.add_argument(
        "-m",
        "--commit-message",
        default="Upload an agent of rlzoo",
        metavar="MESSAGE",
        help="commit message",
    )
    where.add_argument("--private", action="store_true", help="make a new repository private")
    shown = parser.add_argument_group("score and video")
    shown.add_argument(
        "--n-eval-episodes",
        type=IntInRange(1),
        default=None,
        metavar="N",
        help="minimum episodes of the score (default: the stored score, else 100)",
    )
    shown.add_argument("--no-video", "--no-render", action="store_true", help="record no video")
    shown.add_argument(
        "-n",
        "--n-timesteps",
        type=IntInRange(1),
        default=None,
        metavar="N",
        help="steps of the video (default: 1000, unless --n-episodes is given)",
    )
    shown.add_argument(
        "--n-episodes",
        type=IntInRange(1),
        default=None,
        metavar="N",
        help="record this many episodes instead",
    )
    add_playing_flags(parser.add_argument_group("evaluation"))
    add_verbose_flag(parser, "URL only", "progress")


def run(args: argparse.Namespace) -> int:
    values = vars(args)
    names = ("organization", "repo_name", "commit_message", "private", "n_eval_episodes", "verbose")
    of_push = {name: values.pop(name) for name in names}
    video = not values.pop("no_video")
    config = PushConfig(play=play_config(values), video=video, **of_push)

    from rlzoo.hub.upload import push

    push(config)
    return 0

"""`rlzoo push`: upload a trained agent to the Hugging Face Hub."""

from __future__ import annotations

import argparse

from rlzoo.cli.flags.agent_flags import add_agent_flags, add_playing_flags, play_config
from rlzoo.cli.flags.parser import Whole
from rlzoo.config.hub import PushConfig

HELP = "upload a trained agent to the Hugging Face Hub"
EPILOG = """\
examples:
  rlzoo push --algo ppo --env CartPole-v1                       # to the account of the token
  rlzoo push -orga my-lab --algo sac --env Hopper-v5 --load-best --private
  rlzoo push -orga my-lab --algo ppo --env Catch-v0 -name catch-agent --no-video -m "A better agent"

Uploaded in one commit: the agent, config.yml, args.yml, command.txt, score.json, replay.mp4 and a model card.
Nothing is pickled; folders of this machine and passwords are left out. The token is that of huggingface_hub:
`hf auth login`, or HF_TOKEN.
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_agent_flags(parser, "push")
    where = parser.add_argument_group("the repository")
    where.add_argument(
        "-orga",
        "--organization",
        default="",
        metavar="ORG",
        help="organization or user (default: the user of the token)",
    )
    where.add_argument(
        "-name", "--repo-name", default="", metavar="REPO", help="its name (default: ALGO-ENV)"
    )
    where.add_argument(
        "-m",
        "--commit-message",
        default="Upload an agent of rlzoo",
        metavar="MESSAGE",
        help="message of the commit",
    )
    where.add_argument("--private", action="store_true", help="a repository that is made is private")
    shown = parser.add_argument_group("what is shown of the agent")
    shown.add_argument(
        "--n-eval-episodes",
        type=Whole(1),
        default=None,
        metavar="N",
        help="episodes that its score is of, at least (default: a score that is known, else 100)",
    )
    shown.add_argument("--no-video", "--no-render", action="store_true", help="record no video")
    shown.add_argument(
        "-n",
        "--n-timesteps",
        type=Whole(1),
        default=None,
        metavar="N",
        help="steps of the video (default: 1000, unless --n-episodes)",
    )
    shown.add_argument(
        "--n-episodes",
        type=Whole(1),
        default=None,
        metavar="N",
        help="record this many whole episodes instead",
    )
    add_playing_flags(parser.add_argument_group("how the video is played"))
    parser.add_argument(
        "--verbose",
        type=int,
        choices=(0, 1, 2),
        default=1,
        help="0: only the address, 1: what is done, 2: also what huggingface_hub says (default: 1)",
    )


def run(args: argparse.Namespace) -> int:
    values = vars(args)
    names = ("organization", "repo_name", "commit_message", "private", "n_eval_episodes", "verbose")
    of_push = {name: values.pop(name) for name in names}
    video = not values.pop("no_video")
    config = PushConfig(play=play_config(values), video=video, **of_push)

    from rlzoo.hub.upload import push

    push(config)
    return 0

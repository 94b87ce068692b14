"""The flags that say which trained agent a command is about."""

from __future__ import annotations

import argparse

from rlzoo.cli.parser import OneOf, Whole
from rlzoo.config import catalog


def add_agent_flags(parser: argparse.ArgumentParser, verb: str) -> None:
    """Add `--algo`, `--env`, `--folder`, `--exp-id` and what to load.

    :param verb: what the command does with the agent, for the help
    """
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
    kind.add_argument("--load-best", action="store_true", help=f"{verb} the best model of the evaluations")
    kind.add_argument(
        "--load-checkpoint",
        type=Whole(0),
        default=None,
        metavar="STEPS",
        help=f"{verb} the checkpoint of this many steps",
    )
    kind.add_argument("--load-last-checkpoint", action="store_true", help=f"{verb} the newest checkpoint")

"""`rlzoo pull`: download a trained agent from the Hugging Face Hub."""

from __future__ import annotations

import argparse

from rlzoo.cli.flags.parser import Choice, IntInRange
from rlzoo.cli.share.hub_flags import add_repository_flags, add_verbose_flag
from rlzoo.config import catalog
from rlzoo.config.hub import PullConfig, agent_name
from rlzoo.core.errors import UserError

EPILOG = """\
examples:
  rlzoo pull -orga my-lab --algo ppo --env CartPole-v1  # my-lab/ppo-CartPole-v1
  rlzoo pull -orga my-lab -name catch-agent --revision v1.2
  rlzoo pull -i my-lab/catch-agent/ppo-Catch-v0.zip -f downloaded --exp-id 7

The agent is stored as a run, for `rlzoo enjoy` and the other commands. It is
checked first: size and hash of each file, known formats only, and no code
except that of rlzoo, of environment packages and of the modules you trust.
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    which = parser.add_argument_group("agent")
    which.add_argument(
        "--algo",
        type=Choice("algorithm", catalog.names()),
        default=None,
        metavar="ALGO",
        help="algorithm",
    )
    which.add_argument("--env", default="", metavar="ENV", help="environment id")
    add_repository_flags(which, "organization or user of the repository (default: sb3)")
    which.add_argument(
        "-i",
        "--trained-agent",
        default="",
        metavar="REPO/FILE",
        help="ORG/REPO or ORG/REPO/FILE instead of the flags above",
    )
    which.add_argument(
        "--revision",
        default="main",
        metavar="REVISION",
        help="branch, tag or commit (default: main)",
    )
    where = parser.add_argument_group("output")
    where.add_argument(
        "-f", "--folder", default="logs", metavar="DIR", help="folder of the runs (default: logs)"
    )
    where.add_argument(
        "--exp-id",
        type=IntInRange(0),
        default=0,
        metavar="N",
        help="number of the new run; 0: the next free one (default: 0)",
    )
    where.add_argument("--force", action="store_true", help="replace the run with this number")
    add_verbose_flag(parser, "errors only", "the folder")


def run(args: argparse.Namespace) -> int:
    repo_id, file = repository(args)
    config = PullConfig(
        repo_id=repo_id,
        file=file,
        algo=args.algo or "",
        env_id=args.env,
        revision=args.revision,
        folder=args.folder,
        exp_id=args.exp_id,
        force=args.force,
        verbose=args.verbose,
    )

    from rlzoo.hub.download import pull

    pull(config)
    return 0


def repository(args: argparse.Namespace) -> tuple[str, str]:
    """Return the id of the repository, and the file in it ("" if none is named).

    :raises UserError: they name none, or two
    """
    if args.trained_agent:
        if args.organization or args.repo_name:
            raise UserError("-i names the repository; -orga and -name cannot be given with it")
        organization, _, rest = args.trained_agent.partition("/")
        name, _, file = rest.partition("/")
        return f"{organization}/{name}", file
    name = args.repo_name or (agent_name(args.algo, args.env) if args.algo and args.env else "")
    if not name:
        raise UserError("which agent? Give --algo and --env, or -name REPO, or -i ORG/REPO")
    return f"{args.organization or 'sb3'}/{name}", ""

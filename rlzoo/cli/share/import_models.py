"""`rlzoo import`: run folders from what stable-baselines3 and RL Baselines3 Zoo wrote."""

from __future__ import annotations

import argparse

from rlzoo.cli.flags.parser import OneOf
from rlzoo.config import catalog
from rlzoo.config.literals import parse_overrides

HELP = "make run folders of stable-baselines3 files, without unpickling them"
EPILOG = """\
examples:
  rlzoo import ppo-CartPole-v1.zip -o logs
  rlzoo import model.zip -o logs --env Pendulum-v1 -params normalize:true
  rlzoo import rl-trained-agents/ppo/CartPole-v1_1 -o logs
  rlzoo import rl-trained-agents -o logs
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "source",
        metavar="FILE_OR_FOLDER",
        help="a model file, a run folder of RL Baselines3 Zoo, or a folder of many",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="where runs are kept: `enjoy -f DIR` finds them"
    )
    parser.add_argument(
        "--algo",
        type=OneOf("algorithm", catalog.names()),
        default=None,
        metavar="ALGO",
        help="algorithm (default: as the file says)",
    )
    parser.add_argument(
        "--env", default="", metavar="ENV", help="environment id (default: of args.yml or the file's name)"
    )
    parser.add_argument(
        "-conf",
        "--conf-file",
        default=None,
        metavar="FILE",
        help="hyperparameters (default: the config.yml beside the model)",
    )
    parser.add_argument(
        "-params",
        "--hyperparams",
        nargs="+",
        default=[],
        metavar="KEY:VALUE",
        help="hyperparameters that the files do not tell",
    )
    parser.add_argument(
        "--gym-packages",
        nargs="+",
        default=[],
        metavar="MODULE",
        help="modules to import first: they register environments",
    )


def run(args: argparse.Namespace) -> int:
    overrides = parse_overrides(args.hyperparams)

    from rlzoo.experiment.import_run import ImportConfig, import_runs

    import_runs(
        ImportConfig(
            source=args.source,
            output=args.output,
            algo=args.algo or "",
            env_id=args.env,
            conf_file=args.conf_file,
            hyperparams=overrides,
            gym_packages=tuple(args.gym_packages),
        )
    )
    return 0

"""`rlzoo import`: convert files of stable-baselines3 and RL Baselines3 Zoo to run folders."""

from __future__ import annotations

import argparse

from rlzoo.cli.flags.parser import Choice
from rlzoo.config import catalog
from rlzoo.config.values_as_text import parse_overrides

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
        help="model file, run folder of RL Baselines3 Zoo, or folder of run folders",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="folder of the runs, for `rlzoo enjoy -f DIR`"
    )
    parser.add_argument(
        "--algo",
        type=Choice("algorithm", catalog.names()),
        default=None,
        metavar="ALGO",
        help="algorithm (default: that of the file)",
    )
    parser.add_argument(
        "--env", default="", metavar="ENV", help="environment id (default: from args.yml or the file name)"
    )
    parser.add_argument(
        "-conf",
        "--conf-file",
        default=None,
        metavar="FILE",
        help="hyperparameters (default: config.yml next to the model)",
    )
    parser.add_argument(
        "-params",
        "--hyperparams",
        nargs="+",
        default=[],
        metavar="KEY:VALUE",
        help="hyperparameters that are not in the files",
    )
    parser.add_argument(
        "--gym-packages",
        nargs="+",
        default=[],
        metavar="MODULE",
        help="modules that register environments; imported first",
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

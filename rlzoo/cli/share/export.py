"""`rlzoo export`: an agent as a file that other programs run."""

from __future__ import annotations

import argparse
from pathlib import PurePath

from rlzoo.cli.flags.agent_flags import add_agent_flags, add_environment_flags, play_config
from rlzoo.cli.flags.parser import OneOf
from rlzoo.config.run import EXPORT_SUFFIXES, ExportConfig
from rlzoo.core.errors import UserError

HELP = "write a trained agent as ONNX, TorchScript, JSON or a web page"
EPILOG = """\
examples:
  rlzoo export --algo ppo --env CartPole-v1                          # ppo-CartPole-v1.onnx
  rlzoo export --algo sac --env Pendulum-v1 --to torchscript -o pendulum.pt
  rlzoo export --algo ppo --env Acrobot-v1 --to html                 # a page that plays offline
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_agent_flags(parser, "export")
    add_environment_flags(parser.add_argument_group("its environment"))
    file = parser.add_argument_group("the file")
    file.add_argument(
        "--to",
        type=OneOf("format", EXPORT_SUFFIXES),
        default=None,
        metavar="FORMAT",
        help=f"{', '.join(EXPORT_SUFFIXES)} (default: as the suffix of -o says, else onnx)",
    )
    file.add_argument(
        "-o",
        "--output",
        default="",
        metavar="PLACE",
        help="a file or a folder (default: ALGO-ENV in the working directory)",
    )


def run(args: argparse.Namespace) -> int:
    values = vars(args)
    output, to = values.pop("output"), values.pop("to")
    config = ExportConfig(play=play_config(values), to=_format(to, output), output=output)

    from rlzoo.export.exporter import export

    export(config)
    return 0


def _format(to: str | None, output: str) -> str:
    """The format that the flags mean.

    :raises UserError: the suffix of the file is that of another one
    """
    by_suffix = {suffix: name for name, suffix in EXPORT_SUFFIXES.items()}
    meant = by_suffix.get(PurePath(output).suffix)
    if to is not None and meant not in (None, to):
        raise UserError(
            f"-o {output} is the name of a {meant} file; for --to {to} end it with {EXPORT_SUFFIXES[to]}"
        )
    return to or meant or "onnx"

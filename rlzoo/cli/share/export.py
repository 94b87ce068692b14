"""`rlzoo export`: export a policy to a file that runs without rlzoo."""

from __future__ import annotations

import argparse
import os
from pathlib import PurePath

from rlzoo.cli.flags.agent_flags import add_agent_flags, add_environment_flags, play_config
from rlzoo.cli.flags.parser import Choice
from rlzoo.config.run import EXPORT_SUFFIXES, ExportConfig
from rlzoo.core.errors import UserError, unknown

EPILOG = """\
examples:
  rlzoo export --algo ppo --env CartPole-v1           # ppo-CartPole-v1.onnx
  rlzoo export --algo sac --env Pendulum-v1 --to torchscript -o pendulum.pt
  rlzoo export --algo ppo --env Acrobot-v1 --to html   # plays offline
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_agent_flags(parser, "export")
    add_environment_flags(parser.add_argument_group("environment"))
    file = parser.add_argument_group("output")
    file.add_argument(
        "--to",
        type=Choice("format", EXPORT_SUFFIXES),
        default=None,
        metavar="FORMAT",
        help=f"{', '.join(EXPORT_SUFFIXES)} (default: by the suffix of -o, else onnx)",
    )
    file.add_argument(
        "-o",
        "--output",
        default="",
        metavar="PLACE",
        help="file or folder (default: ALGO-ENV in the working directory)",
    )


def run(args: argparse.Namespace) -> int:
    values = vars(args)
    output, to = values.pop("output"), values.pop("to")
    config = ExportConfig(play=play_config(values), to=_format(to, output), output=output)

    from rlzoo.export.exporter import export

    export(config)
    return 0


def _format(to: str | None, output: str) -> str:
    """Return the format that the flags name.

    :raises UserError: the suffix of the file is that of another format
    """
    by_suffix = {suffix: name for name, suffix in EXPORT_SUFFIXES.items()}
    suffix = PurePath(output).suffix
    meant = by_suffix.get(suffix)
    if meant is None and suffix[1:].isalpha() and not os.path.isdir(output) and not output.endswith("/"):
        raise unknown("suffix of an exported file", suffix, by_suffix)
    if to is not None and meant not in (None, to):
        raise UserError(
            f"-o {output} is the name of a {meant} file; for --to {to} end it with {EXPORT_SUFFIXES[to]}"
        )
    return to or meant or "onnx"

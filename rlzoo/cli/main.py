"""`rlzoo <command> ...`: finds the command's module, parses, runs, and turns errors into exit codes.

A command is a module `rlzoo/cli/<name>.py` with

    HELP: str                                               one line for `rlzoo --help`
    build_parser(parser: argparse.ArgumentParser) -> None   adds the arguments, examples in `parser.epilog`
    run(args: argparse.Namespace) -> int                    does the work and returns the exit code

Only the chosen module is imported, and it imports nothing heavy before `run`.
Exit codes: 0 done, 1 the run failed, 2 the call was wrong, 130 interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from rlzoo.cli.parser import Parser
from rlzoo.core.errors import RunFailed, UserError, unknown

COMMANDS = (
    "train",
    "enjoy",
    "optimize",
    "dashboard",
    "record-expert",
    "list",
    "show",
    "validate",
    "completion",
)
FIRST_WORDS = (*COMMANDS, "--help", "--version")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code.

    A person's mistake, a failed run and a warning become one line; a defect of rlzoo keeps its traceback.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show(warnings.showwarning)
            return dispatch(list(sys.argv[1:] if argv is None else argv))
    except UserError as error:
        return _report(error, 2)
    except RunFailed as error:
        return _report(error, 1)
    except BrokenPipeError:  # `rlzoo list envs | head`: whoever reads has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("rlzoo: interrupted", file=sys.stderr)
        return 130


def dispatch(arguments: list[str]) -> int:
    """Find the command that the first word names, and run it."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(overview())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print("rlzoo", version())
        return 0
    name = arguments[0].replace("_", "-")
    if name not in COMMANDS:
        raise unknown("flag" if name.startswith("-") else "command", arguments[0], FIRST_WORDS)
    command = load_command(name)
    return int(command.run(build(name, command).parse_args(arguments[1:])))


def load_command(name: str) -> ModuleType:
    """The module of a command; `record-video` lives in record_video.py."""
    return importlib.import_module(f"rlzoo.cli.{name.replace('-', '_')}")


def build(name: str, command: ModuleType) -> Parser:
    """The parser of one command."""
    parser = Parser(prog=f"rlzoo {name}", description=command.HELP)
    command.build_parser(parser)
    return parser


def overview() -> str:
    """What `rlzoo --help` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {load_command(name).HELP}" for name in COMMANDS]
    return "\n".join(
        [
            "usage: rlzoo <command> [options]",
            "",
            "Train, watch and tune reinforcement-learning agents.",
            "",
            "commands:",
            *lines,
            "",
            "examples:",
            "  rlzoo train --algo ppo --env CartPole-v1",
            "  rlzoo enjoy --algo ppo --env CartPole-v1",
            "  rlzoo optimize --algo ppo --env CartPole-v1 -n 50000 --n-trials 50 --n-jobs 2",
            "",
            "`rlzoo <command> --help` shows the options of a command, `rlzoo --version` the version.",
        ]
    )


def version() -> str:
    """The installed version."""
    from importlib import metadata

    try:
        return metadata.version("rlzoo")
    except metadata.PackageNotFoundError:
        return "(run from a checkout that is not installed)"


def _show(otherwise: Callable[..., None]) -> Callable[..., None]:
    """A `warnings.showwarning` for persons: what is meant for them without the line of code it comes from."""

    def show(message: Warning | str, category: type[Warning], *where: Any, **kwargs: Any) -> None:
        if category is UserWarning:
            print("rlzoo:", " ".join(str(message).split()), file=sys.stderr)
        else:
            otherwise(message, category, *where, **kwargs)

    return show


def _report(error: Exception, code: int) -> int:
    print("rlzoo: error:", " ".join(str(error).split()), file=sys.stderr)
    return code

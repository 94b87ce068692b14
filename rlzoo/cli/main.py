"""`rlzoo <command> ...`: finds the command's module, parses, runs, and turns errors into exit codes.

A command is one word or two, and a module `rlzoo/cli/<name>.py` (`benchmark run` in benchmark_run.py) with

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
from collections.abc import Sequence
from types import ModuleType

from rlzoo.cli.parser import Parser
from rlzoo.core.errors import RunFailed, UserError, in_one_line, unknown

COMMANDS = (
    "train",
    "enjoy",
    "optimize",
    "dashboard",
    "benchmark run",
    "benchmark score",
    "benchmark table",
    "benchmark ship",
    "record-expert",
    "list",
    "show",
    "validate",
    "completion",
)
FIRST_WORDS = (*dict.fromkeys(name.partition(" ")[0] for name in COMMANDS), "--help", "--version")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code.

    A person's mistake, a failed run and a warning become one line; a defect of rlzoo keeps its traceback.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = in_one_line(warnings.showwarning)
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
    """Find the command that the first words name, and run it."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(overview(COMMANDS))
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print("rlzoo", version())
        return 0
    if arguments[1:] in (["-h"], ["--help"]) and (several := _beginning_with(arguments[0])):
        print(overview(several))
        return 0
    name, rest = command_of(arguments)
    command = load_command(name)
    return int(command.run(build(name, command).parse_args(rest)))


def command_of(arguments: list[str]) -> tuple[str, list[str]]:
    """The command that the first word names, or the first two, and what is left for it."""
    first = arguments[0].replace("_", "-")
    verbs = [name.partition(" ")[2] for name in _beginning_with(first)]
    if first not in COMMANDS and not verbs:
        raise unknown("flag" if first.startswith("-") else "command", arguments[0], FIRST_WORDS)
    if not verbs:
        return first, arguments[1:]
    if len(arguments) == 1:
        raise UserError(f"{first} what? One of: {', '.join(verbs)}")
    if arguments[1] not in verbs:
        raise unknown(f"kind of {first}", arguments[1], verbs)
    return f"{first} {arguments[1]}", arguments[2:]


def _beginning_with(word: str) -> list[str]:
    """The commands of two words, of which this is the first."""
    return [name for name in COMMANDS if name.startswith(f"{word} ")]


def load_command(name: str) -> ModuleType:
    """The module of a command; `benchmark run` lives in benchmark_run.py."""
    return importlib.import_module(f"rlzoo.cli.{name.replace('-', '_').replace(' ', '_')}")


def build(name: str, command: ModuleType) -> Parser:
    """The parser of one command."""
    parser = Parser(prog=f"rlzoo {name}", description=command.HELP)
    command.build_parser(parser)
    return parser


def overview(commands: Sequence[str]) -> str:
    """What `rlzoo --help` prints of commands."""
    width = max(map(len, commands))
    lines = [f"  {name:<{width}}  {load_command(name).HELP}" for name in commands]
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


def _report(error: Exception, code: int) -> int:
    print("rlzoo: error:", " ".join(str(error).split()), file=sys.stderr)
    return code

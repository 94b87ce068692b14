"""`rlzoo <command> ...`: finds the command's module, parses, runs, and turns errors into exit codes.

A command is one word or two, and a module below `rlzoo/cli/` (see `COMMANDS`) with

    HELP: str                                               one line for `rlzoo --help`
    build_parser(parser: argparse.ArgumentParser) -> None   adds the arguments, examples in `parser.epilog`
    run(args: argparse.Namespace) -> int                    does the work and returns the exit code

Only the chosen module is imported, and it imports nothing heavy before `run`.
Exit codes: 0 done, 1 the run failed, 2 the call was wrong, 130 interrupted.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from types import ModuleType

from rlzoo.cli.flags.output import discard, lasting_output, open_closed_streams
from rlzoo.cli.flags.parser import Parser
from rlzoo.core.errors import RunFailed, UserError, in_one_line, one_line, unknown
from rlzoo.io.trust import trust
from rlzoo.processes.interrupts import sigint_waits_for_imports

COMMANDS = {
    "train": "train",
    "enjoy": "enjoy",
    "optimize": "optimize",
    "dashboard": "dashboard",
    "benchmark run": "benchmark.benchmark_run",
    "benchmark score": "benchmark.benchmark_score",
    "benchmark table": "benchmark.benchmark_table",
    "benchmark page": "benchmark.benchmark_page",
    "benchmark ship": "benchmark.benchmark_ship",
    "plot train": "plot.plot_train",
    "plot compare": "plot.plot_compare",
    "plot report": "plot.plot_report",
    "record-video": "record.record_video",
    "record-training": "record.record_training",
    "record-expert": "record.record_expert",
    "export": "share.export",
    "push": "share.push",
    "pull": "share.pull",
    "import": "share.import_models",
    "list": "list",
    "show": "show",
    "validate": "validate",
    "completion": "completion",
}
"""Command, of one word or two -> its module below `rlzoo.cli`."""
TRUSTING = (
    "train",
    "enjoy",
    "optimize",
    "benchmark run",
    "benchmark score",
    "benchmark ship",
    "benchmark page",
    "record-video",
    "record-training",
    "record-expert",
    "export",
    "push",
    "pull",
    "import",
    "validate",
)
"""Commands that read files which name code: they have `--trust`."""
WORK = (
    "train", "optimize", "benchmark run", "benchmark score", "record-video", "record-training",
    "record-expert", "push", "pull",
)  # fmt: skip
"""Commands whose results are files: they go on when nobody reads what they print."""
SURROUNDINGS = (
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM,
    errno.ENAMETOOLONG, errno.ENOLCK, errno.EMFILE, errno.ENFILE, errno.ESTALE,
)  # fmt: skip
"""Errors of the system that are no defects of rlzoo wherever they come from: full disks, forbidden files."""
SPIN_COUNT = "10000"
"""How long PyTorch's worker threads wait for each other in a loop before they sleep: 0.3 ms, not 10 ms.

Where other processes have the cores, a gradient step with two threads took 12-32 ms instead of 50-270 ms, so
that trying them costs less (see `rlzoo.accel.threads`).
"""
FIRST_WORDS = (*dict.fromkeys(name.partition(" ")[0] for name in COMMANDS), "--help", "--version")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code.

    A person's mistake, a failed run and a warning become one line; a defect of rlzoo keeps its traceback.
    """
    try:
        with warnings.catch_warnings(), sigint_waits_for_imports():
            warnings.showwarning = in_one_line(warnings.showwarning)
            open_closed_streams()
            _print_anything()
            code = dispatch(list(sys.argv[1:] if argv is None else argv))
            sys.stdout.flush()  # so that a full disk is an error here
            return code
    except UserError as error:
        return _report(error, 2)
    except RunFailed as error:
        return _report(error, 1)
    except BrokenPipeError:  # `rlzoo list envs | head`: whoever reads has read enough
        _discard_output()
        return 0
    except OSError as error:
        if error.errno not in SURROUNDINGS:
            raise
        _discard_output()
        where = "" if error.filename is None else f": {str(error.filename)[:300]}"
        return _report(f"{error.strerror}{where}", 2 if error.errno == errno.ENAMETOOLONG else 1)
    except KeyboardInterrupt as error:
        print(" ".join(["rlzoo: interrupted", *map(str, error.args)]), file=sys.stderr)
        return 130


def dispatch(arguments: list[str]) -> int:
    """Find the command that the first words name, and run it."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(overview(list(COMMANDS)))
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print("rlzoo", version())
        return 0
    if arguments[1:] in (["-h"], ["--help"]) and (several := _beginning_with(arguments[0])):
        print(overview(several))
        return 0
    _check_working_directory()
    name, rest = command_of(arguments)
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    command = load_command(name)
    args = build(name, command).parse_args(rest)
    trust((*vars(args).pop("trust", ()), *getattr(args, "gym_packages", ())))
    with lasting_output() if name in WORK else nullcontext():
        return int(command.run(args))


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
    """Import the module of a command."""
    return importlib.import_module(f"rlzoo.cli.{COMMANDS[name]}")


def build(name: str, command: ModuleType) -> Parser:
    """The parser of one command."""
    parser = Parser(prog=f"rlzoo {name}", description=command.HELP)
    command.build_parser(parser)
    if name in TRUSTING:
        parser.add_argument(
            "--trust",
            nargs="+",
            default=[],
            metavar="MODULE",
            help="modules whose code the files of others may name (default: those of RLZOO_TRUST)",
        )
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


def _print_anything() -> None:
    """Let a terminal without Unicode, or a path that is not UTF-8, give question marks instead of errors."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _discard_output() -> None:
    """Send what could not be printed nowhere, lest Python tries again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        discard(sys.stdout)


def _check_working_directory() -> None:
    """:raises UserError: it was deleted"""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UserError("the working directory was deleted; change to one that is there") from None


def _report(error: Exception | str, code: int) -> int:
    print("rlzoo: error:", one_line(error), file=sys.stderr)
    return code

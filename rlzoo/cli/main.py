"""`rlzoo <command> ...`: find the module of the command, parse, run, and map errors to exit codes.

A command is one word or two: a line in `rlzoo.cli.commands`, and a module below `rlzoo/cli/` with

    build_parser(parser: argparse.ArgumentParser) -> None   adds the arguments, examples in `parser.epilog`
    run(args: argparse.Namespace) -> int                    does the work and returns the exit code

Only the chosen module is imported, and it imports nothing heavy before `run`.
Exit codes: 0 done, 1 the run failed, 2 the call was wrong, 130 interrupted.
"""

from __future__ import annotations

import errno
import gc
import importlib
import io
import os
import select
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rlzoo.cli.commands import COMMANDS, TRUSTING, WORK
from rlzoo.core.errors import RunFailed, UserError, one_line, show_warning, unknown
from rlzoo.io.trust import trust
from rlzoo.processes.stop_signals import sigint_waits_for_imports

if TYPE_CHECKING:
    from rlzoo.cli.flags.parser import Parser


SYSTEM_ERRORS = (
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM,
    errno.ENAMETOOLONG, errno.ENOLCK, errno.EMFILE, errno.ENFILE, errno.ESTALE,
)  # fmt: skip
"""Errors of the operating system that are not bugs of rlzoo: full disks, missing permissions."""
FIRST_WORDS = (*dict.fromkeys(name.partition(" ")[0] for name in COMMANDS), "--help", "--version")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return the exit code.

    Errors of the user, failed runs and warnings are one line each; a bug of rlzoo keeps its traceback.
    """
    try:
        with warnings.catch_warnings(), sigint_waits_for_imports():
            warnings.showwarning = partial(show_warning, warnings.showwarning)
            open_closed_streams()
            _print_anything()
            code = dispatch(list(sys.argv[1:] if argv is None else argv))
            sys.stdout.flush()  # so that a full disk is an error here
            return code
    except UserError as error:
        return _report(error, 2)
    except RunFailed as error:
        return _report(error, 1)
    except BrokenPipeError as error:
        if _has_reader():
            return _report(f"{error.strerror}: a process that rlzoo has started ended", 1)
        _discard_output()  # `rlzoo list envs | head`: whoever reads has read enough
        return 0
    except OSError as error:
        if error.errno not in SYSTEM_ERRORS:
            raise
        _discard_output()
        where = "" if error.filename is None else f": {str(error.filename)[:300]}"
        return _report(f"{error.strerror}{where}", 2 if error.errno == errno.ENAMETOOLONG else 1)
    except KeyboardInterrupt as error:
        print(" ".join(["rlzoo: interrupted", *map(str, error.args)]), file=sys.stderr)
        return 130


def dispatch(arguments: list[str]) -> int:
    """Run the command that the first words name."""
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
    command = load_command(name)
    args = build(name, command).parse_args(rest)
    if hasattr(args, "n_procs"):
        args.command_line = arguments  # its processes run the same command
    if trusted := (*vars(args).pop("trust", ()), *getattr(args, "gym_packages", ())):
        trust(trusted)
    with lasting_output() if name in WORK else nullcontext():
        return int(command.run(args))


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import without looking for garbage among what is imported, neither now nor later: it stays.

    Looking takes a tenth of the time of importing PyTorch, and as long again when the process ends.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.collect()  # what is left is never looked at again
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def command_of(arguments: list[str]) -> tuple[str, list[str]]:
    """Split the arguments into the command, of one or two words, and its own arguments."""
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
    """Return the commands of two words that begin with this one."""
    return [name for name in COMMANDS if name.startswith(f"{word} ")]


def load_command(name: str) -> ModuleType:
    """Import the module of a command."""
    return importlib.import_module(f"rlzoo.cli.{COMMANDS[name].module}")


def build(name: str, command: ModuleType) -> Parser:
    """Build the parser of a command."""
    from rlzoo.cli.flags.parser import Parser

    parser = Parser(prog=f"rlzoo {name}", description=COMMANDS[name].help)
    command.build_parser(parser)
    if name in TRUSTING:
        parser.add_argument(
            "--trust",
            nargs="+",
            default=[],
            metavar="MODULE",
            help="modules that files from others may use (default: RLZOO_TRUST)",
        )
    return parser


def overview(commands: Sequence[str]) -> str:
    """Format the help of `rlzoo`: commands and examples."""
    width = max(map(len, commands))
    lines = [f"  {name:<{width}}  {COMMANDS[name].help}" for name in commands]
    return "\n".join(
        [
            "usage: rlzoo <command> [options]",
            "",
            "Train, evaluate and tune reinforcement learning agents.",
            "",
            "commands:",
            *lines,
            "",
            "examples:",
            "  rlzoo train --algo ppo --env CartPole-v1",
            "  rlzoo enjoy --algo ppo --env CartPole-v1",
            "  rlzoo optimize --algo ppo --env CartPole-v1 -n 50000 --n-trials 50",
            "",
            "Run `rlzoo <command> --help` for its options, `rlzoo --version` for the version.",
        ]
    )


def version() -> str:
    """Return the installed version."""
    from importlib import metadata

    try:
        return metadata.version("rlzoo")
    except metadata.PackageNotFoundError:
        return "(run from a checkout that is not installed)"


def _print_anything() -> None:
    """Print question marks for characters that the terminal cannot show, instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _has_reader() -> bool:
    """Return whether both outputs can be written to; False where the system cannot say."""
    try:
        outputs = select.poll()
        for stream in (sys.stdout, sys.stderr):
            outputs.register(stream.fileno(), 0)
        return not outputs.poll(0)
    except (AttributeError, OSError, ValueError):  # Windows has no `poll`
        return False


def _discard_output() -> None:
    """Discard buffered output, which Python would write again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        discard(sys.stdout)


def _check_working_directory() -> None:
    """Raise a UserError if the working directory was deleted."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UserError("the working directory was deleted; change to an existing one") from None


def _report(error: Exception | str, code: int) -> int:
    print("rlzoo: error:", one_line(error), file=sys.stderr)
    return code


# ---------------------------------------------------------------------- streams that may close early


def open_closed_streams() -> None:
    """Replace streams that were closed at the start (`>&-`) with the null device."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for the life of the process


class LastingStream:
    """Stream that is discarded after the first failed write, when its reader or its terminal is closed.

    :param stream: the stream, in text mode
    :param name: its name in the message on standard error
    """

    def __init__(self, stream: Any, name: str) -> None:
        self._stream, self._name = stream, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self._switch_off(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._switch_off(error)

    def _switch_off(self, error: OSError) -> None:
        discard(self._stream)
        with suppress(OSError):  # standard error itself
            reason = f"{self._name} is closed ({error.strerror}); continuing without it"
            os.write(2, f"rlzoo: {reason}\n".encode())


def discard(stream: Any) -> None:
    """Discard output that could not be written, and all later output: Python would retry at its exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError):  # a stream without a file
        os.dup2(null, stream.fileno())
    os.close(null)


@contextmanager
def lasting_output() -> Iterator[None]:
    """Continue the work of the block if the terminal or the reader of a pipe (`| head`) closes."""
    streams = sys.stdout, sys.stderr
    sys.stdout = LastingStream(sys.stdout, "standard output")  # type: ignore[assignment]
    sys.stderr = LastingStream(sys.stderr, "standard error")  # type: ignore[assignment]
    try:
        yield
        sys.stdout.flush()
    finally:
        sys.stdout, sys.stderr = streams

"""The argument parser of every subcommand: one-line errors that name the nearest right thing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

from rlzoo.core.errors import nearest, unknown


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that keeps examples as they are written and says what is wrong on one line.

    Flags are never abbreviated: a mistyped one is an error that names the nearest flag.
    """

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        fail(message)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As `ArgumentParser.parse_args`; what is left over is one unknown flag or one argument too many."""
        parsed, extras = self.parse_known_args(args, namespace)
        if extras:
            first = extras[0].split("=")[0]
            if first.startswith("-"):
                self.error(str(unknown("flag", first, flags_of(self))))
            self.error(f"unexpected argument {extras[0]!r}")
        return parsed


class OneOf:
    """Argparse `type` for one name out of several; shell completion offers `values`.

    >>> OneOf("algorithm", ["ppo", "a2c"])("ppo")
    'ppo'
    """

    def __init__(self, kind: str, values: Iterable[str]) -> None:
        self.kind = kind
        self.values = tuple(values)

    def __call__(self, text: str) -> str:
        if text in self.values:
            return text
        match = nearest(text, self.values)
        hint = f"did you mean {match!r}?" if match else f"known: {', '.join(self.values)}"
        raise argparse.ArgumentTypeError(f"unknown {self.kind} {text!r}; {hint}")


def flags_of(parser: argparse.ArgumentParser) -> list[str]:
    """Every flag of a parser, `--help` included."""
    return [flag for action in parser._actions for flag in action.option_strings]


def fail(message: str) -> NoReturn:
    """Print `rlzoo: error: ...` on one line and leave with 2: the call was wrong."""
    report(message)
    sys.exit(2)


def report(message: str) -> None:
    """Print `rlzoo: error: ...` on one line of stderr."""
    print("rlzoo: error:", " ".join(message.split()), file=sys.stderr)

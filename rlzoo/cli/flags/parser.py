"""The argument parser of every subcommand: one-line errors that name the nearest right thing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable
from typing import Any, NoReturn

from rlzoo.config.literals import parse_overrides
from rlzoo.core.errors import UserError, nearest, unknown


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
        raise UserError(message)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """As `ArgumentParser`, without empty values: they come from shell variables that are not set."""
        if any(not text.strip() for text in arg_strings):
            raise argparse.ArgumentError(action, "its value is empty (is a shell variable not set?)")
        return super()._get_values(action, arg_strings)  # type: ignore[misc]

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As `ArgumentParser.parse_args`; what is left over is one unknown flag or one argument too many."""
        parsed, extras = self.parse_known_args(args, namespace)
        if extras:
            first = extras[0].split("=")[0]
            if first.startswith("-"):
                raise unknown("flag", first, flags_of(self))
            self.error(f"unexpected argument {extras[0]!r}")
        return parsed


class NotNeeded(argparse.Action):
    """A flag of RL Baselines3 Zoo that does nothing here, which is said on one line.

    :param reason: why it is not needed
    """

    def __init__(self, *args: Any, reason: str, **kwargs: Any) -> None:
        super().__init__(*args, **{"nargs": 0, "default": argparse.SUPPRESS, **kwargs})
        self.reason = reason

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        print(f"rlzoo: {option_string} is not needed: {self.reason}", file=sys.stderr)


class StoreDict(argparse.Action):
    """Argparse action that makes a dictionary of `key:value` arguments.

    Values are plain ones, such as `[64, 64]`, `dict(a=1)` or `nn.ReLU`; no code is run.

    >>> parser = argparse.ArgumentParser()
    >>> _ = parser.add_argument("--env-kwargs", nargs="+", action=StoreDict)
    >>> parser.parse_args(["--env-kwargs", "g:9.8", "mode:fast"]).env_kwargs
    {'g': 9.8, 'mode': 'fast'}
    """

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        from rlzoo.experiment.named_classes import resolve_names

        try:
            parsed = resolve_names(parse_overrides([values] if isinstance(values, str) else values), own=True)
        except UserError as error:
            raise argparse.ArgumentError(self, str(error)) from None
        setattr(namespace, self.dest, parsed)


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


LARGEST = 2**63 - 1


class Whole:
    """Argparse `type` for a whole number; `1e6` is one.

    :param least: the smallest
    :param special: further numbers, with a meaning of their own

    >>> Whole(1, special=(-1,))("1e6")
    1000000
    """

    def __init__(self, least: int, most: int = LARGEST, special: tuple[int, ...] = ()) -> None:
        self.least, self.most, self.special = least, most, special

    def __call__(self, text: str) -> int:
        try:
            number = int(text) if text.lstrip("+-").isdecimal() else float(text)
            if number % 1 == 0 and (self.least <= number <= self.most or number in self.special):
                return int(number)
        except (ValueError, OverflowError):
            pass
        limits = f"at least {self.least}" if self.most == LARGEST else f"from {self.least} to {self.most}"
        wanted = " or ".join(map(str, (*self.special, limits)))
        raise argparse.ArgumentTypeError(f"expected a whole number, {wanted}, not {text!r}")


SEED = Whole(0, 2**32 - 1, special=(-1,))
"""Seeds are those of NumPy; -1 draws one."""


def actions_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Every flag and positional argument of a parser, `--help` included."""
    return parser._actions


def flags_of(parser: argparse.ArgumentParser) -> list[str]:
    """How every flag of a parser is written."""
    return [flag for action in actions_of(parser) for flag in action.option_strings]


def given(parser: argparse.ArgumentParser, args: argparse.Namespace) -> dict[str, str]:
    """The arguments that do not have their default value: destination to the longest spelling of the flag."""
    return {
        action.dest: max(action.option_strings, key=len, default=action.dest)
        for action in actions_of(parser)
        if hasattr(args, action.dest) and getattr(args, action.dest) != action.default
    }


def say_ignored(
    parser: argparse.ArgumentParser, args: argparse.Namespace, keys: Collection[str], where: str
) -> None:
    """Say on one line which of these arguments were given although they do nothing there."""
    flags = [flag for key, flag in given(parser, args).items() if key in keys]
    if flags:
        effect = "has no effect" if len(flags) == 1 else "have no effect"
        print(f"rlzoo: {', '.join(flags)} {effect} {where}", file=sys.stderr)


def values_of(action: argparse.Action) -> tuple[str, ...]:
    """The values that an argument can take; empty when they are not a fixed set."""
    values = action.type.values if isinstance(action.type, OneOf) else action.choices or ()
    return tuple(map(str, values))

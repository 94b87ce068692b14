"""The argument parser of every subcommand: short help, and one-line errors that name the nearest match."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable
from typing import Any, NoReturn, Protocol

from rlzoo.core.errors import UserError, nearest, unknown

MANY_FLAGS = 6  # a command with more has a short usage line


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Format help with the examples as they are written, and no hidden flags.

    :param prog: the command
    :param hidden: destinations of flags that another command documents
    """

    def __init__(self, prog: str, hidden: Collection[str] = ()) -> None:
        super().__init__(prog)
        self.hidden = hidden

    def _split_lines(self, text: str, width: int) -> list[str]:
        """Wrap a help text, but not inside words such as `record-expert`."""
        return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)

    def add_argument(self, action: argparse.Action) -> None:
        if action.dest not in self.hidden:
            super().add_argument(action)


def short_usage(actions: Iterable[argparse.Action]) -> str:
    """Return a usage line of `--algo`, `--env`, the required flags and the positional arguments."""
    flags, places = ["%(prog)s"], []
    for action in actions:
        name = str(action.metavar or action.dest).replace("%", "%%")
        if not action.option_strings:
            several = {"*": f"[{name} ...]", "+": f"{name} [{name} ...]", "?": f"[{name}]"}
            places.append(several.get(str(action.nargs), name))
        elif action.required:
            flags.append(f"{action.option_strings[0]} {name}")
        elif action.dest in ("algo", "env"):
            flags.append(f"[{action.option_strings[0]} {name}{' ...' if action.nargs == '+' else ''}]")
    return " ".join([*flags, "[options]", *places])


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors are one line that names the nearest valid argument.

    The usage line of a command with many flags names only the required ones and `--algo` and `--env`.
    Flags are never abbreviated: a misspelt one is an error that names the nearest flag.

    :param prog: the command
    :param description: what it does
    """

    def __init__(self, prog: str, description: str) -> None:
        self.hidden: set[str] = set()
        self._deferred: list[Callable[[Parser], None]] = []
        super().__init__(
            prog=prog,
            description=description,
            formatter_class=lambda prog: HelpFormatter(prog, self.hidden),  # type: ignore[arg-type]
            allow_abbrev=False,
        )

    @property
    def actions(self) -> list[argparse.Action]:
        """Every flag and positional argument, `--help` included."""
        self._add_deferred()
        return self._actions

    def defer(self, add: Callable[[Parser], None]) -> None:
        """Add flags later: when the command line has a flag that is not known yet, or all are asked for.

        :param add: adds them to the parser
        """
        self._deferred.append(add)

    def _add_deferred(self) -> None:
        deferred, self._deferred = self._deferred, []
        for add in deferred:
            add(self)

    def _is_unknown_flag(self, text: str) -> bool:
        is_flag = text.startswith("-") and not self._negative_number_matcher.match(text)
        return is_flag and text.partition("=")[0] not in self._option_string_actions

    def format_usage(self) -> str:
        self._shorten_usage()
        return super().format_usage()

    def format_help(self) -> str:
        self._shorten_usage()
        return super().format_help()

    def _shorten_usage(self) -> None:
        if self.usage is None and sum(bool(action.option_strings) for action in self.actions) > MANY_FLAGS:
            self.usage = short_usage(self.actions)

    def hide(self, actions: Iterable[argparse.Action]) -> None:
        """Leave flags out of the help, which another command documents; they are parsed and completed."""
        self.hidden.update(action.dest for action in actions)

    def error(self, message: str) -> NoReturn:
        raise UserError(message)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Refuse empty values: they come from shell variables that are not set."""
        if any(not text.strip() for text in arg_strings):
            raise argparse.ArgumentError(action, "its value is empty (is a shell variable not set?)")
        return super()._get_values(action, arg_strings)  # type: ignore[misc]

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse all arguments, and raise if there is an unknown flag or an argument too many."""
        args = sys.argv[1:] if args is None else list(args)
        if any(map(self._is_unknown_flag, args)):
            self._add_deferred()
        parsed, extras = self.parse_known_args(args, namespace)
        if extras:
            first = extras[0].split("=")[0]
            if first.startswith("-"):
                raise unknown("flag", first, flags_of(self))
            self.error(f"unexpected argument {extras[0]!r}")
        return parsed


class NotNeeded(argparse.Action):
    """A flag of RL Baselines3 Zoo that has no effect here; a line on standard error says why.

    :param reason: why it is not needed
    """

    def __init__(self, *args: Any, reason: str, **kwargs: Any) -> None:
        super().__init__(*args, **{"nargs": 0, "default": argparse.SUPPRESS, **kwargs})
        self.reason = reason

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        print(f"rlzoo: {option_string} is not needed: {self.reason}", file=sys.stderr)


class StoreDict(argparse.Action):
    """Argparse action that parses `key:value` arguments into a dictionary.

    Values are literals, such as `[64, 64]`, `dict(a=1)` or `nn.ReLU`; no code is run.

    >>> parser = argparse.ArgumentParser()
    >>> _ = parser.add_argument("--env-kwargs", nargs="+", action=StoreDict)
    >>> parser.parse_args(["--env-kwargs", "g:9.8", "mode:fast"]).env_kwargs
    {'g': 9.8, 'mode': 'fast'}
    """

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        from rlzoo.config.values_as_text import parse_overrides
        from rlzoo.experiment.resolve import resolve_names

        try:
            parsed = resolve_names(
                parse_overrides([values] if isinstance(values, str) else values), trusted=True
            )
        except UserError as error:
            raise argparse.ArgumentError(self, str(error)) from None
        setattr(namespace, self.dest, parsed)


class FlagGroup(Protocol):
    """A group of flags: what `add_argument_group` and `add_mutually_exclusive_group` return."""

    def add_argument(self, *name_or_flags: str, **options: Any) -> argparse.Action: ...

    def add_mutually_exclusive_group(self, *, required: bool = False) -> FlagGroup: ...


class Choice:
    """Argparse `type` for one of several names; shell completion offers `values`.

    >>> Choice("algorithm", ["ppo", "a2c"])("ppo")
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


class IntInRange:
    """Argparse `type` for an integer in a range; `1e6` is one.

    :param least: the smallest
    :param most: the largest
    :param special: values outside of the range that are valid too, such as -1 for a default

    >>> IntInRange(1, special=(-1,))("1e6")
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
        raise argparse.ArgumentTypeError(f"expected an integer, {wanted}, not {text!r}")


SEED = IntInRange(0, 2**32 - 1, special=(-1,))
"""Seeds of NumPy; -1: a random seed."""


def flags_of(parser: Parser) -> list[str]:
    """Return the spellings of every flag of a parser."""
    return [flag for action in parser.actions for flag in action.option_strings]


def non_default_args(parser: Parser, args: argparse.Namespace) -> dict[str, str]:
    """Return the arguments that differ from their defaults: destination -> longest spelling of the flag."""
    return {
        action.dest: max(action.option_strings, key=len, default=action.dest)
        for action in parser.actions
        if hasattr(args, action.dest) and getattr(args, action.dest) != action.default
    }


def warn_ignored_flags(parser: Parser, args: argparse.Namespace, keys: Collection[str], where: str) -> None:
    """Warn on one line about those of these arguments that were given but have no effect.

    :param keys: destinations of the arguments
    :param where: ends the sentence, such as "in a search"
    """
    flags = [flag for key, flag in non_default_args(parser, args).items() if key in keys]
    if flags:
        effect = "has no effect" if len(flags) == 1 else "have no effect"
        print(f"rlzoo: {', '.join(flags)} {effect} {where}", file=sys.stderr)


def values_of(action: argparse.Action) -> tuple[str, ...]:
    """Return the values that an argument can take; empty if they are not a fixed set."""
    values = action.type.values if isinstance(action.type, Choice) else action.choices or ()
    return tuple(map(str, values))


def boolean(text: str) -> bool:
    """Return the value of a flag that is true or false."""
    try:
        return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
    except KeyError:
        raise argparse.ArgumentTypeError(f"expected true or false, not {text!r}") from None


def output_width() -> int | None:
    """Return the columns of the terminal, or those of the variable COLUMNS; None: output goes to a file."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    return None

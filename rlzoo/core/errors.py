"""Errors that a person can act on.

A `UserError` is a mistake of the caller: the command line prints its text on one line and exits with 2.
A `RunFailed` is a run that could not go on: the command line prints its text on one line and exits with 1.
Anything else is a defect of rlzoo and keeps its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


class UserError(ValueError, AssertionError):
    """The call was wrong; the text names the mistake and the nearest right thing.

    Also an AssertionError, because stable-baselines3 asserts its arguments and scripts catch that.
    """


class UnknownArgument(UserError, TypeError):
    """A keyword that the callee does not have."""


class UnsupportedSpace(UserError, NotImplementedError):
    """A space that an algorithm, a policy or a wrapper does not take; stable-baselines3 raises either."""


class InvalidEnvironment(UserError):
    """An environment that breaks Gymnasium's rules."""


class WrongParameters(UserError, RuntimeError):
    """Parameters that do not fit a network; scripts for PyTorch expect a RuntimeError."""


class NotInstalled(UserError):
    """A package is missing; the text says how to install it."""


class CheckpointError(UserError):
    """A model file that is damaged, foreign, or holds something that will not be loaded."""


class RunFailed(RuntimeError):
    """The run could not go on; what had been learned is saved where possible."""


class TrainingDiverged(RunFailed):
    """A loss or a parameter became NaN or infinite."""


class EnvironmentFailed(RunFailed):
    """An environment raised, died or returned something it must not.

    :param env_index: index of the environment in its vector
    :param step: number of steps that environment had taken
    """

    def __init__(self, message: str, env_index: int | None = None, step: int | None = None) -> None:
        super().__init__(message)
        self.env_index = env_index
        self.step = step

    def __reduce__(self) -> tuple[type[EnvironmentFailed], tuple[str, int | None, int | None]]:
        return type(self), (str(self), self.env_index, self.step)  # crosses process borders with its fields


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Return the known name most like `name`, whatever their case, or None if none is similar.

    :param cutoff: smallest similarity, between 0 and 1
    """
    import difflib  # only where a name is wrong

    by_folded = {candidate.casefold(): candidate for candidate in known}
    matches = difflib.get_close_matches(str(name).casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[matches[0]] if matches else None


def unknown(kind: str, name: str, known: Iterable[str], error: type[UserError] = UserError) -> UserError:
    """The error for a name that is not in `known`: names the nearest one, or lists up to twelve."""
    known = list(known)
    match = nearest(name, known)
    if match is not None:
        return error(f"unknown {kind} {name!r}; did you mean {match!r}?")
    listed = ", ".join(sorted(known)[:12]) + (", ..." if len(known) > 12 else "")
    return error(f"unknown {kind} {name!r}" + (f"; known: {listed}" if listed else ""))


def install_command(extra: str) -> str:
    """Return the pip command that installs an extra of rlzoo here: of the checkout, or of the package.

    The quotes are needed where a shell expands brackets, as zsh does.

    :param extra: its name, such as "robotics"
    """
    root = Path(__file__).parents[2]
    if not (root / "pyproject.toml").is_file():
        return f"pip install 'rlzoo[{extra}]'"
    checkout = "." if Path.cwd() == root else root
    return f"pip install -e '{checkout}[{extra}]'"


LONGEST = 2000
"""Characters of an error; values of files that it quotes can be of any length."""


def printable(text: str) -> str:
    r"""A text from a file, or a file name, as it can be shown: control characters, which a terminal would
    obey, are escaped; line breaks stay.

    >>> print(printable(chr(27) + "[31mred"))
    \x1b[31mred
    """
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)


def one_line(message: object) -> str:
    """An error or a warning as one line that is safe to show, without the middle of a very long one."""
    text = printable(" ".join(str(message).split()))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 300]} ... {text[-290:]}"


def in_one_line(otherwise: Callable[..., None]) -> Callable[..., None]:
    """A `warnings.showwarning` for persons: what is meant for them without the line of code it comes from.

    :param otherwise: shows warnings of other kinds
    """

    def show(message: Warning | str, category: type[Warning], *where: Any, **kwargs: Any) -> None:
        if category is UserWarning:
            print("rlzoo:", one_line(message), file=sys.stderr)
        else:
            otherwise(message, category, *where, **kwargs)

    return show

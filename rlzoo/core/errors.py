"""Errors that users can act on.

`UserError` is a mistake of the caller: the command line prints its message on one line and exits with code 2.
`RunFailed` is a run that had to stop: the command line prints its message on one line and exits with code 1.
Any other exception is a defect of rlzoo and keeps its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path


class UserError(ValueError, AssertionError):
    """An invalid call; the message names the mistake and what is right.

    Also an AssertionError, because stable-baselines3 asserts its arguments and scripts catch that.
    """


class UnknownArgument(UserError, TypeError):
    """An unknown keyword argument."""


class UnsupportedSpace(UserError, NotImplementedError):
    """A space that is not supported; stable-baselines3 raises an error of either base class."""


class InvalidEnvironment(UserError):
    """An environment that violates the Gymnasium API."""


class WrongParameters(UserError, RuntimeError):
    """Parameters that do not match a network; PyTorch raises a RuntimeError."""


class NotInstalled(UserError):
    """A package is missing; the message says how to install it."""


class CheckpointError(UserError):
    """A model file that is damaged, of another library, or not safe to load."""


class RunFailed(RuntimeError):
    """A run had to stop; the model is saved if possible."""


class TrainingDiverged(RunFailed):
    """A loss or parameter is NaN or infinite."""


class EnvironmentFailed(RunFailed):
    """An environment raised an error, its process died, or it returned an invalid value.

    :param env_index: index of the environment in its VecEnv
    :param step: number of steps that the environment had taken
    """

    def __init__(self, message: str, env_index: int | None = None, step: int | None = None) -> None:
        super().__init__(message)
        self.env_index = env_index
        self.step = step

    def __reduce__(self) -> tuple[type[EnvironmentFailed], tuple[str, int | None, int | None]]:
        return type(self), (str(self), self.env_index, self.step)  # keep the fields when pickled


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Return the known name most like `name`, whatever their case, or None if none is similar.

    Names that start with `name` (four characters or more) come first; of several, the shortest.

    :param cutoff: smallest similarity, between 0 and 1
    """
    import difflib  # only where a name is wrong

    by_folded = {candidate.casefold(): candidate for candidate in known}
    folded = str(name).casefold()
    if len(folded.lstrip("-")) >= 4:
        longer = [candidate for candidate in by_folded if candidate.startswith(folded)]
        if longer:
            shortest = min(map(len, longer))
            return by_folded[max(candidate for candidate in longer if len(candidate) == shortest)]
    matches = difflib.get_close_matches(folded, by_folded, n=1, cutoff=cutoff)
    return by_folded[matches[0]] if matches else None


def unknown(kind: str, name: str, known: Iterable[str], error: type[UserError] = UserError) -> UserError:
    """Return the error for an unknown name; it suggests the nearest known one, or lists up to twelve."""
    known = list(known)
    match = nearest(name, known)
    if match is not None:
        return error(f"unknown {kind} {name!r}; did you mean {match!r}?")
    if len(known) > 12:
        import difflib

        listed = ", ".join([*difflib.get_close_matches(str(name), known, n=12, cutoff=0.0), "..."])
    else:
        listed = ", ".join(sorted(known))
    return error(f"unknown {kind} {name!r}" + (f"; known: {listed}" if listed else ""))


def install_command(extra: str) -> str:
    """Return the pip command that installs an extra of rlzoo here: of the checkout, or of the package.

    The quotes are needed where a shell expands brackets, as zsh does.

    :param extra: its name, such as "robotics"
    """
    from importlib.metadata import version

    root = Path(__file__).parents[2]
    if not (root / "pyproject.toml").is_file():
        return f"pip install 'rlzoo-{version('rlzoo')}-py3-none-any.whl[{extra}]'"  # no index has rlzoo
    checkout = "." if Path.cwd() == root else root
    return f"pip install -e '{checkout}[{extra}]'"


LONGEST = 2000
"""Largest number of characters of a message: it may quote values of files, of any length."""


def printable(text: str) -> str:
    r"""Escape control characters, except for line breaks, so that text can be printed to a terminal.

    >>> print(printable(chr(27) + "[31mred"))
    \x1b[31mred
    """
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)


def one_line(message: object) -> str:
    """Return a message as one printable line; the middle of a very long one is omitted."""
    text = printable(" ".join(str(message).split()))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 300]} ... {text[-290:]}"


def show_warning(
    otherwise: Callable[..., None],
    message: Warning | str,
    category: type[Warning],
    *where: object,
    **kwargs: object,
) -> None:
    """Print a UserWarning as one line, without its source line.

    >>> import functools, warnings
    >>> warnings.showwarning = functools.partial(show_warning, warnings.showwarning)

    :param otherwise: called for warnings of other classes, with the further arguments
    """
    if category is UserWarning:
        print("rlzoo:", one_line(message), file=sys.stderr)
    else:
        otherwise(message, category, *where, **kwargs)

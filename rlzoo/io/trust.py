"""What the user trusts: modules whose code the files of others may name.

A run folder, a benchmark list and a study may come from somebody else. They name classes and packages, and
naming one must not run it. The code of rlzoo, of `gymnasium.wrappers` and of the packages of environments
that rlzoo knows may be named anywhere; other code only when the user trusts its module:

    rlzoo enjoy -f their_runs --env Their-v0 --trust their_package
    RLZOO_TRUST=their_package,another rlzoo enjoy ...

Names are kept in an environment variable, so that worker processes have them too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder

from rlzoo.core.errors import UserError

VARIABLE = "RLZOO_TRUST"


def trust(names: Iterable[str]) -> None:
    """Trust modules, packages with all their modules, or single classes, for the rest of this process.

    :param names: dotted names
    :raises UserError: a name is none
    """
    names = tuple(names)
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise UserError(f"{name!r} is not the name of a module or class such as my_package.wrappers")
    os.environ[VARIABLE] = ",".join(dict.fromkeys((*_trusted(), *names)))


def is_trusted(name: str) -> bool:
    """Return whether this module or class, or a package that it is in, is trusted.

    >>> trust(["their_package"])
    >>> is_trusted("their_package.wrappers.Slow"), is_trusted("their_package_2.Slow")
    (True, False)
    """
    return any(f"{name}.".startswith(f"{known}.") for known in _trusted())


def is_in_working_directory(package: str) -> bool:
    """Return whether a package, not imported yet, would be found in the working directory alone.

    What lies there may have come with somebody's files: it is not installed, whatever it is called.
    """
    here = [os.getcwd()]
    elsewhere = [folder for folder in sys.path if folder and os.path.realpath(folder) not in here]
    finders = [finder for finder in sys.meta_path if finder is not PathFinder]
    return (
        package not in sys.modules
        and PathFinder.find_spec(package, here) is not None
        and PathFinder.find_spec(package, elsewhere) is None
        and all(finder.find_spec(package, None) is None for finder in finders)
    )


def _trusted() -> list[str]:
    return [name for name in os.environ.get(VARIABLE, "").split(",") if name]

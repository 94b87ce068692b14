"""Python processes that search the working directory no earlier than this one does.

The `rlzoo` command does not import from the working directory, where files of others may lie. Python started
with `-m` or `-c`, which is how workers start, searches it first: a `json.py` there would run.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "PYTHONSAFEPATH"  # read by Python 3.11 and newer
OWN = "rlzoo"
"""Its value where it is set here: any text turns it on."""
COMPAT = "RLZOO_COMPAT"
"""Names the packages that are aliased; see `rlzoo.compat`, which sets it."""


def child_environment() -> dict[str, str]:
    """Return what a Python process needs in its environment; nothing where this one searches there first."""
    if VARIABLE in os.environ or sys.path[:1] in ([""], [os.getcwd()]):
        return {}
    return {VARIABLE: OWN}


@contextmanager
def safe_path_in_children() -> Iterator[None]:
    """Start processes of `multiprocessing` in the block; they call `restore_path_setting` when they run."""
    added = child_environment()
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def restore_path_setting() -> None:
    """Let scripts that an environment starts import as ever, in a process that was started so.

    Packages that `rlzoo.compat` aliases in the process that started this one are aliased here too.
    """
    if os.environ.get(VARIABLE) == OWN:
        del os.environ[VARIABLE]
    if os.environ.get(COMPAT):
        importlib.import_module("rlzoo.compat")

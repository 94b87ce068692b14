"""What the test suite runs in one process: most loaders, and some commands."""

from __future__ import annotations

from tests.fuzz import commands, loaders

SLOW = ("model_learn", "sqlite")
LOADERS = (
    *(loader for loader in loaders.LOADERS if loader.name not in SLOW),
    *(commands.BY_NAME[name] for name in ("train", "show", "validate")),
)

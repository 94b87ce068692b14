"""Compare the arguments of constructors with those of stable-baselines3 and sb3-contrib; print a table.

    pip install -e '.[bench]'
    python scripts/compare_defaults.py

A row of the table: arguments whose default differs or that rlzoo lacks, and arguments that only rlzoo has.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import sb3_contrib
import stable_baselines3

import rlzoo
from rlzoo.plots.tables import markdown_table

NAMES = (
    *("A2C", "DDPG", "DQN", "PPO", "SAC", "TD3"),
    *("ARS", "CrossQ", "MaskablePPO", "QRDQN", "RecurrentPPO", "TQC", "TRPO"),
)


def defaults(function: Callable[..., Any]) -> dict[str, object]:
    """Return the default of each argument that has one."""
    arguments = inspect.signature(function).parameters
    return {name: item.default for name, item in arguments.items() if item.default is not item.empty}


def row(name: str) -> tuple[str, str, str]:
    """Compare one class."""
    old = getattr(stable_baselines3, name, None) or getattr(sb3_contrib, name)
    theirs, ours = defaults(old.__init__), defaults(getattr(rlzoo, name))
    missing = [argument for argument in theirs if argument not in ours]
    changed = [
        f"{argument}: {theirs[argument]!r}, here {ours[argument]!r}"
        for argument in theirs
        if argument in ours and ours[argument] != theirs[argument]
    ]
    added = [argument for argument in ours if argument not in theirs]
    return name, ", ".join([*changed, *missing]) or "none", ", ".join(added) or "none"


if __name__ == "__main__":
    print(f"stable-baselines3 {stable_baselines3.__version__}, sb3-contrib {sb3_contrib.__version__}\n")
    print(
        markdown_table(["class", "differs or is missing", "only in rlzoo"], [*map(row, NAMES)], [False] * 3)
    )

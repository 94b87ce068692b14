"""Where the files that come with rlzoo are: `hyperparams`, `trained_agents` and `benchmarks`."""

from __future__ import annotations

from pathlib import Path


def shipped_folder(name: str) -> Path:
    """A folder of shipped files: inside an installed package, or at the top of a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "_data" / name
    return installed if installed.is_dir() else package.parent / name

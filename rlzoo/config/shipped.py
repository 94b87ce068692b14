"""Where the files that come with rlzoo are: `hyperparams`, `trained_agents` and `benchmarks`."""

from __future__ import annotations

from pathlib import Path


def shipped_folder(name: str) -> Path:
    """Return a folder of shipped files: inside an installed package, or at the top of a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "_data" / name
    return installed if installed.is_dir() else package.parent / name


FOLDERS = ("hyperparams", "trained_agents", "benchmarks")


def shipped_path(place: str | Path) -> Path:
    """Return the path, or what came with rlzoo under it: an installed package has no such folders beside it.

    >>> shipped_path("hyperparams/ppo.yml").is_file()
    True
    """
    path = Path(place)
    if path.parts[:1] and path.parts[0] in FOLDERS and not path.exists():
        shipped = shipped_folder(path.parts[0]).joinpath(*path.parts[1:])
        return shipped if shipped.exists() else path
    return path


def benchmark_file(place: str | Path) -> Path:
    """Return a file by its name; those in `benchmarks/` that come with rlzoo are found from everywhere.

    >>> benchmark_file("benchmarks/catch.yml").is_file()
    True
    """
    path = Path(place)
    shipped = shipped_folder("benchmarks") / path.name
    return shipped if path.parent.name == "benchmarks" and not path.exists() and shipped.exists() else path

"""Check a hyperparameter file without training: every entry, as far as that goes without its environment."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlzoo.config import catalog
from rlzoo.config.aliases import alias
from rlzoo.config.hyperparams import load_file
from rlzoo.config.literals import WRAPPER_KEYS
from rlzoo.config.yaml_text import key_lines, read_text
from rlzoo.core.errors import UserError
from rlzoo.experiment.blueprint import check_hyperparams

OPTIONAL_PACKAGES = {"ae", "gymnasium_robotics", "highway_env", "minigrid", "panda_gym"}


@dataclass
class Report:
    """What is wrong with a file (`problems`) and what cannot be checked here (`notes`), one line each."""

    n_entries: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def validate_file(path: str, algo: str | None = None) -> Report:
    """Check the entries of a hyperparameter file against an algorithm.

    :param algo: the algorithm; None: the one that the file is named after
    :raises UserError: the file cannot be read, or no algorithm is called like it
    """
    file = load_file(path)
    algo = _algorithm_of(path) if algo is None else catalog.canonical(algo)
    report = Report(len(file.entries))
    lines = key_lines(read_text(Path(path))) if Path(path).suffix in (".yml", ".yaml") else {}
    missing: set[str] = set()
    for entry, values in file.entries.items():
        checkable = _without_missing_packages(values, missing)
        try:
            check_hyperparams(algo, checkable)
        except UserError as error:
            report.problems.append(f"{path}{_place(entry, values, str(error), lines)}: {error}")
    report.notes = [
        f"{path}: wrappers of {package} are not checked, it is not installed" for package in sorted(missing)
    ]
    return report


def _algorithm_of(path: str) -> str:
    try:
        return catalog.canonical(Path(path).stem)
    except UserError:
        raise UserError(f"{path} is not named after an algorithm; say which with --algo") from None


def _without_missing_packages(values: Mapping[str, Any], missing: set[str]) -> dict[str, Any]:
    """Leave out wrappers that come with an optional package which is not installed here."""
    kept = dict(values)
    for key in WRAPPER_KEYS:
        packages = {path.partition(".")[0] for path in _paths(values.get(key)).split()} & OPTIONAL_PACKAGES
        absent = {package for package in packages if importlib.util.find_spec(package) is None}
        if absent:
            missing.update(absent)
            del kept[key]
    return kept


def _paths(wrappers: Any) -> str:
    if isinstance(wrappers, list | tuple):
        return " ".join(map(_paths, wrappers))
    if isinstance(wrappers, Mapping):
        return " ".join(map(_paths, wrappers))
    return alias(str(wrappers))


def _place(entry: str, values: Mapping[str, Any], message: str, lines: Mapping[tuple[str, ...], int]) -> str:
    """`, line 12, CartPole-v1`: the line of the key that the message names, else of the entry."""
    found = {key: re.search(rf"\b{re.escape(key)}\b", message) for key in values}
    named = sorted((match.start(), key) for key, match in found.items() if match)
    named.sort(key=len, reverse=True)
    keys = [(entry, key) for _, key in named] + [(key,) for _, key in named] + [(entry,)]
    line = next((lines[key] for key in keys if key in lines), None)
    return (f", line {line}" if line else "") + f", {entry}"

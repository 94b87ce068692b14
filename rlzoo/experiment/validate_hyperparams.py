"""Check a hyperparameter file without training: every entry, as far as that goes without its environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from rlzoo.config import catalog
from rlzoo.config.class_names import class_path
from rlzoo.config.hyperparams import load_file, shipped_path
from rlzoo.config.values_as_text import WRAPPER_KEYS, Name, key_lines, read_text
from rlzoo.core.errors import UserError
from rlzoo.envs.single_env.registration import FAMILIES
from rlzoo.experiment.named_classes import TRUSTED_PREFIXES, may_be_named
from rlzoo.experiment.resolve import resolve_config


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
    path = str(shipped_path(path))
    file = load_file(path)
    algo = _algorithm_of(path) if algo is None else catalog.canonical(algo)
    report = Report(len(file.entries))
    lines = key_lines(read_text(Path(path))) if Path(path).suffix in (".yml", ".yaml") else {}
    unchecked: dict[str, str] = {}
    for entry, values in file.entries.items():
        try:
            resolve_config(algo, _checkable(values, unchecked))
        except UserError as error:
            report.problems.append(f"{path}{_place(entry, values, str(error), lines)}: {error}")
    report.notes = [f"{path}: {name} is not checked: {why}" for name, why in sorted(unchecked.items())]
    return report


def check_entry(algo: str, values: Mapping[str, object]) -> None:
    """Check one entry, with overrides merged, as `validate_file` does.

    :raises UserError: the first problem
    """
    resolve_config(algo, _checkable(values, {}))


def _algorithm_of(path: str) -> str:
    try:
        return catalog.canonical(Path(path).stem)
    except UserError:
        raise UserError(f"{path} is not named after an algorithm; say which with --algo") from None


def _checkable(values: Mapping[str, object], unchecked: dict[str, str]) -> dict[str, object]:
    """Return an entry without keys that name untrusted or missing code; nothing of it is imported.

    :param unchecked: what is left out and why is added to it
    """
    kept, optional = dict(values), {"ae", *(family.module for family in FAMILIES)}
    for key, value in values.items():
        named = [class_path(path) for path in _names(key, value)]
        for path in (path for path in named if "." in path and not path.startswith(TRUSTED_PREFIXES)):
            package = path.split(".")[0]
            if not all(path.split(".")):
                continue  # no name at all, which `resolve_config` says
            if package in optional and find_spec(package) is None:
                unchecked[path] = f"{package} is not installed"
            elif not may_be_named(path) and find_spec(package) is not None:
                unchecked[path] = f"code from outside rlzoo; to check it add --trust {package}"
        if not unchecked.keys().isdisjoint(named):
            del kept[key]
    if "policy" in values:
        kept.setdefault("policy", "MlpPolicy")
    return kept


def _names(key: str, value: object) -> Iterator[str]:
    """Yield the dotted names of code in the value of a key."""
    if isinstance(value, Name):
        yield value.path
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if key in WRAPPER_KEYS and isinstance(name, str):
                yield name
            yield from _names("", item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _names(key, item)
    elif isinstance(value, str) and key in (*WRAPPER_KEYS, "policy"):
        yield value


def _place(
    entry: str, values: Mapping[str, object], message: str, lines: Mapping[tuple[str, ...], int]
) -> str:
    """Return `, line 12, CartPole-v1`: the line of the key that the message names, else of the entry."""
    found = {key: re.search(rf"\b{re.escape(key)}\b", message) for key in values}
    named = [key for _, key in sorted((match.start(), key) for key, match in found.items() if match)]
    keys = [*((entry, key) for key in named), *((key,) for key in named), (entry,)]
    line = next((lines[key] for key in keys if key in lines), None)
    return (f", line {line}" if line else "") + f", {entry}"

"""Hyperparameters with their descriptions, for `rlzoo show --explain` and `rlzoo list algos --verbose`.

Both fit 80 columns. An explained configuration is YAML: hyperparameters at their defaults are comments.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING

from rlzoo.config import catalog
from rlzoo.config.values_as_text import dump_yaml, plain
from rlzoo.params.descriptions import Hyperparameter, by_section, describe
from rlzoo.params.shared import FILE_KEYS

COLUMNS = 79


def explained(algorithm: type, values: Mapping[str, object], sources: Mapping[str, str]) -> list[str]:
    """Return the lines of an explained configuration.

    :param algorithm: the class that learns
    :param values: the configuration: hyperparameters and other keys of an entry
    :param sources: by key, where its value comes from
    """
    config = getattr(algorithm, "Config", None)
    hyperparameters = describe(config) if config else []
    known = {item.name for item in hyperparameters}
    others = [
        Hyperparameter(key, "", MISSING, FILE_KEYS[key].text, FILE_KEYS[key].section)
        if key in FILE_KEYS
        else Hyperparameter(key, "", MISSING, "", "")
        for key in values
        if key not in known
    ]
    lines: list[str] = []
    for section, items in by_section(others + hyperparameters).items():
        title = f" {section or 'other keys'} "
        lines += ["", f"# {title:-^{COLUMNS - 2}}"]
        for item in items:
            lines += _entry(item, values, sources)
    return lines


def _entry(item: Hyperparameter, values: Mapping[str, object], sources: Mapping[str, str]) -> Iterator[str]:
    """Return the value as YAML, then as a comment its default, its source and its description."""
    default = "" if item.default is MISSING else f"default {_short(item.default)}"
    if item.name in values:
        yield from dump_yaml({item.name: plain(values[item.name])}).splitlines()
        facts = f"{default}; {sources[item.name]}" if default else sources[item.name]
    else:
        yield f"# {item.name}: {_short(item.default)}"
        facts = "the default"
    yield from _comment(facts)
    yield from _comment(item.text)


def _comment(text: str) -> list[str]:
    return _wrapped(text, "    # ", "    # ")


def _wrapped(text: str, first: str, others: str) -> list[str]:
    """Wrap the text to at most `COLUMNS`; words, and with them links, stay whole."""
    return textwrap.wrap(
        text,
        COLUMNS,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _short(value: object) -> str:
    """Return a default as YAML writes it."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)


def summary(name: str) -> list[str]:
    """Return the lines about an algorithm: its paper, its actions and its hyperparameters by section."""
    algorithm = catalog.load(name)
    lines = [f"{name}: {algorithm.__name__}"]
    source = sys.modules[algorithm.__module__].__doc__
    titles = [inspect.cleandoc(text).splitlines()[0] for text in (source, algorithm.__doc__) if text]
    for title in titles:
        lines += _wrapped(title, "    ", "    ")
    config = getattr(algorithm, "Config", None)
    for section, items in by_section(describe(config) if config else []).items():
        shown = " ".join(f"{item.name}={_short(item.default)}".replace(" ", "") for item in items)
        lines += _wrapped(f"{section or 'other'}: {shown}", "    ", "        ")
    return lines

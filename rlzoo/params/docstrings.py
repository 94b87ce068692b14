"""The Args section of an algorithm's docstring, made from the descriptions of its hyperparameters."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping

from rlzoo.params.descriptions import Hyperparameter, by_section, describe
from rlzoo.params.shared import CONSTRUCTOR

WIDTH = 76
"""Columns of a docstring: `help` indents it by four."""


def class_docstring(summary: str, config: type, arguments: Mapping[str, object]) -> str:
    """Return the docstring of an algorithm, with every constructor argument under Args.

    :param summary: what the author of the class wrote
    :param config: its Config
    :param arguments: the other arguments of the constructor, with their defaults
    """
    lines = [inspect.cleandoc(summary), "", "Args:"]
    lines += [_entry(name, CONSTRUCTOR[name][0], CONSTRUCTOR[name][1].text) for name in ("policy", "env")]
    known = [name for name in arguments if name in CONSTRUCTOR]
    others = [
        Hyperparameter(name, CONSTRUCTOR[name][0], arguments[name], CONSTRUCTOR[name][1].text, "agent")
        for name in known
    ]
    sections = {**by_section(describe(config)), "agent": others}
    for section, items in sections.items():
        lines += ["", f"    # {section or 'other'}"]
        lines += [_entry(item.name, f"{item.annotation} = {item.default!r}", item.text) for item in items]
    return "\n".join(lines) + "\n"


def _entry(name: str, kind: str, text: str) -> str:
    sentence = f"{name} ({kind}): {text}" if text else f"{name} ({kind})"
    return textwrap.fill(
        sentence,
        WIDTH,
        initial_indent=" " * 4,
        subsequent_indent=" " * 8,
        break_long_words=False,
        break_on_hyphens=False,
    )

"""Directive `older-options`: the options of Stable Baselines, and what each is called now."""

from __future__ import annotations

from typing import Any

from algorithm_facts import plain, table
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from rlzoo.config.legacy import sb2_options
from rlzoo.config.legacy.sb2_options import OPTIONS, Conversion, Removed, Rule


def option_table() -> str:
    """Return the table of all classes, options that share a meaning in one row."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for cls, options in OPTIONS.items():
        for option, rule in options.items():
            rows.setdefault((f"`{option}`", *_now(rule)), []).append(cls)
    lines = [
        (option, "all" if len(classes) == len(OPTIONS) else ", ".join(classes), now, note)
        for (option, now, note), classes in rows.items()
    ]
    return table(["option", "classes", "now", "value"], lines)


def _now(rule: Rule) -> tuple[str, str]:
    if isinstance(rule, Conversion):
        names = rule.adjusts or (rule.sets,)
        return ", ".join(f"`{name}`" for name in names), "converted"
    if isinstance(rule, Removed):
        return plain(rule.why), "without effect" if rule.harmless else "refused, unless None or False"
    return f"`{rule}`", "the same"


class OlderOptions(SphinxDirective):
    """Table of the options of Stable Baselines."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(sb2_options.__file__)
        return self.parse_text_to_nodes(option_table(), allow_section_headings=False)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("older-options", OlderOptions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

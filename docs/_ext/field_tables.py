"""Directives for tables of what a file holds, read from the code that reads the file.

`{fields} rlzoo.benchmark.scores:Score` lists the fields of a dataclass, with the comments behind them;
`{hyperparameter-keys}` lists the keys of hyperparameter files that are not hyperparameters of an algorithm.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterable
from typing import Any

from command_help import inline
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from rlzoo.config.hyperparams import ZOO_KEYS
from rlzoo.params.shared import FILE_KEYS

COMMENT = re.compile(r"(?m)^    (?P<name>\w+): (?P<kind>[^=#\n]+?)(?: = .*?)?(?:  #\s*(?P<text>.+))?$")


class Fields(SphinxDirective):
    """The fields of a dataclass: name, type, default, meaning."""

    required_arguments = 1
    option_spec = {"only": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        module, _, name = self.arguments[0].partition(":")
        cls: Any = getattr(importlib.import_module(module), name)
        comments = {match["name"]: match for match in COMMENT.finditer(inspect.getsource(cls))}
        fields = {field.name: field for field in dataclasses.fields(cls)}
        names = self.options.get("only", "").split() or fields
        rows = [
            (name, comments[name]["kind"], default_of(fields[name]), comments[name]["text"] or "")
            for name in names
        ]
        return [table(("field", "type", "default", "meaning"), rows, (24, 24, 12, 40))]


def default_of(field: dataclasses.Field[Any]) -> str:
    """Return the default of a field as Python writes it; empty without one."""
    if field.default is not dataclasses.MISSING:
        return repr(field.default)
    return "" if field.default_factory is dataclasses.MISSING else repr(field.default_factory())


class HyperparameterKeys(SphinxDirective):
    """The keys of a hyperparameter file that say how to run."""

    def run(self) -> list[nodes.Node]:
        return [table(("key", "meaning"), [(key, FILE_KEYS[key].text) for key in ZOO_KEYS], (30, 70))]


def table(titles: Iterable[str], rows: Iterable[Iterable[str]], widths: Iterable[int]) -> nodes.table:
    """Build a table whose columns, but the last, are code."""
    widths = list(widths)
    found = nodes.table(classes=["flags", "colwidths-given"])
    group = nodes.tgroup(cols=len(widths))
    group += [nodes.colspec(colwidth=width) for width in widths]
    group += nodes.thead("", nodes.row("", *[nodes.entry("", nodes.paragraph("", each)) for each in titles]))
    body = nodes.tbody()
    for row in rows:
        *codes, text = row
        cells = [nodes.paragraph("", "", *[nodes.literal("", code)] * bool(code)) for code in codes]
        cells.append(nodes.paragraph("", "", *inline(text)))
        body += nodes.row("", *[nodes.entry("", cell) for cell in cells])
    group += body
    found += group
    return found


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("fields", Fields)
    app.add_directive("hyperparameter-keys", HyperparameterKeys)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Directives of the pages about algorithms; what they show is read from the code and from shipped files.

```{algorithms}                   the table of all algorithms
```{constructor}                  the arguments of every constructor
```{spaces} ppo                   names, module, spaces, policies and features
```{hyperparameters} ppo          defaults, search ranges and descriptions, by section
```{departures} ppo               how the code departs from the paper, as its docstring says
```{results} ppo                  scores, shipped agents and their commands
```{curves} ppo                   evaluations during the training of shipped agents
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import algorithm_facts
import algorithm_scores
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from rlzoo.config import catalog
from rlzoo.config.hyperparams import shipped_folder

CAPTION = """\
Evaluations during the training of shipped agents: mean return of a few episodes. Agents that were trained
without evaluations have no curve."""


class Generated(SphinxDirective):
    """A directive whose content is Markdown from a function."""

    text: ClassVar[Callable[..., str]]

    def run(self) -> list[nodes.Node]:
        if self.arguments and not catalog.is_name(self.arguments[0]):
            raise self.error(f"there is no algorithm {self.arguments[0]!r}")
        self.env.note_dependency(algorithm_facts.__file__)
        self.env.note_dependency(algorithm_scores.__file__)
        for name in self.arguments:
            self.env.note_dependency(
                str(shipped_folder("hyperparams").parent / algorithm_facts.source_of(name))
            )
        found = self.parse_text_to_nodes(type(self).text(*self.arguments), allow_section_headings=False)
        tables = [node for node in found if isinstance(node, nodes.table)]
        kind = type(self).__name__.lower()
        for number, node in enumerate(tables, 1):
            node["classes"] += ["generated", kind, f"{kind}-{number}"]
        return found


class Curves(SphinxDirective):
    """Learning curves of the shipped agents of an algorithm."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        self.env.note_dependency(algorithm_scores.__file__)
        svg = algorithm_scores.curves(name)
        if not svg:
            return []
        # ids are those of one drawing; a second one on the page would take the first one's clipping
        svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", svg)
        label = f"Learning curves of {name}"
        html = f'<div class="curves" role="img" aria-label="{label}">{svg}</div>'
        return [nodes.raw("", html, format="html"), nodes.paragraph("", CAPTION)]


def _directive(function: Callable[..., str], n_arguments: int) -> type[Generated]:
    members = {"text": staticmethod(function), "required_arguments": n_arguments, "__doc__": function.__doc__}
    return type(function.__name__.title(), (Generated,), members)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    for name, function, n_arguments in (
        ("algorithms", algorithm_facts.algorithm_table, 0),
        ("constructor", algorithm_facts.constructor_arguments, 0),
        ("spaces", algorithm_facts.spaces, 1),
        ("hyperparameters", algorithm_facts.hyperparameters, 1),
        ("departures", algorithm_facts.departures, 1),
        ("results", algorithm_scores.results, 1),
    ):
        app.add_directive(name, _directive(function, n_arguments))
    app.add_directive("curves", Curves)
    app.add_css_file("algorithms.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}

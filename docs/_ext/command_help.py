"""Directive `command-help`: the flags of a command, read from its parser.

    ```{command-help} train
    :groups: training runtime
    :examples:
    ```

shows a table for each group of flags, or only for the groups named by the first word of their title. With
`:flags: --n-trials --sampler` it shows one table of these flags, with `:usage:` also the usage line, and with
`:examples:` also the examples of the command's help.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from rlzoo.cli import main as cli
from rlzoo.cli.flags.parser import Parser, short_usage


class CommandHelp(SphinxDirective):
    """Tables of the flags of `rlzoo <command>`."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {
        "groups": directives.unchanged,
        "flags": directives.unchanged,
        "usage": directives.flag,
        "examples": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        name = " ".join(self.arguments[0].split())
        if name not in cli.COMMANDS:
            raise self.error(f"rlzoo has no command {name!r}; there are {', '.join(cli.COMMANDS)}")
        parser = cli.build(name, cli.load_command(name))
        self.prefix = f"rlzoo-{name.replace(' ', '-')}"
        found: list[nodes.Node] = []
        if "usage" in self.options:
            usage = short_usage(parser.actions).replace("%(prog)s", parser.prog).replace("%%", "%")
            found.append(code_block(usage))
        if flags := self.options.get("flags", "").split():
            found.append(self._table(parser, self._named(parser, flags)))
        else:
            found += self._groups(parser, self.options.get("groups", "").split())
        if "examples" in self.options and parser.epilog:
            found.append(nodes.rubric("", "Examples"))
            found.append(code_block(examples_of(parser.epilog)))
        return found

    def _named(self, parser: Parser, flags: Iterable[str]) -> list[argparse.Action]:
        """Return the actions of these flags, hidden ones too."""
        spellings = {flag: action for action in parser.actions for flag in action.option_strings}
        missing = [flag for flag in flags if flag not in spellings]
        if missing:
            raise self.error(f"{parser.prog} has no flag {', '.join(missing)}")
        return [spellings[flag] for flag in flags]

    def _groups(self, parser: Parser, wanted: list[str]) -> list[nodes.Node]:
        """Build a heading and a table for each group."""
        found: list[nodes.Node] = []
        seen: set[str] = set()
        # Flags that are in no group, such as --trust, are the least interesting ones.
        for group in sorted(parser._action_groups, key=lambda group: group.title == "options"):
            title = str(group.title)
            if wanted and title.split()[0] not in wanted:
                continue
            seen.add(title.split()[0])
            actions = [action for action in group._group_actions if self._shown(parser, action)]
            if not actions and not group.description:
                continue
            found.append(nodes.rubric("", "", *inline(title[0].upper() + title[1:])))
            if group.description:
                found.append(nodes.paragraph("", "", *inline(group.description)))
            if actions:
                found.append(self._table(parser, actions))
        if missing := set(wanted) - seen:
            raise self.error(f"{parser.prog} has no group of flags {', '.join(sorted(missing))}")
        return found

    def _shown(self, parser: Parser, action: argparse.Action) -> bool:
        suppressed = action.help == argparse.SUPPRESS
        return not suppressed and action.dest not in {*parser.hidden, "help"}

    def _table(self, parser: Parser, actions: Iterable[argparse.Action]) -> nodes.Node:
        """Build a table with a row for each flag: its spellings and what it does."""
        table = nodes.table(classes=["flags", "colwidths-given"])
        group = nodes.tgroup(cols=2)
        group += [nodes.colspec(colwidth=38), nodes.colspec(colwidth=62)]
        head = nodes.row()
        head += [nodes.entry("", nodes.paragraph("", title)) for title in ("Flag", "Meaning")]
        group += nodes.thead("", head)
        body = nodes.tbody()
        for action in actions:
            body += self._row(parser, action)
        group += body
        table += group
        return table

    def _row(self, parser: Parser, action: argparse.Action) -> nodes.row:
        label = f"{self.prefix}-{action.dest.replace('_', '-')}"
        term = nodes.paragraph("", "", *spellings_of(action))
        if label not in self.state.document.ids:
            term["ids"].append(label)
            self.state.document.note_explicit_target(term)
        text = parser._get_formatter()._expand_help(action) if action.help else ""
        return nodes.row("", nodes.entry("", term), nodes.entry("", nodes.paragraph("", "", *inline(text))))


def spellings_of(action: argparse.Action) -> list[nodes.Node]:
    """Return the spellings of a flag, the longest with its value."""
    value = value_of(action)
    if not action.option_strings:
        return [nodes.literal("", value)]
    found: list[nodes.Node] = []
    for index, flag in enumerate(action.option_strings):
        last = index == len(action.option_strings) - 1
        text = f"{flag} {value}" if last and value else flag
        found += [nodes.Text(", ")] * bool(index) + [nodes.literal("", text)]
    return found


def value_of(action: argparse.Action) -> str:
    """Return how the value of a flag is written in help: its metavar, repeated if there can be several."""
    if action.nargs == 0:
        return ""
    name = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    if not isinstance(name, str):
        return " ".join(name)
    several = {"*": f"[{name} ...]", "+": f"{name} ...", "?": f"[{name}]"}
    return several.get(str(action.nargs), name)


def inline(text: str) -> list[nodes.Node]:
    """Split a help text at backticks into text and code."""
    parts = text.split("`")
    return [nodes.literal("", part) if i % 2 else nodes.Text(part) for i, part in enumerate(parts) if part]


def code_block(text: str) -> nodes.literal_block:
    """Build a block of shell commands."""
    return nodes.literal_block(text, text, language="bash")


def examples_of(epilog: str) -> str:
    """Return the commands of an epilog, without the word `examples` and the indentation."""
    lines = [line.removeprefix("  ") for line in epilog.strip().splitlines()]
    return "\n".join(line for line in lines if line.strip() != "examples:")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Links from pages to the source files of the repository.

    {source}`rlzoo/core/returns.py`             shows the path, links to the file
    {source}`rlzoo/core/returns.py::gae`        shows `gae`, links to its definition
    {source}`text <rlzoo/core/returns.py>`      shows the text

Markdown links that leave docs/, such as [text](../SECURITY.md), become such links too. The target is the page
of the repository if conf.py knows it; otherwise a page of the site that shows the file, so that the site
is complete without a network.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import ReferenceRole

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\((\.\./[^)\s#]+)(?:#[^)\s]*)?\)")
LARGEST = 300_000  # bytes of a file that gets a page


class SourceRole(ReferenceRole):
    """Role `source`: a link to a file of the repository, or to a definition in it."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        name, _, definition = self.target.partition("::")
        path = ROOT / name
        if not path.exists():
            return self._problem(f"source file {name} does not exist")
        line = line_of(path, definition) if definition else None
        if definition and line is None:
            return self._problem(f"{name} does not define {definition}")
        title = self.title if self.has_explicit_title else definition or name
        address = self._address(name, line)
        if address is None:
            return [nodes.literal(title, title)], []
        text = nodes.Text(title) if self.has_explicit_title else nodes.literal(title, title)
        return [nodes.reference("", "", text, refuri=address, internal=True)], []

    def _address(self, name: str, line: int | None) -> str | None:
        """Return where the file is shown, relative to the current page; None if nowhere."""
        fragment = f"#L{line}" if line else ""
        if self.config.repository:
            kind = "tree" if (ROOT / name).is_dir() else "blob"
            return f"{self.config.repository}/{kind}/main/{name}{fragment}"
        if (ROOT / name).is_dir() or (ROOT / name).stat().st_size > LARGEST:
            return None
        linked(self.env).setdefault(self.env.docname, set()).add(name)
        page = self.env.app.builder.get_relative_uri(self.env.docname, f"source/{name}")
        return f"{page}{fragment}"

    def _problem(self, message: str) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        error = self.inliner.reporter.error(message, line=self.lineno)
        return [self.inliner.problematic(self.rawtext, self.rawtext, error)], [error]


def line_of(path: Path, definition: str) -> int | None:
    """Return the line of a class, function, method (`Class.method`) or assignment of a Python file."""
    body: list[Any] = ast.parse(path.read_text()).body
    line = None
    for name in definition.split("."):
        found = next((node for node in body if name in names_of(node)), None)
        if found is None:
            return None
        line, body = found.lineno, getattr(found, "body", [])
    return line


def names_of(node: ast.AST) -> list[str]:
    """Return the names that a statement defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def linked(env: Any) -> dict[str, set[str]]:
    """Return the source files that each page links to."""
    if not hasattr(env, "rlzoo_source_links"):
        env.rlzoo_source_links = {}
    found: dict[str, set[str]] = env.rlzoo_source_links
    return found


def rewrite_links(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace Markdown links to files outside of docs/ by the role."""
    page = Path(app.env.doc2path(docname))
    if page.suffix != ".md":
        return

    def role(match: re.Match[str]) -> str:
        target = (page.parent / match[2]).resolve()
        if target.is_relative_to(app.srcdir) or not target.is_relative_to(ROOT):
            return match[0]
        name = target.relative_to(ROOT).as_posix()
        text = match[1].strip("`")
        return "{source}`" + (name if text == name else f"{text} <{name}>") + "`"

    source[0] = LINK.sub(role, source[0])


def purge(app: Sphinx, env: Any, docname: str) -> None:
    """Drop the links of a page that is read again."""
    linked(env).pop(docname, None)


def merge(app: Sphinx, env: Any, docnames: list[str], other: Any) -> None:
    """Add the links that a parallel reader found."""
    linked(env).update({name: files for name, files in linked(other).items() if name in docnames})


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Build a page for each source file that is linked."""
    for name in sorted(set().union(*linked(app.env).values())):
        try:
            lexer = get_lexer_for_filename(name)
        except ClassNotFound:
            lexer = TextLexer()
        formatter = HtmlFormatter(linenos="inline", lineanchors="L", anchorlinenos=True, wrapcode=True)
        code = highlight((ROOT / name).read_text(), lexer, formatter).replace('name="L-', 'id="L')
        code = code.replace('href="#L-', 'href="#L')
        body = f'<h1>{name}</h1>\n<div class="highlight-default notranslate source">{code}</div>'
        yield f"source/{name}", {"title": name, "body": body}, "page.html"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the role and the pages."""
    if not (ROOT / "rlzoo" / "__init__.py").exists():
        raise ExtensionError(f"{ROOT} is not the repository")
    app.add_config_value("repository", "", "env", types=(str,))
    app.add_role("source", SourceRole())
    app.connect("source-read", rewrite_links)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": 1}

"""Directive `api`: public names of the package, described by their signatures and docstrings.

    ```{api}
    make_vec_env
    VecEnv: reset step
    PPO
    ```

Each line is a name of `rlzoo.__all__`. A class is shown with its public methods and properties; after a colon
stand those that are shown, `-` for none. Methods that a class inherits are shown where they are defined.
Docstrings are Markdown with the fields `:param name:`, `:return:` and `:raises Error:`.
"""

from __future__ import annotations

import inspect
import re
import textwrap
import types
from collections.abc import Iterable, Iterator
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import rlzoo

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
FIELD = re.compile(r":(param|returns?|raises?|yields?)\b[^:]*:")


class Api(SphinxDirective):
    """Descriptions of public names."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        entries = [line.partition(":") for line in self.content if line.strip()]
        text = [*overview(name.strip() for name, _, _ in entries)] if len(entries) > 1 else []
        for name, _, members in entries:
            if name.strip() not in rlzoo.__all__:
                raise self.error(f"{name.strip()!r} is not public: rlzoo.__all__ lacks it")
            shown = None if not members.strip() else members.replace("-", "").split()
            text += described(name.strip(), shown)
        found = self.parse_text_to_nodes("\n".join(text))
        for root in found:
            simplify_references(root)
        return found


def overview(names: Iterable[str]) -> Iterator[str]:
    """Yield a list of links to names, with the first line of what each is."""
    for name in names:
        value = getattr(rlzoo, name, None)
        known = inspect.isclass(value) or inspect.isfunction(value)
        original = rlzoo._ALIASES.get(name)
        text = f"another name of `{original}`" if original else inspect.getdoc(value) if known else ""
        first = (text or "").split("\n\n")[0].replace("\n", " ")
        yield f"- {link(name)}{': ' if first else ''}{escaped(first)}"
    yield ""


def simplify_references(root: nodes.Node) -> None:
    """Resolve references of signatures to public names; those to other names become text.

    Sphinx would look for each of the thousands of them among all names.
    """
    for node in list(root.findall(addnodes.pending_xref)):
        if node.get("refdomain") != "py" or node.get("refexplicit"):
            continue
        name = node["reftarget"].removeprefix("rlzoo.")
        if name in rlzoo.__all__:
            node["reftarget"], node["refspecific"], node["reftype"] = f"rlzoo.{name}", False, "obj"
        else:
            node.replace_self(node.children)


def described(name: str, members: list[str] | None = None) -> Iterator[str]:
    """Yield the lines of Markdown that describe a public name.

    :param members: methods of a class; None: all
    """
    value = getattr(rlzoo, name)
    if inspect.ismodule(value):
        yield from fenced("py:module", f"rlzoo.{name}", body_of(value), 3)
    elif (original := rlzoo._ALIASES.get(name)) is not None:
        yield from fenced("py:data", name, [f"Another name of {link(original)}."], 3)
    elif inspect.isclass(value):
        yield from class_lines(name, value, members)
    elif inspect.isfunction(value):
        yield from fenced("py:function", name + signature(value), body_of(value), 3)
    elif hasattr(value, "__origin__") or isinstance(value, str | types.UnionType):
        yield from fenced("py:data", name, [f"`{value}`".replace("rlzoo.", "")], 3)
    else:
        yield from fenced("py:data", name, docstring_lines(inspect.getdoc(type(value)) or ""), 3)


def class_lines(name: str, cls: type, members: list[str] | None) -> Iterator[str]:
    """Yield the description of a class."""
    lines = list(body_of(cls))
    bases = [base.__name__ for base in cls.__bases__ if base.__name__ in rlzoo.__all__]
    if bases:
        lines += ["", f"Derives from {', '.join(map(link, bases))}."]
    for member, value in members_of(cls):
        if members is None or member in members:
            lines += ["", *member_lines(cls, member, value)]
    missing = {*(members or ())} - {member for member, _ in members_of(cls)}
    if missing:
        raise ValueError(f"{name} has no documented {', '.join(sorted(missing))}")
    yield from fenced("py:class", name + signature(cls), lines, 5)


def members_of(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class and of its bases that are not public."""
    seen = set()
    for owner in cls.__mro__:
        if owner is not cls and (owner.__name__ in rlzoo.__all__ or not owner.__module__.startswith("rlzoo")):
            continue
        for member, value in vars(owner).items():
            if member.startswith("_") or member in seen or not own_docstring(value):
                continue
            if isinstance(value, classmethod | staticmethod | property) or inspect.isfunction(value):
                seen.add(member)
                yield member, value


def member_lines(cls: type, member: str, value: Any) -> Iterator[str]:
    """Yield the description of a method or property."""
    text = docstring_lines(own_docstring(value))
    if isinstance(value, property):
        yield from fenced("py:property", member, text, 4)
    else:
        kind = "staticmethod" if isinstance(value, staticmethod) else "method"
        kind = "classmethod" if isinstance(value, classmethod) else kind
        of_instance = not isinstance(value, classmethod | staticmethod)
        heading = member + signature(getattr(cls, member), drop_first=of_instance)
        yield from fenced(f"py:{kind}", heading, text, 4)


def own_docstring(value: Any) -> str:
    """Return the docstring that was written for this object; inherited ones are shown elsewhere."""
    value = getattr(value, "__func__", value)
    return inspect.cleandoc(getattr(value, "__doc__", None) or "")


def fenced(directive: str, argument: str, lines: Any, ticks: int) -> Iterator[str]:
    """Yield a directive of the Python domain."""
    fence = ":" * ticks
    yield f"{fence}{{{directive}}} {argument}"
    if directive != "py:module" and ticks != 4:
        yield ":module: rlzoo"
    yield ""
    yield from lines
    yield fence
    yield ""


def link(name: str) -> str:
    """Return a link to a public class or function."""
    return f"{{py:obj}}`{name} <rlzoo.{name}>`"


def signature(value: Any, drop_first: bool = False) -> str:
    """Return the arguments of a function or class, as they are written."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = list(found.parameters.values())[drop_first:]
    if any(parameter.name == "_init_setup_model" for parameter in parameters):
        parameters = [each for each in parameters if each.name != "_init_setup_model"]
    written = [each.replace(annotation=each.empty, default=each.empty) for each in parameters]
    texts: list[str] = []
    for each, bare in zip(parameters, written, strict=True):
        text = str(bare)
        if each.annotation is not each.empty:
            text += f": {annotation(each.annotation)}"
        if each.default is not each.empty:
            text += f" = {default(each.default)}" if ":" in text else f"={default(each.default)}"
        if each.kind is each.KEYWORD_ONLY and not any(text.startswith("*") for text in texts):
            texts.append("*")
        texts.append(text)
    returned = found.return_annotation
    arrow = "" if returned is found.empty or inspect.isclass(value) else f" -> {annotation(returned)}"
    return f"({', '.join(texts)}){arrow}"


def annotation(value: Any) -> str:
    """Return an annotation as it is written in the source."""
    return value if isinstance(value, str) else inspect.formatannotation(value)


def default(value: Any) -> str:
    """Return a default as it is written in the source."""
    if inspect.isclass(value) or inspect.isfunction(value):
        return str(value.__name__)
    return "..." if ADDRESS.search(repr(value)) else repr(value)


def body_of(value: Any) -> list[str]:
    """Return the docstring of a class or function; hyperparameters have separate pages."""
    text = inspect.getdoc(value) or ""
    if inspect.isclass(value) and hasattr(value, "Config"):
        text = re.sub(r"(?ms)^Args:\n.*", "", text)
    return docstring_lines(text)


def docstring_lines(text: str) -> list[str]:
    """Return a docstring as Markdown: examples become code blocks, and fields one list."""
    lines: list[str] = []
    blocks = re.split(r"\n\s*\n", text.strip("\n"))
    for block in blocks:
        lines += ["", *block_lines(block)]
    return lines


def block_lines(block: str) -> Iterator[str]:
    """Yield the Markdown of what stands between two blank lines."""
    if block.startswith(("Example:", "Examples:")):
        _, _, rest = block.partition("\n")
        block = textwrap.dedent(rest)
        if not block.startswith(">>>"):
            block = textwrap.indent(block, "    ")
    plain = textwrap.dedent(block)
    if plain.startswith(">>>"):
        yield from ("```pycon", *re.sub(r"  # doctest: \+\w+", "", plain).splitlines(), "```")
    elif FIELD.match(plain):
        yield from (escaped(line) for line in plain.splitlines())
    elif block.startswith("    "):
        yield from ("```text", *plain.splitlines(), "```")
    else:
        yield from list_lines(plain)


def list_lines(block: str) -> Iterator[str]:
    """Yield a paragraph; an indented continuation that is a table becomes code."""
    head = [line for line in block.splitlines() if not line.startswith("    ")]
    if len(head) < len(block.splitlines()) and not head[-1].startswith(("-", "*", "1")):
        first = next(i for i, line in enumerate(block.splitlines()) if line.startswith("    "))
        yield from (escaped(line) for line in block.splitlines()[:first])
        rest = textwrap.dedent("\n".join(block.splitlines()[first:]))
        yield from ("", "```text", *rest.splitlines(), "```")
    else:
        yield from (escaped(line) for line in block.splitlines())


def escaped(line: str) -> str:
    """Escape what Markdown would read as HTML, outside of code."""
    parts = line.split("`")
    return "`".join(part if i % 2 else re.sub(r"([<$*])", r"\\\1", part) for i, part in enumerate(parts))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("api", Api)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""YAML as people write it for this zoo: `1e-3` is a number, keys are unique, and no tag creates an object.

YAML 1.1 reads `1:30` as ninety, `010` as eight and `2020-01-01` as a date; here they are texts.

The two tags that rl_zoo3 writes into its files, tuples and ordered dictionaries, are read as plain values.

Nesting and aliases are counted while the text is parsed into events, before anything is built from it: the
parser keeps its own stack, but building recurses, in C, and a few aliases can make any number of values.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rlzoo.core.errors import UserError

MAX_DEPTH = 100
MAX_VALUES = 300_000
"""Values of a document, those behind an alias counted each time."""
MAX_NUMBER = 1000
"""Characters of a number."""
_Base: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_NUMBERS = {
    "int": re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F]+)$"),
    "float": re.compile(
        r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*\.[0-9_]*)(?:[eE][-+]?[0-9]+)?$|[-+]?[0-9]+[eE][-+]?[0-9]+$"
        r"|[-+]?\.inf$|\.nan$"
    ),
}


class Loader(_Base):  # type: ignore[valid-type, misc]
    """A SafeLoader that also reads `1e-3` as a number and `None` as null, and refuses a key given twice."""

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Hashable, object]:
        if isinstance(node, yaml.MappingNode):
            _refuse_duplicates(node)
        mapping: dict[Hashable, object] = super().construct_mapping(node, deep=deep)
        return mapping

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        try:
            if (
                isinstance(node, yaml.ScalarNode)
                and len(node.value) > MAX_NUMBER
                and node.tag in _NUMBER_TAGS
            ):
                raise ValueError
            return super().construct_object(node, deep=deep)
        except (AttributeError, LookupError, TypeError, ValueError):  # of a tag that does not fit its value
            kind = node.tag.rpartition(":")[2]
            shown = (
                f"{node.value[:40]!r}"
                if isinstance(node, yaml.ScalarNode)
                else f"this {getattr(node, 'id', 'value')}"
            )
            raise yaml.MarkedYAMLError(
                problem=f"{shown} is no {kind}", problem_mark=node.start_mark
            ) from None


def load_yaml(text: str, where: str) -> Any:
    """Parse one YAML document.

    :param where: the file, or what else the text is, for the error
    :raises UserError: one line that names `where` and the line
    """
    try:
        _check_extent(text)
        return yaml.load(text, Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        last = text.rstrip().count("\n")  # a document that stops too early is wrong on its last line
        line = f", line {min(mark.line, last) + 1}" if mark else ""
        raise UserError(f"{where}{line}: {' '.join(str(error.problem or error.context).split())}") from None
    except (yaml.YAMLError, TypeError, ValueError) as error:  # a TypeError: a key that cannot be hashed
        raise UserError(f"{where}: not YAML: {' '.join(str(error).split())}") from None


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the lines of a document's keys: of `(key,)` at the top and of `(key, key)` one level below.

    :param text: what `load_yaml` reads
    """
    lines: dict[tuple[str, ...], int] = {}
    top = yaml.compose(text, Loader)
    for entry, values in top.value if isinstance(top, yaml.MappingNode) else ():
        lines[(str(entry.value),)] = entry.start_mark.line + 1
        for key, _ in values.value if isinstance(values, yaml.MappingNode) else ():
            lines[str(entry.value), str(key.value)] = key.start_mark.line + 1
    return lines


def read_yaml(path: Path) -> Any:
    """Parse a YAML file; see `load_yaml`.

    :raises UserError: also when the file cannot be read or is not UTF-8
    """
    return load_yaml(read_text(path), str(path))


def read_text(path: Path) -> str:
    """Return the text of a user's file.

    :raises UserError: it cannot be read or is not UTF-8
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text file") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def dump_yaml(values: object) -> str:
    """Return plain values as YAML that this module, and any other reader, reads back."""
    return str(yaml.dump(values, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=1000))


class _Dumper(yaml.SafeDumper):
    """Mappings over several lines, lists of plain values on one; nothing is written as a reference."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_list(self, data: Iterable[object]) -> yaml.SequenceNode:
        flat = not any(isinstance(item, dict | list) for item in data)
        return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=flat)


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been read."""

    anchor: str | None
    before: int  # values before it
    levels: int = 0  # of nesting inside it


def _check_extent(text: str) -> None:
    """Count the values of a document and its levels of nesting, before they are built.

    :raises yaml.MarkedYAMLError: more than a hyperparameter file can need, or a value that holds itself
    """
    total = 0
    anchors: dict[str | None, tuple[int, int]] = {}  # values and levels behind an alias
    stack: list[_Open] = []  # open lists and mappings
    for event in yaml.parse(text, Loader):
        levels = 0
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append(_Open(event.anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            ended = stack.pop()
            levels = ended.levels + 1
            anchors[ended.anchor] = total - ended.before, levels
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            anchors[event.anchor] = 1, 0
        elif isinstance(event, yaml.AliasEvent):
            if any(opened.anchor == event.anchor for opened in stack):
                _refuse(event, "a value holds itself")
            n_values, levels = anchors.get(event.anchor, (1, 0))  # the loader names one that is not there
            total += n_values
        if stack:
            stack[-1].levels = max(stack[-1].levels, levels)
        if len(stack) + levels > MAX_DEPTH:
            _refuse(event, f"nested more than {MAX_DEPTH} levels deep")
        if total > MAX_VALUES:
            _refuse(event, f"more than {MAX_VALUES:,} values")


def _refuse(event: Any, problem: str) -> None:
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def _refuse_duplicates(node: yaml.MappingNode) -> None:
    seen = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
            continue
        if key.value in seen:
            raise yaml.MarkedYAMLError(problem=f"{key.value!r} is given twice", problem_mark=key.start_mark)
        seen.add(key.value)


def _pairs(loader: Loader, node: yaml.SequenceNode) -> dict[object, object]:
    """Return the pairs of `collections.OrderedDict([[[key, value], ...]])` as RL Baselines3 Zoo dumps it."""
    arguments = loader.construct_sequence(node, deep=True)
    return dict(arguments[0]) if arguments else {}


def _tuple(loader: Loader, node: yaml.SequenceNode) -> tuple[object, ...]:
    return tuple(loader.construct_sequence(node, deep=True))


def _own_scalars(kind: type[Loader | _Dumper]) -> None:
    """Replace the rules by which a loader or dumper tells plain texts from numbers, dates and null."""
    replaced = ("int", "float", "timestamp")
    kind.yaml_implicit_resolvers = {
        first: [(tag, rule) for tag, rule in rules if tag.rpartition(":")[2] not in replaced]
        for first, rules in kind.yaml_implicit_resolvers.items()
    }
    for name, rule in _NUMBERS.items():
        kind.add_implicit_resolver(f"tag:yaml.org,2002:{name}", rule, list("-+.0123456789"))
    kind.add_implicit_resolver("tag:yaml.org,2002:null", re.compile("None$"), ["N"])


_own_scalars(Loader)
_own_scalars(_Dumper)
_Dumper.add_representer(list, _Dumper.represent_list)
Loader.yaml_constructors = {
    tag: constructor
    for tag, constructor in Loader.yaml_constructors.items()
    if tag is None or tag.rpartition(":")[2] in ("null", "bool", "int", "float", "str", "seq", "map")
}  # and no bytes, dates or sets, which no hyperparameter is
Loader.add_constructor("tag:yaml.org,2002:python/object/apply:collections.OrderedDict", _pairs)
Loader.add_constructor("tag:yaml.org,2002:python/tuple", _tuple)

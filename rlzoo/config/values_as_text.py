"""Values written as text, read without ever running them: literals in strings, and YAML.

    literals        1e-3  2.5e-4  true  null  'text'  [64, 64]  {a: 1}  (1, "episode")
    dict(...)       dict(net_arch=[64, 64], activation_fn=nn.ReLU)
    arithmetic      9.81/2  2**14  [64]*3  np.pi/4                  (of numbers; lists are repeated)
    names           nn.ReLU, torch.optim.Adam, RMSpropTFLike         (the table in class_names.py)
    dotted paths    dict(features_extractor_class=my_package.MyExtractor)
    other strings   MlpPolicy, lin_3e-4, my_package.MyWrapper

A string is parsed to a Python syntax tree, and the tree is copied node by node; other nodes are an error.

YAML is as people write it for this zoo: `1e-3` is a number, keys are unique, and no tag creates an object.
YAML 1.1 reads `1:30` as ninety, `010` as eight and `2020-01-01` as a date; here they are texts.

The two tags that rl_zoo3 writes into its files, tuples and ordered dictionaries, are read as plain values.

Nesting and aliases are counted while the text is parsed into events, before anything is built from it: the
parser keeps its own stack, but building recurses, in C, and a few aliases can make any number of values.
"""

from __future__ import annotations

import ast
import json
import math
import operator
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import yaml

from rlzoo.config.class_names import CLASSES, class_path
from rlzoo.core.errors import UserError, unknown
from rlzoo.core.schedules import schedule_text

WRAPPER_KEYS = ("env_wrapper", "vec_env_wrapper", "callback")
CLASS_KEYS = ("activation_fn", "optimizer_class", "features_extractor_class", "replay_buffer_class")

_TABLED = ("nn.", "optim.", "th.nn.", "th.optim.", "torch.nn.", "torch.optim.")
_WORDS = {"true": True, "false": False, "null": None, "none": None}
_CONSTANTS = {f"{module}.{name}": getattr(math, name) for module in ("np", "math") for name in ("pi", "inf")}
_OPERATORS: dict[type[ast.operator], Callable[..., object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}$")


@dataclass(frozen=True)
class Name:
    """A class by its dotted path; the layers to the right import it."""

    path: str


class _NotAValue(Exception):
    """The text has no reading in the grammar."""


def parse_value(text: str) -> object:
    """Parse a value from the command line, or in quotes in a YAML file.

    :raises UserError: brackets or `dict(` that do not hold plain values, or an unknown `nn.` or `torch.` name
    """
    stripped = text.strip()
    if _DATE.match(stripped):
        return stripped
    python_only = stripped.startswith(("dict(", "("))
    try:
        return _value(ast.parse(stripped, mode="eval").body, words_are_names=stripped.startswith("dict("))
    except UserError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError, _NotAValue) as error:
        if python_only:
            reason = error if isinstance(error, _NotAValue) else "a bracket, comma or quote is missing"
            raise UserError(f"{_short(stripped)} is no plain value: {reason}") from None
    try:
        return _interpret("", load_yaml(stripped, "value"))
    except UserError:
        if stripped.startswith(("[", "{")):
            raise UserError(f"{_short(stripped)} is no plain value") from None
        return stripped


def parse_overrides(items: Iterable[str]) -> dict[str, object]:
    """Parse `key:value` arguments to nested dictionaries; the dots of a key are levels, and levels merge.

    >>> parse_overrides(["n_steps:256", "policy_kwargs.net_arch:[64, 64]"])
    {'n_steps': 256, 'policy_kwargs': {'net_arch': [64, 64]}}

    :raises UserError: an argument is not of the form `key:value`
    """
    overrides: dict[str, object] = {}
    for item in items:
        path, colon, text = item.partition(":")
        keys = path.strip().split(".")
        if not colon or not all(keys) or not text.strip():
            raise UserError(f"{item!r} is not of the form key:value, such as learning_rate:1e-3")
        if len(keys) > MAX_DEPTH:
            raise UserError(f"{_short(item)} has {len(keys)} levels; at most {MAX_DEPTH} are possible")
        overrides = merge(overrides, _nested(keys, parse_value(text)))
    return interpret(overrides)


def overrides_of(given: Mapping[str, object] | Iterable[str]) -> dict[str, object]:
    """Return nested overrides from `key:value` arguments, or from a dictionary with dots in its keys.

    >>> overrides_of({"n_steps": 256, "policy_kwargs.net_arch": [64, 64]})
    {'n_steps': 256, 'policy_kwargs': {'net_arch': [64, 64]}}
    """
    if not isinstance(given, Mapping):
        return parse_overrides(given)
    overrides: dict[str, object] = {}
    for path, value in given.items():
        overrides = merge(overrides, _nested(str(path).split("."), value))
    return interpret(overrides)


def _nested(keys: Sequence[str], value: object) -> dict[str, object]:
    """Return a value inside one dictionary for each key."""
    *outer, last = keys
    nested = {last: value}
    for key in reversed(outer):
        nested = {key: nested}
    return nested


def override_text(key: str, value: object) -> str:
    """Return a `key:value` argument that `parse_overrides` reads as this value.

    :param value: as YAML holds it: texts, numbers, booleans, lists and dictionaries

    >>> override_text("policy_kwargs", {"net_arch": [64, 64]})
    'policy_kwargs:{"net_arch": [64, 64]}'
    """
    is_text = isinstance(value, str) and value.strip() != ""
    if is_text and parse_overrides([f"{key}:{value}"]) == interpret({key: value}):
        return f"{key}:{value}"
    return f"{key}:{json.dumps(value)}"


def merge(values: Mapping[str, object], overrides: Mapping[str, object]) -> dict[str, object]:
    """Return `values` with `overrides` on top; dictionaries merge, except those naming a wrapper."""
    merged = dict(values)
    for key, value in overrides.items():
        old = merged.get(key)
        nested = isinstance(old, Mapping) and isinstance(value, Mapping) and key not in WRAPPER_KEYS
        merged[key] = merge(old, value) if nested else value  # type: ignore[arg-type]
    return merged


def interpret(values: Mapping[str, object]) -> dict[str, Any]:
    """Return an entry of a hyperparameter file with its strings parsed.

    `"dict(...)"` and quoted brackets become values, `nn.ReLU` and the other names of the table `Name`s,
    and so does any dotted path under one of the `CLASS_KEYS`. The entry itself is left as it was.
    """
    return {key: _interpret(str(key), value) for key, value in values.items()}


def plain(value: object) -> Any:
    """Return the value in types that YAML can write: the inverse of `interpret`.

    A class becomes its dotted path, a schedule its text, a tuple a list, any other function its name.
    """
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, type):
        library = next(
            (lib for lib in ("torch.nn", "torch.optim") if value.__module__.startswith(f"{lib}.")), None
        )
        value = Name(f"{library or value.__module__}.{value.__qualname__}")
    if isinstance(value, Name):
        short = value.path.removeprefix("torch.").removeprefix("rlzoo.")
        return short if CLASSES.get(short) == value.path else value.path
    text = schedule_text(value) if callable(value) else None
    return text if text is not None else getattr(value, "__qualname__", repr(value))


def is_function(value: object) -> bool:
    """Return whether a value is a user's function, as a Python file may hold it and YAML cannot."""
    return callable(value) and not isinstance(value, type | Name) and schedule_text(value) is None


def _interpret(key: str, value: object) -> object:
    if isinstance(value, Mapping):
        return interpret(value)
    if isinstance(value, list):
        return [_interpret("", item) for item in value]
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith(("dict(", "(", "[", "{")):
        return parse_value(value)
    if value in CLASSES:
        return Name(CLASSES[value])
    if key == "activation_fn" and "." not in value:
        return value  # "relu": policies know activations by their lower-case names
    return _class_name(value) if key in CLASS_KEYS else value


def _class_name(text: str) -> Name:
    """Return a class from a short name or a dotted path."""
    if text in CLASSES:
        return Name(CLASSES[text])
    dotted = "." in text and all(part.isidentifier() for part in text.split("."))
    if not dotted or text.startswith(_TABLED):
        raise unknown("name", text, CLASSES)
    return Name(class_path(text))


def _value(node: ast.expr, words_are_names: bool) -> object:
    """Copy a syntax tree into plain values.

    :param words_are_names: an unknown bare word is an error, as in Python, not a string, as in YAML
    """
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as constant):
            return constant
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            number = _value(operand, words_are_names)
            if isinstance(number, int | float):
                return -number if isinstance(sign, ast.USub) else number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            left_value, right_value = _value(left, words_are_names), _value(right, words_are_names)
            return _calculate(_OPERATORS[type(op)], left_value, right_value, node)
        case ast.List(elts=items):
            return [_value(item, words_are_names) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_value(item, words_are_names) for item in items)
        case ast.Dict(keys=keys, values=values):
            return {
                _key(key): _value(value, words_are_names) for key, value in zip(keys, values, strict=True)
            }
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords) if all(k.arg for k in keywords):
            return {str(keyword.arg): _value(keyword.value, True) for keyword in keywords}
        case ast.Name() | ast.Attribute():
            return _word(_dotted(node), words_are_names)
    raise _NotAValue(f"{_short(ast.unparse(node))} is not allowed")


def _calculate(operation: Callable[..., object], left: object, right: object, node: ast.expr) -> object:
    """Return the result for two numbers, or for a list of plain values that is repeated.

    :param node: the expression
    :raises UserError: the result is too large or not finite, or there is none
    """
    if operation is operator.mul and isinstance(right, list | tuple):
        left, right = right, left
    result: object = None
    if operation is operator.mul and isinstance(left, list | tuple) and isinstance(right, int):
        flat = not any(isinstance(item, list | tuple | dict) for item in left)
        result = left * right if flat and len(left) * right <= MAX_REPEATED else None
    elif not (_is_number(left) and _is_number(right)):
        raise _NotAValue(f"{_short(ast.unparse(node))} is not allowed")
    elif operation is not operator.pow or (abs(left) <= MAX_NUMBER and abs(right) <= MAX_POWER):
        with suppress(ArithmeticError):
            result = operation(left, right)
    too_large = _is_number(result) and not abs(result) < LARGEST_RESULT
    if result is None or isinstance(result, complex) or too_large:
        text = _short(ast.unparse(node))
        raise UserError(f"{text} has no result, or one that is too large; put a string in quotes")
    return result


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _key(node: ast.expr | None) -> object:
    match node:
        case ast.Name() | ast.Attribute():
            return _dotted(node)
        case ast.Constant(value=str() | int() as constant):
            return constant
    raise _NotAValue("a key must be a word, a text or a whole number")


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=word):
            return word
        case ast.Attribute(value=owner, attr=attribute):
            return f"{_dotted(owner)}.{attribute}"
    raise _NotAValue(f"{_short(ast.unparse(node))} is not allowed")


def _word(word: str, words_are_names: bool) -> object:
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    if word in CLASSES:
        return Name(CLASSES[word])
    if word.startswith(_TABLED):
        raise unknown("name", word, CLASSES)
    return _class_name(word) if words_are_names else load_yaml(word, "value")


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


MAX_DEPTH = 100
MAX_VALUES = 300_000
"""Values of a document, those behind an alias counted each time."""
MAX_NUMBER = 1000
"""Characters of a number, and the largest base of a power."""
MAX_POWER = 100
"""Largest exponent of a power."""
MAX_REPEATED = 100
"""Items of a list that is written as a shorter one, repeated."""
LARGEST_RESULT = 1e300
"""Results are below it."""
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


def _name(loader: Loader, path: str, node: yaml.Node) -> Name:
    """Return the class that `!!python/name:PATH ''` names, as if it were written by its dotted path."""
    if not (isinstance(node, yaml.ScalarNode) and all(part.isidentifier() for part in path.split("."))):
        raise yaml.MarkedYAMLError(problem=f"no class is named {path!r}", problem_mark=node.start_mark)
    return Name(path)


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
Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", _name)

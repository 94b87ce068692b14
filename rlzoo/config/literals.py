"""Values written as text, read without ever running them.

    literals        1e-3  2.5e-4  true  null  'text'  [64, 64]  {a: 1}  (1, "episode")
    dict(...)       dict(net_arch=[64, 64], activation_fn=nn.ReLU)
    names           nn.ReLU, torch.optim.Adam, RMSpropTFLike         (the table in class_names.py)
    dotted paths    dict(features_extractor_class=my_package.MyExtractor)
    other strings   MlpPolicy, lin_3e-4, my_package.MyWrapper

A string is parsed to a Python syntax tree, and the tree is copied node by node; other nodes are an error.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlzoo.config.class_names import CLASSES, class_path
from rlzoo.config.yaml_text import MAX_DEPTH, load_yaml
from rlzoo.core.errors import UserError, unknown
from rlzoo.core.schedules import schedule_text

WRAPPER_KEYS = ("env_wrapper", "vec_env_wrapper", "callback")
CLASS_KEYS = ("activation_fn", "optimizer_class", "features_extractor_class", "replay_buffer_class")

_TABLED = ("nn.", "optim.", "th.nn.", "th.optim.", "torch.nn.", "torch.optim.")
_WORDS = {"true": True, "false": False, "null": None, "none": None}


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
        case ast.UnaryOp(
            op=ast.USub() | ast.UAdd() as sign, operand=ast.Constant(value=int() | float() as number)
        ):
            return -number if isinstance(sign, ast.USub) else number
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
    if word in CLASSES:
        return Name(CLASSES[word])
    if word.startswith(_TABLED):
        raise unknown("name", word, CLASSES)
    return _class_name(word) if words_are_names else load_yaml(word, "value")


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")

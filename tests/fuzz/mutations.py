"""Seeded mutations of bytes, text and trees of values (JSON, YAML)."""

from __future__ import annotations

import json
import math
import re
import struct
from random import Random
from typing import Any

import yaml

CANARY = "rlzoo_canary"
"""In every payload: the name of a module that must not be imported and of commands that must not be run."""

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 100, 2**15, 2**31, -(2**31), 2**53, 2**63 - 1, 2**63, -(2**64), 10**40,
    0.5, -0.5, 1.5, -0.0, 1e-320, 1e-9, 1e9, 1e308, -1e308, math.nan, math.inf, -math.inf,
    "", " ", "x", "-1", "nan", "1e400", "0x10", "None", "é\u202e\U0001f600", "a\x00b", "\x1b[31m",
    "a\nb: c", "x" * 3000,
    "../../x", "/", ".", "a.b.c", "MlpPolicy", "lin_0.1", "auto", "cuda:99", "dict(a=1)", "[1, 2]", "{}",
    [], [[]], [0], [-1, 2], [None], ["x"], [1] * 1000, [20000, 20000], {}, {"": 0}, {"a": {"b": None}},
    {"x": [1]},
)  # fmt: skip
ODD_NUMBERS = (
    0,
    1,
    -1,
    0.5,
    255,
    256,
    2**31 - 1,
    -(2**31),
    2**63 - 1,
    1e30,
    1e300,
    math.nan,
    math.inf,
    -math.inf,
)
ODD_TEXTS = (
    "", " ", "\t", "\n", "\r", "\x00", "\x1b[2J", "\ufeff", "'", '"', "#", ",", ":", ": ", "- ", "{", "}",
    "[", "]", "&a ", "*a",
    "!!int ", "!!bool x", "!!python/name:os.system ", "!!timestamp x", "<<: ", "? ", "---\n", "nan",
    "-inf", "1e999", "9" * 400,
    "\\", "%", "$", "(", ")", "=", "__class__", "lambda: 0", "é", "\u2028",
    f"!!python/object/apply:os.system ['touch {CANARY}']", f"__import__('os').system('touch {CANARY}')",
)  # fmt: skip
PICKLE = f"cos\nsystem\n(S'touch {CANARY}'\ntR.".encode()
"""What `pickle.loads` would run."""


# -- bytes and text -----------------------------------------------------------------------------


def mutate_bytes(rng: Random, data: bytes) -> bytes:
    """Flip, cut, insert, repeat or overwrite a few bytes."""
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(content) + 1)
        length = min(rng.choice((1, 2, 4, 8, 64, 1000)), len(content) - at)
        match rng.randrange(6):
            case 0 if at < len(content):
                content[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(content):
                content[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 2:
                del content[at : at + length]
            case 3:
                content[at:at] = bytes(content[at : at + length]) or b"\x00"
            case 4:
                number = rng.choice((0, 1, 2**31 - 1, 2**32 - 1, 2**63, 2**64 - 1))
                content[at : at + 8] = struct.pack(rng.choice("<>") + "Q", number)
            case 5:
                del content[at:]
    return bytes(content)


def mutate_text(rng: Random, data: bytes) -> bytes:
    """Change, drop, repeat or swap words and lines."""
    lines = data.decode(errors="surrogateescape").split("\n")
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(8):
            case 0 if len(lines) > 1:
                del lines[at]
            case 1:
                lines[at:at] = [lines[other]] * rng.choice((1, 1, 2, 50))
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case 3 | 4:
                lines[at] = _replace_word(rng, lines[at])
            case 5:
                column = rng.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:column] + rng.choice(ODD_TEXTS) + lines[at][column:]
            case 6:
                lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]
            case 7:
                fields = lines[at].split(",")
                fields[rng.randrange(len(fields))] = str(rng.choice(ODD))
                lines[at] = ",".join(fields)
    return "\n".join(lines).encode(errors="surrogatepass")


def _replace_word(rng: Random, line: str) -> str:
    words = list(re.finditer(r"[\w.+-]+", line))
    if not words:
        return str(rng.choice(ODD))
    word = rng.choice(words)
    value = rng.choice((rng.choice(ODD), rng.choice(ODD_NUMBERS), rng.choice(words)[0], word[0][::-1]))
    return line[: word.start()] + str(value) + line[word.end() :]


# -- trees --------------------------------------------------------------------------------------


def mutate_tree(rng: Random, tree: Any, odd: tuple[Any, ...] = ODD) -> Any:
    """Replace, remove, rename, move or nest some values of lists and dictionaries; returns another tree."""
    root = [json.loads(json.dumps(tree))]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        owner, key = rng.choice(_places(root))
        _edit(rng, root, owner, key, odd)
    return root[0]


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """(container, key or index) of every value in a tree."""
    found: list[tuple[Any, Any]] = []
    items = enumerate(tree) if isinstance(tree, list) else tree.items() if isinstance(tree, dict) else ()
    for key, value in items:
        found += [(tree, key), *_places(value)]
    return found


def _edit(rng: Random, root: list[Any], owner: Any, key: Any, odd: tuple[Any, ...]) -> None:
    value = owner[key]
    match rng.randrange(10):
        case 0 if owner is not root:
            del owner[key]
        case 1 if isinstance(owner, dict):
            owner[rng.choice(("", "x", str(key).upper(), f"{key}s", "$class", "__class__"))] = owner.pop(key)
        case 2:
            other, place = rng.choice(_places(root))
            owner[key] = json.loads(json.dumps(other[place]))
        case 3:
            owner[key] = rng.choice(([value], {"x": value}, [value, value], str(value), [[value]]))
        case 4 if isinstance(value, list) and value:
            owner[key] = rng.choice((value[:-1], value[1:], value * 2, value[::-1], [*value, value[0]]))
        case 5 | 6 if type(value) in (int, float) and math.isfinite(value):
            change = (-value, value + 1, value - 1, value * 1000, value / 2, float(value), str(value))
            owner[key] = rng.choice(change) if abs(value) < 1e300 else 0
        case 5 | 6 if isinstance(value, str):
            owner[key] = rng.choice((value[1:], value[::-1], value.upper(), value + "x", value * 20, [value]))
        case _:
            owner[key] = json.loads(json.dumps(rng.choice(odd)))


def mutate_json(rng: Random, data: bytes, odd: tuple[Any, ...] = ODD) -> bytes:
    """Mutate the values of a JSON file, or its text."""
    if rng.random() < 0.2 or b"}\n{" in data:  # or it holds one value a line
        return mutate_text(rng, data)
    if rng.random() < 0.01:
        return nested(rng)
    tree = mutate_tree(rng, json.loads(data), odd)
    return json.dumps(tree, ensure_ascii=rng.random() < 0.5).encode(errors="surrogatepass")


def mutate_yaml(rng: Random, data: bytes) -> bytes:
    """Mutate the values of a YAML file, or its text."""
    if rng.random() < 0.4:
        return mutate_text(rng, data)
    if rng.random() < 0.01:
        return rng.choice((nested(rng), MERGES.encode(), ALIASES.encode()))
    tree = mutate_tree(rng, yaml.safe_load(data))
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True).encode(errors="surrogatepass")


def nested(rng: Random) -> bytes:
    """Lists in lists, to any depth."""
    depth = rng.choice((50, 200, 3000, 100_000))
    return rng.choice((b"[", b'{"a":', b"a: ["))[:5] * depth + rng.choice((b"", b"]" * depth))


_LEVELS = [f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(9)]
ALIASES = "\n".join(["a0: &a0 [x]", *_LEVELS])
MERGES = "\n".join(
    ["a0: &a0 {x: 1}"] + [f"a{n + 1}: &a{n + 1} {{<<: [{', '.join([f'*a{n}'] * 9)}]}}" for n in range(9)]
)

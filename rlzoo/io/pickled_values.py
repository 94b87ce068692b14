"""NumPy arrays, numbers and plain values in the tree of a pickle (see `rlzoo.io.pickle_tree`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlzoo.core.errors import CheckpointError
from rlzoo.io.pickle_tree import MAX_VALUES, Instance, checked_key

_ROOTS = ("numpy._core.", "numpy.core.")
_EMPTY = ("multiarray._reconstruct",)
_FROM_BUFFER = ("numeric._frombuffer",)
_SCALAR = ("multiarray.scalar",)
_PLAIN_MAKERS: dict[str, Any] = {
    "collections.OrderedDict": dict,
    "collections.deque": list,
    "builtins.dict": dict,
    "builtins.list": list,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
}
_BYTES = {"_codecs.encode": bytes, "builtins.bytes": bytes, "builtins.bytearray": bytearray}
"""How older protocols write bytes: as a text of Latin-1, or as its call."""
MAX_DEPTH = 60
MAX_BYTES = 256 * 2**20
"""Bytes of arrays, those that stand in several places counted each time."""


def plain_value(tree: object, left: Allowance | None = None) -> Any:
    """Return plain values, arrays and containers of them; references and other instances stay as they are.

    :param left: what the trees of one file may take together
    :raises CheckpointError: the tree is nested too deeply or too large, or damaged
    """
    try:
        return _Reader(left or Allowance()).read(tree, 0)
    except CheckpointError:
        raise
    except (TypeError, ValueError) as error:  # of a container that is made of something else
        raise CheckpointError(f"a damaged pickle: {error}"[:200]) from None


@dataclass
class Allowance:
    """What trees may still take: a few instructions can name one array a million times."""

    values: int = MAX_VALUES
    n_bytes: int = MAX_BYTES


class _Reader:
    def __init__(self, left: Allowance) -> None:
        self.left = left

    def read(self, tree: object, depth: int) -> Any:
        value = self._read(tree, depth)
        if isinstance(value, np.ndarray | bytes | bytearray):
            self.left.n_bytes -= value.nbytes if isinstance(value, np.ndarray) else len(value)
            if self.left.n_bytes < 0:
                raise CheckpointError(f"a pickle with more than {MAX_BYTES:,} bytes of arrays")
        return value

    def key(self, tree: object, depth: int) -> Any:
        value = self.read(tree, depth)
        return checked_key(value.item() if isinstance(value, np.generic) else value)

    def _read(self, tree: object, depth: int) -> Any:
        self.left.values -= 1
        if depth > MAX_DEPTH:
            raise CheckpointError("a pickle that is nested too deeply")
        if self.left.values < 0:
            raise CheckpointError("a pickle of too many values")
        if isinstance(tree, set | frozenset):
            return type(tree)(self.key(item, depth + 1) for item in tree)
        if isinstance(tree, list | tuple):
            return type(tree)(self.read(item, depth + 1) for item in tree)
        if isinstance(tree, dict):
            return {self.key(key, depth + 1): self.read(item, depth + 1) for key, item in tree.items()}
        if not isinstance(tree, Instance):
            return tree
        path = tree.path.replace("__builtin__.", "builtins.")
        name = _numpy_name(path)
        if name in (*_EMPTY, *_FROM_BUFFER, *_SCALAR) or path == "numpy.dtype":
            return read_numpy(tree)
        if path in _BYTES:
            return _BYTES[path](read_bytes(tree))
        if path in _PLAIN_MAKERS:
            kind = _PLAIN_MAKERS[path]
            items = [item for content in (*tree.args[:1], tree.items) for item in content]
            if kind is dict:
                entries = [(key, item) for key, item in (*items, *tree.entries)]
                return {self.key(key, depth + 1): self.read(item, depth + 1) for key, item in entries}
            read = self.key if kind in (set, frozenset) else self.read
            return kind(read(item, depth + 1) for item in items)
        return tree


def _numpy_name(path: str) -> str:
    return next((path.removeprefix(root) for root in _ROOTS if path.startswith(root)), "")


def read_numpy(tree: Instance) -> Any:
    """Return the array, number or dtype that an instance of NumPy's describes.

    :raises CheckpointError: it is damaged, or of Python objects
    """
    try:
        if tree.path == "numpy.dtype":
            return _dtype(tree)
        name = _numpy_name(tree.path)
        if name in _SCALAR:
            dtype, content = _dtype(tree.args[0]), tree.args[1]
            return _array(content, (), dtype, "C")[()]
        if name in _FROM_BUFFER:
            content, dtype, shape, order = tree.args
            return _array(content, shape, _dtype(dtype), order)
        if tree.state is None:
            raise CheckpointError("an array without numbers")
        _, shape, dtype, fortran, content = tree.state
        return _array(content, shape, _dtype(dtype), "F" if fortran else "C")
    except CheckpointError:
        raise
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        raise CheckpointError(f"a damaged array in a pickle: {error}"[:200]) from None


def _dtype(tree: object) -> np.dtype[np.generic]:
    """Return the dtype that the pickled call `numpy.dtype("f4", False, True)` and its state describe."""
    if not isinstance(tree, Instance) or tree.path != "numpy.dtype" or not isinstance(tree.args[0], str):
        raise CheckpointError("an array in a pickle has no dtype")
    dtype: np.dtype[np.generic] = np.dtype(tree.args[0])
    if dtype.kind not in "biuf" or dtype.itemsize > 16:
        raise CheckpointError(f"an array of {str(tree.args[0])[:20]!r} in a pickle, which is not read")
    order = tree.state[1] if isinstance(tree.state, tuple) and len(tree.state) > 1 else "="
    return dtype.newbyteorder("<" if order == "<" else ">" if order == ">" else "=")


def read_bytes(content: object) -> bytes:
    """Decode bytes as any pickle protocol writes them.

    :raises CheckpointError: the value does not encode bytes
    """
    for _ in range(2):  # bytearray(encode(text))
        if isinstance(content, Instance) and content.path.replace("__builtin__.", "builtins.") in _BYTES:
            content = content.args[0] if content.args else b""
    if isinstance(content, str):  # of Python 2, or of a protocol without bytes
        content = content.encode("latin1", errors="replace")
    if not isinstance(content, bytes | bytearray):
        raise CheckpointError("an array in a pickle holds no numbers")
    return bytes(content)


def _array(content: object, shape: object, dtype: np.dtype[np.generic], order: object) -> np.ndarray:
    content = read_bytes(content)
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    if not all(type(size) is int and 0 <= size < 2**40 for size in sizes) or len(sizes) > 32:
        raise CheckpointError("an array in a pickle has no shape")
    if math.prod(sizes) * dtype.itemsize != len(content):
        raise CheckpointError("an array in a pickle is not of the size that it declares")
    array = np.frombuffer(content, dtype).reshape(sizes, order="F" if order == "F" else "C")
    return array.astype(dtype.newbyteorder("="))

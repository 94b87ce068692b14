"""Values of a model as JSON and tensors, and back, without pickles.

Two pairs of functions. `pack` and `unpack` are for state (optimisers, counters, random generators): any
nesting of plain values, tensors and arrays comes back equal, type by type. `encode_value` and
`decode_value` are for hyperparameters: also classes, schedules, spaces and callables, which travel as
names. What JSON lacks is an object with one key that starts with `$`.
"""

from __future__ import annotations

import functools
import importlib
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from types import FunctionType, ModuleType
from typing import Any, SupportsFloat

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.core.action_noise import NOISE_CLASSES
from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.core.moved_modules import current_name
from rlzoo.core.schedules import make_schedule, schedule_text
from rlzoo.io.container import checkpoint_errors
from rlzoo.io.space_json import space_from_json, space_to_json

TRUSTED_ROOTS = (
    "torch.nn",
    "torch.optim",
    "rlzoo.networks",
    "rlzoo.policies",
    "rlzoo.optim",
    "rlzoo.distributions",
    "rlzoo.buffers",
    "rlzoo.algorithms",
)
"""Where the classes that a file may name by itself are defined. None touches a file or starts a process."""

_DTYPES = """bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64"""
_STORABLE = {getattr(torch, name) for name in _DTYPES.split()}


@dataclass(frozen=True)
class MissingCallable:
    """Stands for a callable that was not written into the file: its name and, of a schedule, its last value.

    Enough to build the model and to predict; to train, the callable itself must be handed over.
    """

    name: str
    value: float | None

    def __call__(self, *_: object) -> float:
        if self.value is None:
            raise CheckpointError(self.how_to_give_it())
        return self.value

    def how_to_give_it(self, attribute: str | None = None) -> str:
        """Return a sentence for the user; `attribute` is the hyperparameter that the callable was, if any."""
        return (
            f"the model file names the callable {self.name!r} but cannot hold it; "
            f"hand it over: load(..., custom_objects={{{(attribute or self.name)!r}: ...}})"
        )


def pack(nested: object, name: str = "") -> tuple[object, dict[str, torch.Tensor]]:
    """Split nested values into a JSON tree and the tensors it refers to by name.

    Dicts (with any plain keys), lists, tuples, numbers (also NaN, infinities and integers of any size),
    texts, None, NumPy scalars and arrays, tensors. The order of dicts is kept. Tensors are named by their
    path, as in `state/0/exp_avg`, and referred to, not copied.

    :param name: the start of every tensor's path
    :raises UserError: a value of another kind, named by its path
    """
    tensors: dict[str, torch.Tensor] = {}
    return _pack(nested, name, tensors), tensors


def _pack(value: object, path: str, tensors: dict[str, torch.Tensor]) -> object:
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, torch.Tensor):
        return {"$tensor": _add_tensor(value.detach(), path, tensors)}
    if isinstance(value, np.ndarray):
        return {"$array": _add_tensor(_tensor_of(value, path), path, tensors)}
    if isinstance(value, np.generic):
        return {"$scalar": [str(value.dtype), _pack(_item(value, path), path, tensors)]}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        items = [_pack(item, _join(path, index), tensors) for index, item in enumerate(value)]
        return items if type(value) is list else {"$tuple": items}
    if isinstance(value, Mapping):
        pairs = [[key, _pack(item, _join(path, key), tensors)] for key, item in value.items()]
        if _plain_keys(value):
            return dict(pairs)
        return {"$dict": [[_pack(key, path, tensors), item] for key, item in pairs]}
    raise UserError(f"{path or 'the value'} cannot be saved: a {type(value).__name__}")


@checkpoint_errors("damaged values in the file")
def unpack(tree: object, tensors: Mapping[str, torch.Tensor]) -> Any:
    """Return the values that `pack` split.

    :raises CheckpointError: the tree is malformed or names a tensor that is not there
    """
    return _unpack(tree, tensors)


def _unpack(tree: object, tensors: Mapping[str, torch.Tensor]) -> Any:
    if isinstance(tree, list):
        return [_unpack(item, tensors) for item in tree]
    if not isinstance(tree, dict):
        return tree
    tag, content = _tag(tree)
    if tag is None:
        return {key: _unpack(item, tensors) for key, item in tree.items()}
    if tag in ("$tensor", "$array"):
        if content not in tensors:
            raise CheckpointError(f"damaged values in the file: the tensor {str(content)[:80]!r} is missing")
        return tensors[content] if tag == "$tensor" else tensors[content].numpy()
    if tag == "$float":
        return _special_float(content)
    if tag == "$scalar":
        return _plain_dtype(content[0]).type(_unpack(content[1], tensors))
    if tag == "$tuple":
        return tuple(_unpack(_list(content), tensors))
    if tag == "$dict":
        return {_unpack(key, tensors): _unpack(item, tensors) for key, item in _list(content)}
    raise CheckpointError(f"damaged values in the file: unknown kind {tag[:40]!r}")


def _tag(tree: dict[str, object]) -> tuple[str | None, Any]:
    """Return kind and content of an object that encodes a value JSON lacks; (None, None) for a plain dict."""
    if len(tree) == 1:
        key, content = next(iter(tree.items()))
        if key.startswith("$"):
            return key, content
    return None, None


def _add_tensor(tensor: torch.Tensor, path: str, tensors: dict[str, torch.Tensor]) -> str:
    if tensor.dtype not in _STORABLE:
        raise UserError(f"{path or 'the value'} cannot be saved: a tensor of {tensor.dtype}")
    name = path or "value"
    while name in tensors:
        name += "~"
    tensors[name] = tensor
    return name


def _tensor_of(array: np.ndarray, path: str) -> torch.Tensor:
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise UserError(f"{path or 'the value'} cannot be saved: an array of {array.dtype}")
    native = np.array(array, array.dtype.newbyteorder("="), order="C")  # a copy: torch wants it writable
    return torch.from_numpy(native)


def _item(value: np.generic, path: str) -> bool | int | float:
    item = value.item()
    if not isinstance(item, bool | int | float):
        raise UserError(f"{path or 'the value'} cannot be saved: a NumPy {value.dtype}")
    return item


def _join(path: str, key: object) -> str:
    return f"{path}/{key}" if path else str(key)


def _list(content: object) -> list[Any]:
    if not isinstance(content, list):
        raise CheckpointError("damaged values in the file: a list is missing")
    return content


def _special_float(content: object) -> float:
    if content not in ("nan", "inf", "-inf"):
        raise CheckpointError(f"damaged values in the file: {str(content)[:40]!r} is no number")
    return float(content)


def _plain_dtype(name: object) -> np.dtype[np.generic]:
    dtype = np.dtype(str(name))
    if dtype.kind not in "biuf":
        raise CheckpointError(f"damaged values in the file: a number of dtype {dtype}")
    return dtype


def encode_value(value: object, progress_remaining: float | None = 1.0) -> object:
    """Return a hyperparameter, or a dict of them by name, as JSON.

    Classes become dotted names, schedules their text form, and noise of ours its name and arguments. A
    callable of the user's becomes its name and, where it is the hyperparameter itself (not inside
    `policy_kwargs` or the like), its value now.

    :param progress_remaining: where the schedules are, from 1 (start of training) to 0; None: the value is no
        schedule, and is not called
    :raises UserError: a value that JSON cannot hold
    """
    if isinstance(value, dict) and _plain_keys(value):
        return {key: _encode_schedule(item, progress_remaining) for key, item in value.items()}
    return _encode_schedule(value, progress_remaining)


def _encode_schedule(value: object, progress_remaining: float | None) -> Any:
    encoded = _encode(value)
    is_named = isinstance(encoded, dict) and "$callable" in encoded
    if (
        is_named
        and callable(value)
        and not isinstance(value, MissingCallable)
        and progress_remaining is not None
    ):
        encoded["value"] = _value_now(value, progress_remaining)
    return encoded


def _plain_keys(value: Mapping[object, object]) -> bool:
    return all(type(key) is str and not key.startswith("$") for key in value)


def _encode(value: object) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, Enum) and isinstance(value, str):
        return value.value
    if isinstance(value, type):
        return {"$class": f"{value.__module__}.{value.__qualname__}"}
    if isinstance(value, np.generic):
        return _encode(_item(value, "a hyperparameter"))
    if isinstance(value, np.ndarray):
        _tensor_of(value, "a hyperparameter")  # refuses what is no number
        return {"$array": [str(value.dtype), list(value.shape), [_encode(item) for item in value.ravel()]]}
    if isinstance(value, spaces.Space):
        return {"$space": space_to_json(value)}
    if isinstance(value, torch.dtype):
        return {"$dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device | PurePath):
        return str(value)
    if isinstance(value, list | tuple):
        items = [_encode(item) for item in value]
        return {"$tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, Mapping):
        if _plain_keys(value):
            return {key: _encode(item) for key, item in value.items()}
        return {"$dict": [[_encode(key), _encode(item)] for key, item in value.items()]}
    if NOISE_CLASSES.get(type(value).__name__) is type(value):
        return {"$noise": [type(value).__name__, _encode(value.arguments())]}
    text = schedule_text(value) if callable(value) else None
    if text is not None:
        return {"$schedule": text}
    if callable(value):
        last = value.value if isinstance(value, MissingCallable) else None
        return {"$callable": _callable_name(value), "value": last}
    raise UserError(f"a hyperparameter of type {type(value).__name__} cannot be written into a model file")


def _callable_name(value: object) -> str:
    if isinstance(value, MissingCallable):
        return value.name
    value = getattr(value, "value_schedule", value)  # a schedule of ours around a function of the user's
    if isinstance(value, functools.partial):
        return _callable_name(value.func)
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def _value_now(schedule: Callable[[float], SupportsFloat], progress_remaining: float) -> float | None:
    try:
        value = float(schedule(progress_remaining))
    except Exception:  # the user's code; that it is no schedule is not our failure
        return None
    return value if math.isfinite(value) else None


@checkpoint_errors("damaged values in the file")
def decode_value(
    tree: object,
    custom_objects: Mapping[str, object] | None = None,
    trusted_modules: Iterable[str | ModuleType] = (),
) -> Any:
    """Return the hyperparameter that `encode_value` wrote.

    Classes of rlzoo's networks, of `torch.nn` and of `torch.optim` are found by their names. So are
    subclasses of these that the running script (`__main__`) defines itself. Any other is taken from
    `custom_objects`, by its dotted name or by the key that holds it (`{"features_extractor_class": Mine}`),
    or imported from a trusted module. A callable found nowhere becomes a `MissingCallable`. Nothing is
    called but constructors of our schedules and noise, and spaces.

    :param trusted_modules: modules, or their dotted names, whose classes and functions (and those of the
        modules inside them) may be imported
    :raises CheckpointError: the tree is malformed, or a class is neither ours nor handed over
    """
    modules = tuple(
        module.__name__ if isinstance(module, ModuleType) else module for module in trusted_modules
    )
    return _Decoder(dict(custom_objects or {}), modules).decode(tree)


@dataclass(frozen=True)
class _Decoder:
    custom_objects: dict[str, object]
    trusted_modules: tuple[str, ...]

    def decode(self, tree: object) -> Any:
        if isinstance(tree, list):
            return [self.decode(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        if tree.keys() == {"$callable", "value"}:
            return self.find_callable(tree["$callable"], tree["value"])
        tag, content = _tag(tree)
        if tag is None:
            return {key: self.decode_entry(key, item) for key, item in tree.items()}
        return self.decode_special(tag, content)

    def decode_special(self, tag: str, content: Any) -> Any:
        match tag:
            case "$class":
                return self.find_class(content)
            case "$schedule":
                return make_schedule(content)
            case "$tuple":
                return tuple(self.decode(item) for item in _list(content))
            case "$dict":
                return {self.decode(key): self.decode(item) for key, item in _list(content)}
            case "$space":
                return space_from_json(content)
            case "$noise":
                return self.make_noise(*content)
            case "$array":
                dtype, shape, items = content
                return np.array(self.decode(_list(items)), _plain_dtype(dtype)).reshape(shape)
            case "$float":
                return _special_float(content)
            case "$dtype" if isinstance(getattr(torch, str(content), None), torch.dtype):
                return getattr(torch, content)
        raise CheckpointError(f"damaged values in the file: {str({tag: content})[:80]}")

    def make_noise(self, name: object, arguments: object) -> Any:
        if name not in NOISE_CLASSES or not isinstance(arguments, dict):
            raise CheckpointError(f"damaged values in the file: {str(name)[:40]!r} is no known noise")
        return NOISE_CLASSES[name](**self.decode(arguments))

    def decode_entry(self, key: str, item: object) -> Any:
        """Decode an attribute or keyword; the caller may hand over what it names instead of the name."""
        if key in self.custom_objects and isinstance(item, dict) and item.keys() & {"$class", "$callable"}:
            return self.custom_objects[key]
        return self.decode(item)

    def find_class(self, name: object) -> Any:
        if not isinstance(name, str):
            raise CheckpointError("damaged values in the file: a class without a name")
        if name in self.custom_objects:
            return self.custom_objects[name]
        name = current_name(name)
        found = _class_of_script(name) or self.look_up(name, TRUSTED_ROOTS + self.trusted_modules)
        if not isinstance(found, type):
            raise CheckpointError(f"the file names the class {name[:120]!r}, which does not exist")
        return found

    def find_callable(self, name: object, value: Any) -> Any:
        if not isinstance(name, str) or not (value is None or type(value) in (int, float)):
            raise CheckpointError("damaged values in the file: a callable without a name")
        if name in self.custom_objects:
            return self.custom_objects[name]
        if _inside(name, self.trusted_modules):
            found = self.look_up(name, self.trusted_modules)
            if isinstance(found, FunctionType):
                return found
        return MissingCallable(name, value)

    def look_up(self, name: str, roots: tuple[str, ...]) -> Any:
        """Return the object of a dotted name, when its module and the defining module are inside `roots`."""
        root = _inside(name, roots)
        if root is None or not _DOTTED_NAME.fullmatch(name):
            raise CheckpointError(_not_trusted(name))
        found: Any = _import(root, name)
        path = root
        for part in name.removeprefix(f"{root}.").split("."):
            path = f"{path}.{part}"
            if isinstance(found, ModuleType) and not hasattr(found, part):
                found = _import(path, name)
            else:
                found = getattr(found, part, None)
        if found is not None and not _inside(f"{getattr(found, '__module__', '')}.", roots):
            raise CheckpointError(_not_trusted(name))
        return found


_DOTTED_NAME = re.compile(r"(__main__|(?!__)[^\W\d]\w*)(\.(?!__)[^\W\d]\w*)+")


def _class_of_script(name: str) -> type | None:
    """Return the class that the running script defines, if its base class is one that a file may name."""
    module, _, attribute = name.partition(".")
    found = vars(sys.modules[module]).get(attribute) if module == "__main__" else None
    if not (isinstance(found, type) and found.__module__ == module):
        return None
    return found if any(_inside(f"{base.__module__}.", TRUSTED_ROOTS) for base in found.__mro__) else None


def _inside(name: str, roots: Iterable[str]) -> str | None:
    return next((root for root in roots if name.startswith(root + ".")), None)


def _import(path: str, name: str) -> ModuleType | None:
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name == path and path != name.partition(".")[0]:
            return None  # so the name is that of no module, and of nothing inside the module before it
        raise CheckpointError(f"{name[:120]} cannot be imported: {error}") from None


def _not_trusted(name: str) -> str:
    shown = name[:120]
    hint = f"custom_objects={{{shown!r}: ...}}"
    if "<" not in name and "." in name:
        hint += f" or trusted_modules=[{shown.rpartition('.')[0]!r}]"
    return (
        f"the model file needs the class {shown!r}; it is not loaded by its name alone, hand it over: {hint}"
    )

"""Pickles read as text: what they would build, without building it.

`pickletools` splits a pickle into opcodes; here they are followed with lists, dictionaries and two kinds of
inert records in the place of everything else: `Reference` for a class or function that the pickle names, and
`Instance` for what it would make by calling one. Nothing is imported, looked up or called, so no pickle can
do anything. What a record means is decided by whoever reads it, from a list of names that it knows.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rlzoo.core.errors import CheckpointError

MAX_OPCODES = 1_000_000
"""Instructions of a pickle, or of all the pickles in a file."""
MAX_KEY_PARTS, MAX_KEY_LENGTH, MAX_KEY_BITS = 8, 4096, 60
"""Keys of dictionaries: items of a tuple, characters of a text, bits of a number. Wider tuples and longer
numbers are hashed anew at each use; larger numbers can be chosen so that all have one hash."""
MAX_VALUES = 1_000_000
"""Values of a tree, those that stand in several places counted each time."""

EXECUTING = (
    "asyncio", "code", "ctypes", "importlib", "multiprocessing", "nt", "os", "pdb", "platform", "popen2",
    "posix", "pty", "runpy", "shutil", "signal", "socket", "subprocess", "sys", "threading", "timeit",
    "urllib", "webbrowser",
)  # fmt: skip
EXECUTING_BUILTINS = ("__import__", "breakpoint", "compile", "eval", "exec", "execfile", "input", "open")
"""Modules and functions that only a pickle made to do harm calls; with `EXECUTING`, for the error message."""


class ExecutingPickle(CheckpointError):
    """A pickle that would run a program."""


@dataclass(frozen=True)
class Reference:
    """A class or function that a pickle names."""

    module: str
    name: str

    @property
    def path(self) -> str:
        """The dotted name."""
        return f"{self.module}.{self.name}"


@dataclass(eq=False)
class Instance:
    """What a pickle would make by calling `maker`.

    :ivar state: what it would set on the object, if anything
    :ivar items: what it would append to the object
    :ivar entries: key-value pairs that it would set in the object
    """

    maker: object
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    state: Any = None
    items: list[object] = field(default_factory=list)
    entries: list[tuple[object, object]] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The dotted name of what it would call; empty where that is no name."""
        return self.maker.path if isinstance(self.maker, Reference) else ""

    def attributes(self) -> dict[object, object]:
        """Return the state as a dictionary, also where there are slots."""
        state = self.state
        if isinstance(state, tuple) and len(state) == 2 and all(isinstance(it, dict | None) for it in state):
            state = {**(state[0] or {}), **(state[1] or {})}
        if not isinstance(state, dict):
            raise CheckpointError(f"{self.path or 'an object'} in the pickle has no attributes")
        return state


def count_opcodes() -> Iterator[int]:
    """Count the instructions that the pickles of one file may have together, for `read_pickle`."""
    return iter(range(MAX_OPCODES))


def read_pickle(content: bytes, opcodes: Iterator[int] | None = None) -> Any:
    """Return the tree of a pickle: plain values, lists, tuples, sets, dictionaries, references and instances.

    >>> import pickle, collections
    >>> read_pickle(pickle.dumps({"a": [1, 2.5, None]}))
    {'a': [1, 2.5, None]}
    >>> read_pickle(pickle.dumps(collections.Counter))
    Reference(module='collections', name='Counter')

    :param opcodes: of `count_opcodes`, shared by the pickles of one file
    :raises CheckpointError: the bytes are no pickle, too long, or need what is not read:
        extensions, or buffers outside of it
    """
    try:
        return _Machine().run(content, count_opcodes() if opcodes is None else opcodes)
    except CheckpointError:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise CheckpointError(f"a damaged pickle: {reason}") from None


def refuse_execution(tree: object, where: str) -> None:
    """Raise if unpickling would run a program: nobody is to load such a file elsewhere either.

    :param where: the pickle stands, for the error
    :raises ExecutingPickle: names the function that would have been called
    """
    for value in walk(tree):
        if isinstance(value, Instance):
            maker = value.maker
            path = maker.path if isinstance(maker, Reference) else ""
            module, _, name = path.rpartition(".")
            root = module.partition(".")[0]
            if root in EXECUTING or (
                root in ("builtins", "__builtin__") and name.split(".")[-1] in EXECUTING_BUILTINS
            ):
                raise ExecutingPickle(f"{where} would call {path[:80]} if it were unpickled: refused")


def walk(tree: object) -> Iterator[object]:
    """Yield every value of a tree once, however often it occurs."""
    pending, seen = [tree], set()
    while pending:
        value = pending.pop()
        if isinstance(value, list | tuple | dict | set | frozenset | Instance):
            if id(value) in seen:
                continue
            seen.add(id(value))
        yield value
        if isinstance(value, dict):
            pending += [part for pair in value.items() for part in pair]
        elif isinstance(value, list | tuple | set | frozenset):
            pending += value
        elif isinstance(value, Instance):
            pending += [value.maker, *value.args, value.kwargs, value.state, *value.items, *value.entries]


class _Mark:
    """Where a group of values on the stack begins."""


class _Machine:
    """The stack and the memo of a pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, object] = {}

    def run(self, content: bytes, opcodes: Iterator[int]) -> Any:
        argument: Any
        for opcode, argument, _ in pickletools.genops(content):
            if next(opcodes, None) is None:
                raise CheckpointError("a pickle of too many instructions")
            if opcode.name == "STOP":
                return self.last(1)[0]
            if opcode.name in _CONSTANTS:
                self.stack.append(_CONSTANTS[opcode.name]())
            elif opcode.name in _ARGUMENTS:
                self.stack.append(argument)
            elif opcode.name in _MEMO_PUT:
                self.memo[int(argument)] = self.top()
            elif opcode.name in _MEMO_GET:
                self.stack.append(self.memo[int(argument)])
            elif opcode.name in _STEPS:
                _STEPS[opcode.name](self, argument)
            elif opcode.name not in ("PROTO", "FRAME"):
                raise CheckpointError(f"a pickle with {opcode.name}, which is not read")
        raise CheckpointError("a pickle without an end")

    def group(self) -> list[object]:
        """Take the values behind the last mark off the stack."""
        at = len(self.stack) - 1
        while not isinstance(self.stack[at], _Mark):
            at -= 1
            if at < 0:
                raise CheckpointError("a damaged pickle: a mark is missing")
        values = self.stack[at + 1 :]
        del self.stack[at:]
        return values

    def last(self, count: int) -> list[Any]:
        """Take the last values off the stack."""
        values = self.stack[max(len(self.stack) - count, 0) :]
        if len(values) < count or any(isinstance(value, _Mark) for value in values):
            raise CheckpointError("a damaged pickle: values are missing")
        del self.stack[len(self.stack) - count :]
        return values

    def top(self) -> Any:
        """Return the last value, which stays."""
        (value,) = self.last(1)
        self.stack.append(value)
        return value

    # ------------------------------------------------------------------ opcodes

    def mark(self, _: object) -> None:
        self.stack.append(_Mark())

    def memoize(self, _: object) -> None:
        self.memo[len(self.memo)] = self.top()

    def pop(self, _: object) -> None:
        self.stack.pop()

    def pop_mark(self, _: object) -> None:
        self.group()

    def duplicate(self, _: object) -> None:
        self.stack.append(self.top())

    def make_tuple(self, _: object) -> None:
        self.stack.append(tuple(self.group()))

    def make_list(self, _: object) -> None:
        self.stack.append(self.group())

    def make_dict(self, _: object) -> None:
        values = self.group()
        self.stack.append(dict(_pairs(values)))

    def make_frozenset(self, _: object) -> None:
        self.stack.append(frozenset(map(checked_key, self.group())))

    def append(self, _: object) -> None:
        self._extend(self.last(1))

    def appends(self, _: object) -> None:
        self._extend(self.group())

    def _extend(self, values: list[object]) -> None:
        owner = self.top()
        if isinstance(owner, set):
            owner.update(map(checked_key, values))
        else:
            (owner.items if isinstance(owner, Instance) else owner).extend(values)

    def set_item(self, _: object) -> None:
        self._set(self.last(2))

    def set_items(self, _: object) -> None:
        self._set(self.group())

    def _set(self, values: list[object]) -> None:
        pairs, owner = _pairs(values), self.top()
        if isinstance(owner, Instance):
            owner.entries.extend(pairs)
        else:
            owner.update(pairs)

    def reference(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self.stack.append(Reference(module, name))

    def reference_of_texts(self, _: object) -> None:
        module, name = self.last(2)
        if not (isinstance(module, str) and isinstance(name, str)):
            raise CheckpointError("a damaged pickle: a name is no text")
        self.stack.append(Reference(module, name))

    def call(self, _: object) -> None:
        maker, args = self.last(2)
        self.stack.append(_called(maker, tuple(args)))

    def new(self, _: object) -> None:
        self.call(None)

    def new_with_keywords(self, _: object) -> None:
        maker, args, kwargs = self.last(3)
        self.stack.append(Instance(maker, tuple(args), dict(kwargs)))

    def call_reference(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self.stack.append(Instance(Reference(module, name), tuple(self.group())))

    def call_first(self, _: object) -> None:
        maker, *args = self.group()
        self.stack.append(Instance(maker, tuple(args)))

    def stored_elsewhere(self, _: object) -> None:
        """Return a value that only the owner of the pickle can find, such as the storage of a tensor."""
        self.stack.append(Instance(None, tuple(self.last(1))))

    def build(self, _: object) -> None:
        (state,) = self.last(1)
        owner = self.top()
        if not isinstance(owner, Instance):
            raise CheckpointError("a pickle that sets attributes of a plain value")
        owner.state = state


def _pairs(values: list[object]) -> list[tuple[object, object]]:
    return list(zip(map(checked_key, values[::2]), values[1::2], strict=True))


def checked_key(value: object) -> object:
    """Return a key of a dictionary, or an item of a set, that is quickly hashed and compared.

    :raises CheckpointError: it is large, nested, or cannot be hashed
    """
    parts = value if isinstance(value, tuple) else (value,)
    if len(parts) > MAX_KEY_PARTS or not all(map(_is_simple, parts)):
        raise CheckpointError("a pickle with large or nested keys")
    return value


def _is_simple(value: object) -> bool:
    if isinstance(value, str | bytes):
        return len(value) <= MAX_KEY_LENGTH
    if isinstance(value, int):
        return value.bit_length() <= MAX_KEY_BITS
    return isinstance(value, float | None | Reference | Instance)


def _called(maker: object, args: tuple[object, ...]) -> object:
    """Record a call; functions that finish an object give that object, with what they would set."""
    if isinstance(maker, Reference) and maker.name.endswith(("_setstate", "_fill_function")) and args:
        if isinstance(args[0], Instance) and len(args) == 2:
            args[0].state = args[1]
            return args[0]
    return Instance(maker, args)


_CONSTANTS: dict[str, Callable[[], object]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": set,
}
_ARGUMENTS = (
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING",
    "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "BINBYTES",
    "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
)  # fmt: skip
_MEMO_PUT = ("PUT", "BINPUT", "LONG_BINPUT")
_MEMO_GET = ("GET", "BINGET", "LONG_BINGET")
_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": _Machine.mark,
    "MEMOIZE": _Machine.memoize,
    "POP": _Machine.pop,
    "POP_MARK": _Machine.pop_mark,
    "DUP": _Machine.duplicate,
    "TUPLE": _Machine.make_tuple,
    "TUPLE1": lambda machine, _: machine.stack.append(tuple(machine.last(1))),
    "TUPLE2": lambda machine, _: machine.stack.append(tuple(machine.last(2))),
    "TUPLE3": lambda machine, _: machine.stack.append(tuple(machine.last(3))),
    "LIST": _Machine.make_list,
    "DICT": _Machine.make_dict,
    "FROZENSET": _Machine.make_frozenset,
    "APPEND": _Machine.append,
    "APPENDS": _Machine.appends,
    "ADDITEMS": _Machine.appends,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
    "GLOBAL": _Machine.reference,
    "STACK_GLOBAL": _Machine.reference_of_texts,
    "REDUCE": _Machine.call,
    "NEWOBJ": _Machine.new,
    "NEWOBJ_EX": _Machine.new_with_keywords,
    "INST": _Machine.call_reference,
    "OBJ": _Machine.call_first,
    "BUILD": _Machine.build,
    "BINPERSID": _Machine.stored_elsewhere,
}

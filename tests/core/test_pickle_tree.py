"""Pickles are followed, and nothing in them is imported, looked up or called."""

from __future__ import annotations

import collections
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlzoo.core.errors import CheckpointError
from rlzoo.io.pickle_tree import Instance, Reference, count_opcodes, read_pickle, refuse_execution, walk
from rlzoo.io.pickled_values import plain_value

PLAIN: dict[str, Any] = {
    "numbers": [0, -1, 255, 65536, 2**40, -(2**70), 1.5, float("inf")],
    "texts": ("", "a\nb", "é", b"\x00\xff", bytearray(b"x")),
    "nothing": (None, True, False, [], {}, (), (1,), (1, 2), (1, 2, 3)),
    "sets": [{1, 2}, frozenset({3})],
    "nested": {"a": {"b": [{"c": (1, [2])}]}},
}


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_come_back(protocol: int) -> None:
    assert plain_value(read_pickle(pickle.dumps(PLAIN, protocol))) == PLAIN


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(3.5),
        np.zeros((0, 2), np.int8),
        np.array([True, False]),
        np.arange(3, dtype=">i4"),
        np.float64(2.5),
        np.int64(7),
        np.bool_(True),
    ],
)
def test_arrays_and_numbers_come_back(value: Any, protocol: int) -> None:
    read = plain_value(read_pickle(pickle.dumps(value, protocol)))
    assert np.array_equal(read, value)
    assert np.asarray(read).dtype == np.asarray(value).dtype.newbyteorder("=")
    assert type(read) is type(value)


def test_shared_and_recursive_values_are_followed() -> None:
    inner = [1]
    read = read_pickle(pickle.dumps([inner, inner]))
    assert read[0] is read[1]
    inner.append(inner)  # type: ignore[arg-type]
    tree = read_pickle(pickle.dumps(inner))
    assert tree[1] is tree
    assert len(list(walk(tree))) == 2
    with pytest.raises(CheckpointError, match="nested too deeply"):
        plain_value(tree)


def test_objects_are_records() -> None:
    counter = collections.Counter("aab")
    tree = read_pickle(
        pickle.dumps([collections.deque([1, 2]), collections.OrderedDict(a=1), counter, os.path.join])
    )
    read = plain_value(tree[:2])
    assert read == [[1, 2], {"a": 1}]
    assert isinstance(tree[2], Instance)
    assert tree[2].path == "collections.Counter"
    assert plain_value(tree[2]) is tree[2]


def test_nothing_is_imported_or_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rlzoo_canary.py").write_text("open('imported', 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    for content in (
        b"crlzoo_canary\nThing\n.",
        b"crlzoo_canary\nThing\n(tR.",
        b"(irlzoo_canary\nThing\n.",
        b"(crlzoo_canary\nThing\no.",
        b"cbuiltins\nopen\n(S'opened'\nS'w'\ntR.",
        b"cos\nsystem\n(S'touch called'\ntR.",
        b"cbuiltins\ngetattr\n(cos\nsystem\nS'__call__'\ntR(S'touch called'\ntR.",
    ):
        assert isinstance(read_pickle(content), Reference | Instance)
    assert "rlzoo_canary" not in sys.modules
    assert [path.name for path in tmp_path.iterdir()] == ["rlzoo_canary.py"]


@pytest.mark.parametrize(
    "content",
    [
        b"cos\nsystem\n(S'x'\ntR.",
        b"(cposix\nsystem\nS'x'\no.",
        b"csubprocess\nPopen\n(S'x'\ntR.",
        b"(S'x'\nios\nsystem\n.",
        b"c__builtin__\neval\n(S'x'\ntR.",
        b"}(S'a'\n(lp0\ncbuiltins\nexec\n(S'x'\ntRau.",
        b"cshutil\nrmtree\n(S'x'\ntR.",
    ],
)
def test_execution_is_named(content: bytes) -> None:
    with pytest.raises(CheckpointError, match=r"the file would call [\w.]+ if it were unpickled: refused"):
        refuse_execution(read_pickle(content), "the file")


@pytest.mark.parametrize(
    "content",
    [
        b"", b".", b"abc", b"N", b"(.", b"t.", b"]a.", b"}s.", b"K\x01b.", b"Vx\nVy\n\x93\x93.",
        b"0.", b"R.", b"h\x00.", b"\x82\x01.", b"P1\n.", b"\x97.", b"}(](K\x01tK\x01u.", b"}(Nu.",
        b"I" + b"9" * 5000 + b"\n.", b"(\x94.", b"(2.", b"]((a.", b"_",
        b"K\x01K\x02a.", b"K\x01(K\x02K\x03u.", b"Q.",
    ],
)  # fmt: skip
def test_damaged_pickle_is_one_error(content: bytes) -> None:
    with pytest.raises(CheckpointError):
        read_pickle(content)


def test_bombs_are_refused_at_once() -> None:
    shared = b"]" + b"\x94" + b"".join(b"](h" + bytes([n]) + b"h" + bytes([n]) + b"e\x94" for n in range(60))
    with pytest.raises(CheckpointError, match="too many values"):
        plain_value(read_pickle(shared + b"."))
    keys = b")\x94" + b"".join(b"h" + bytes([n]) + b"h" + bytes([n]) + b"\x86\x94" for n in range(60))
    with pytest.raises(CheckpointError, match="large or nested keys"):
        read_pickle(keys + b"}h\x3cNs.")
    array = pickle.dumps(np.zeros(2), 2).replace(b"K\x02\x85", b"J\x00\x00\x00\x7f\x85")
    with pytest.raises(CheckpointError, match="not of the size"):
        plain_value(read_pickle(array))
    with pytest.raises(CheckpointError, match="which is not read"):
        plain_value(read_pickle(pickle.dumps(np.array([None]))))


def text(value: str) -> bytes:
    return b"\x8c" + bytes([len(value)]) + value.encode()


def called(module: str, name: str, args: bytes) -> bytes:
    """Opcodes that call a function."""
    return text(module) + text(name) + b"\x93" + args + b"R"


def number(value: int) -> bytes:
    content = value.to_bytes(value.bit_length() // 8 + 1, "little")
    return b"\x8b" + len(content).to_bytes(4, "little") + content


WIDE = b"(" + b"K\x01" * 20_000 + b"t"


@pytest.mark.parametrize(
    "key",
    [
        WIDE,
        number(1 << 8_000_000),
        number(2**61 - 1),
        b"(K\x01\x91",
        b"B" + (5000).to_bytes(4, "little") + bytes(5000),
    ],
    ids=["wide tuple", "long number", "colliding number", "set", "long bytes"],
)
def test_keys_that_are_slowly_hashed_are_refused(key: bytes) -> None:
    for content in (b"}" + key + b"Ns.", b"\x8f(" + key + b"\x90.", b"(" + key + b"\x91."):
        with pytest.raises(CheckpointError, match="large or nested keys"):
            read_pickle(b"\x80\x04" + content)
    tree = read_pickle(b"\x80\x04" + called("builtins", "set", b"](" + key + b"e\x85") + b".")
    with pytest.raises(CheckpointError, match="large or nested keys"):
        plain_value(tree)


def test_array_in_many_places_is_refused_by_its_bytes() -> None:
    tree = read_pickle(pickle.dumps([np.zeros(2**20, np.float32)]))
    with pytest.raises(CheckpointError, match="more than 268,435,456 bytes of arrays"):
        plain_value(tree * 1000)


@pytest.mark.parametrize(
    "content",
    [
        called("collections", "OrderedDict", b"K\x05\x85"),
        called("collections", "OrderedDict", b")") + b"]Ns",
        b"}" + called("builtins", "list", b")") + b"Ns",
        b"\x8f(" + called("builtins", "list", b")") + b"\x90",
    ],
    ids=["mapping of a number", "key that is a list", "key that becomes a list", "set of lists"],
)
def test_damaged_container_is_one_error(content: bytes) -> None:
    with pytest.raises(CheckpointError):
        plain_value(read_pickle(b"\x80\x04" + content + b"."))


def test_shape_of_endless_numbers_is_refused() -> None:
    array = read_pickle(pickle.dumps(np.zeros(1, np.float32), 2))
    array.state = (1, (1 << 8_000_000,) * 30, *array.state[2:])
    with pytest.raises(CheckpointError, match="has no shape"):
        plain_value(array)


def test_pickles_of_one_file_share_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlzoo.io.pickle_tree.MAX_OPCODES", 100)
    opcodes, content = count_opcodes(), pickle.dumps([None] * 60)
    read_pickle(content, opcodes)
    with pytest.raises(CheckpointError, match="too many instructions"):
        read_pickle(content, opcodes)

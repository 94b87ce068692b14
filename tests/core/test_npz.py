"""Archives of arrays: sizes are checked first, and whatever is wrong is one line."""

from __future__ import annotations

import io
import random
import time
import zipfile

import numpy as np
import pytest

from rlzoo.core.errors import UserError
from rlzoo.io.npz import read_npz


def _archive(content: bytes, compression: int = zipfile.ZIP_STORED) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr("a.npy", content)
    return file


def _npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2, "little") + text + data


def test_arrays_of_any_kind_come_back():
    arrays = {
        "a": np.arange(6.0).reshape(2, 3),
        "b": np.array("text"),
        "c": np.array([], bool),
        "d": np.int8(1),
    }
    arrays["e"] = np.asfortranarray(np.ones((3, 4)))
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, **arrays)
        read = read_npz(file, "arrays")
        assert list(read) == list(arrays)
        assert all(np.array_equal(read[name], arrays[name]) for name in arrays)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}"),
        _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}"),
        _npy("{'descr': '<f8', 'fortran_order': False, 'shape': 'x'}"),
        _npy("{'descr': 'x', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
        _npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
        _npy("{'descr': '<f8', '''"),
        _npy("{"),
        _npy("[" * 5000),
        _npy("-" * 5000 + "1"),
        _npy("{}", version=7),
    ],
)
def test_damaged_array_is_one_line(content):
    with pytest.raises(UserError, match=r"the file object.* (is damaged|holds pickled)") as caught:
        read_npz(_archive(content), "arrays")
    assert "\n" not in str(caught.value)


def test_bomb_is_refused_before_it_is_unpacked():
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': (300000000,)}"
    file = _archive(_npy(header, bytes(300_000_000)), zipfile.ZIP_DEFLATED)
    began = time.process_time()
    with pytest.raises(UserError, match=r"it unpacks from .* bytes to 300,000,"):
        read_npz(file, "arrays")
    assert time.process_time() - began < 0.5


def test_mutations_are_user_errors():
    file = io.BytesIO()
    np.savez_compressed(file, a=np.arange(20.0), b=np.ones((3, 4), np.float32))
    rng = random.Random(0)
    for _ in range(300):
        content = bytearray(file.getvalue())
        for _ in range(rng.randint(1, 4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        try:
            read_npz(io.BytesIO(bytes(content)), "arrays")
        except UserError as error:
            assert "\n" not in str(error)

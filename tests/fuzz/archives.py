"""Seeded mutations of files by their kind: arrays, archives, databases, and what `mutations` has."""

from __future__ import annotations

import io
import json
import re
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.mutations import (
    CANARY,
    ODD,
    ODD_NUMBERS,
    PICKLE,
    mutate_bytes,
    mutate_json,
    mutate_text,
    mutate_tree,
    mutate_yaml,
)


def mutate_file(rng: Random, name: str, data: bytes) -> bytes:
    """Mutate the content of a file by what its name says it is."""
    if rng.random() < 0.12:
        return mutate_bytes(rng, data)
    suffix = Path(name).suffix
    return MUTATORS.get(suffix, mutate_text)(rng, data)


# -- arrays -------------------------------------------------------------------------------------


def mutate_array(rng: Random, array: np.ndarray) -> np.ndarray:
    """Change values, the dtype or the shape of an array."""
    match rng.randrange(6):
        case 0 | 1 if array.size and array.dtype.kind in "biuf":
            changed = array.copy()
            with np.errstate(all="ignore"):
                value = np.asarray(rng.choice(ODD_NUMBERS), float).astype(array.dtype)
            changed.reshape(-1)[rng.randrange(array.size) :: rng.choice((1, 3, array.size))] = value
            return changed
        case 2 if array.dtype.kind in "biuf":
            with np.errstate(all="ignore"):
                return array.astype(rng.choice(("f4", "f8", "f2", "i8", "u1", "i4", "?", "u8")))
        case 3 if array.ndim:
            return rng.choice((array[:-1], array[1:], array[:0], np.concatenate([array, array])))
        case 4:
            shapes = (
                array.reshape(-1),
                array[None],
                array[..., None],
                array.T,
                array.reshape(-1)[:1],
            )
            return rng.choice(shapes)
    return np.zeros(rng.choice(((), (0,), (1,), (3, 0), (2, 2), (1000,))), array.dtype)


_CODES = {
    "F64": "f8", "F32": "f4", "F16": "f2", "BF16": "u2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1",
    "U8": "u1", "U16": "u2", "U32": "u4", "U64": "u8", "BOOL": "?",
}  # fmt: skip
Seal = Callable[[dict[str, str], dict[str, np.ndarray]], None]


def mutate_safetensors(rng: Random, data: bytes, seal: Seal | None = None) -> bytes:
    """Mutate arrays, names or the header of a safetensors file.

    :param seal: bring the metadata in line with the arrays, such as checksums
    """
    length = int.from_bytes(data[:8], "little")
    tree, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    if rng.random() < 0.1:
        return pack_header(json.dumps(mutate_tree(rng, tree))) + body
    metadata = tree.pop("__metadata__", {})
    arrays = {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], _CODES[entry["dtype"]]).reshape(
            entry["shape"]
        )
        for name, entry in tree.items()
    }
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(sorted(arrays)) if arrays else ""
        match rng.randrange(8):
            case 0 if arrays:
                del arrays[name]
            case 1 if arrays:
                arrays[rng.choice((f"{name}x", "x", rng.choice(sorted(arrays))))] = arrays.pop(name)
            case 2 if metadata:
                metadata = mutate_tree(rng, metadata)
                metadata = metadata if isinstance(metadata, dict) else {}
            case 3 if any(value[:1] in ("{", "[") for value in metadata.values() if isinstance(value, str)):
                key = rng.choice(
                    [k for k, v in metadata.items() if isinstance(v, str) and v[:1] in ("{", "[")]
                )
                metadata[key] = json.dumps(mutate_tree(rng, json.loads(metadata[key])))
            case _ if arrays:
                arrays[name] = mutate_array(rng, arrays[name])
    return join_safetensors(metadata, arrays, seal if rng.random() < 0.9 else None)


def join_safetensors(
    metadata: dict[str, str], arrays: dict[str, np.ndarray], seal: Seal | None = None
) -> bytes:
    """A safetensors file of these arrays; with `seal` its checksums are right."""
    codes = {np.dtype(kind): code for code, kind in _CODES.items() if code != "BF16"}
    tree: dict[str, Any] = {}
    parts = []
    for name, array in arrays.items():
        content = np.ascontiguousarray(array).tobytes()
        start = sum(map(len, parts))
        shape = list(array.shape)
        tree[name] = {
            "dtype": codes[array.dtype],
            "shape": shape,
            "data_offsets": [start, start + len(content)],
        }
        parts.append(content)
    if seal is not None:
        seal(metadata, arrays)
    text = json.dumps({"__metadata__": metadata, **tree} if metadata else tree)
    if seal is not None and '"checksum": "00000000"' in text:
        text += " " * (-len(text) % 8)
        plain = text.replace('"checksum": "00000000"', '"checksum":"00000000"', 1)
        text = plain.replace("00000000", f"{zlib.crc32(plain.encode()):08x}", 1)
    return pack_header(text) + b"".join(parts)


def pack_header(text: str) -> bytes:
    content = text.encode(errors="surrogatepass")
    return len(content).to_bytes(8, "little") + content


# -- archives -----------------------------------------------------------------------------------


def mutate_npz(rng: Random, data: bytes) -> bytes:
    """Mutate the arrays of a NumPy archive, the headers of its members, or the archive."""
    if rng.random() < 0.3:
        return mutate_zip(rng, data)
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        arrays = dict(archive)
    name = rng.choice(sorted(arrays))
    match rng.randrange(8):
        case 0:
            del arrays[name]
        case 1:
            arrays[rng.choice(("x", f"{name}2", rng.choice(sorted(arrays))))] = arrays.pop(name)
        case _:
            arrays[name] = mutate_array(rng, arrays[name])
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _mutate_npy(rng: Random, data: bytes) -> bytes:
    """Another header above the same bytes, or pickled objects below it."""
    length = int.from_bytes(data[8:10], "little")
    header, body = data[10 : 10 + length].decode("latin-1"), data[10 + length :]
    shape = rng.choice(
        ("()", "(0,)", "(-1,)", "(10**9,)", "(1000000000,)", "(2, 1000000000, 1000000000)", "5", "None")
    )
    descr = rng.choice(("|O", "<f8", "|S1000000", "<U9", "|V8", "<M8[s]", "<c16", "?", "[('a', '<f4')]", "x"))
    match rng.randrange(5):
        case 0:
            header = re.sub(r"'shape': \([^)]*\)", f"'shape': {shape}", header)
        case 1:
            header = re.sub(r"'descr': '[^']*'", f"'descr': {descr!r}", header)
        case 2:
            header, body = re.sub(r"'descr': '[^']*'", "'descr': '|O'", header), PICKLE
        case 3:
            header = mutate_text(rng, header.encode()).decode("latin-1")
        case 4:
            return mutate_bytes(rng, data)
    text = header.encode("latin-1")[:60_000]
    return (
        data[:6]
        + rng.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x09\x00"))
        + len(text).to_bytes(2, "little")
        + text
        + body
    )


def mutate_zip(rng: Random, data: bytes, odd: tuple[Any, ...] = ODD) -> bytes:
    """Mutate a member by its kind; or drop, rename, double, link or encrypt members, or add a foreign one."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    packing, attributes, flags = zipfile.ZIP_DEFLATED, 0o600 << 16, 0
    texts = [index for index, (name, _) in enumerate(members) if name.endswith(".json")]
    at = rng.choice(texts) if texts and rng.random() < 0.6 else rng.randrange(len(members))
    name, content = members[at]
    match rng.randrange(40):
        case 0:
            del members[at]
        case 1:
            members[at] = (
                rng.choice(("x", "../x", "/x", "a/b", f"{name}\x00", "data", "policy.pth")),
                content,
            )
        case 2:
            members.append(rng.choice(members))
        case 3:
            members.append((rng.choice(("x", "data.pkl", "../x", f"/tmp/{CANARY}")), PICKLE))
        case 4:
            members[at] = (name, rng.choice((b"", PICKLE, members[rng.randrange(len(members))][1])))
        case 5:
            packing = rng.choice((zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED))
        case 6:
            attributes = rng.choice((0o120777 << 16, 0o040755 << 16, 0o020666 << 16))
        case 7:
            flags = 1
        case 8 if rng.random() < 0.1:
            return bomb(name)
        case _:
            members[at] = (name, _mutate_member(rng, name, content, odd))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type, info.external_attr = packing, attributes
            archive.writestr(info, content)
    packed = file.getvalue()
    if flags:
        packed = packed.replace(b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00")
    return mutate_bytes(rng, packed) if rng.random() < 0.05 else packed


def _mutate_member(rng: Random, name: str, data: bytes, odd: tuple[Any, ...]) -> bytes:
    if name.endswith(".json") and rng.random() < 0.95:
        return mutate_json(rng, data, odd)
    if name.endswith(".npy"):
        return _mutate_npy(rng, data)
    return mutate_file(rng, name, data)


@cache
def bomb(name: str) -> bytes:
    """An archive of few bytes whose member unpacks to 1.5 GB."""
    file = io.BytesIO()
    with (
        zipfile.ZipFile(file, "w") as archive,
        archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member,
    ):
        member._compressor = zlib.compressobj(1, zlib.DEFLATED, -15)  # type: ignore[attr-defined]
        member._zinfo.compress_type = zipfile.ZIP_DEFLATED  # type: ignore[attr-defined]
        for _ in range(96):
            member.write(bytes(2**24))
    return file.getvalue()


def mutate_sqlite(rng: Random, data: bytes) -> bytes:
    """Write odd values into the cells of a database, or remove rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "study.db")
        path.write_bytes(data)
        with sqlite3.connect(path, isolation_level=None) as database:
            tables = [
                row[0] for row in database.execute("select name from sqlite_master where type = 'table'")
            ]
            for _ in range(rng.choice((1, 1, 2, 3))):
                _edit_table(rng, database, rng.choice(tables))
        database.close()
        return path.read_bytes()


def _edit_table(rng: Random, database: sqlite3.Connection, table: str) -> None:
    columns = [row[1] for row in database.execute(f"pragma table_info({table})")]
    rows = [row[0] for row in database.execute(f"select rowid from {table}")]
    if not rows:
        return
    column, row = rng.choice(columns), rng.choice(rows)
    try:
        if rng.random() < 0.1:
            database.execute(f"delete from {table} where rowid = ?", (row,))
            return
        old = database.execute(f"select {column} from {table} where rowid = ?", (row,)).fetchone()[0]
        value = rng.choice(ODD)
        if isinstance(old, str) and old[:1] in ("{", "["):
            value = json.dumps(mutate_tree(rng, json.loads(old)))
        elif isinstance(value, list | dict):
            value = json.dumps(value)
        elif isinstance(value, int) and abs(value) >= 2**63:
            value = str(value)
        database.execute(f"update {table} set {column} = ? where rowid = ?", (value, row))
    except sqlite3.Error:
        pass  # a constraint of the table: the row stays as it is


MUTATORS: dict[str, Callable[[Random, bytes], bytes]] = {
    ".json": mutate_json,
    ".yml": mutate_yaml,
    ".npz": mutate_npz,
    ".zip": mutate_zip,
    ".safetensors": mutate_safetensors,
    ".db": mutate_sqlite,
    ".png": mutate_bytes,
}

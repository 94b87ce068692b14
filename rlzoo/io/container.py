"""Files of rlzoo: how they are found, written whole or not at all, and checked before memory is taken.

`FileKind` finds and writes files of any content. `ArrayFile` is the container of arrays: the safetensors
format, that is the length of a header in eight bytes, the header (JSON: metadata, then dtype, shape and place
of each column), and the plain bytes of the columns. A file is written by streaming its columns and read
through a memory map, so neither needs the content in memory a second time. Nothing in a file is executed.

Source of the format: the documentation of safetensors, https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

import numpy as np

from rlzoo.core.errors import CheckpointError, RunFailed, UserError, nearest
from rlzoo.io.atomic import atomic_write
from rlzoo.io.zip_members import DAMAGE

if TYPE_CHECKING:  # PyTorch is imported only where tensors are written or read: workers need none
    import torch

CHUNK_BYTES = 16 * 2**20
MAX_HEADER = 64 * 2**20  # bytes
PathOrFile: TypeAlias = "str | os.PathLike[str] | BinaryIO"

_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bool": "BOOL",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
}  # fmt: skip
_NO_CHECKSUM = '"checksum":"00000000"'


class MissingFile(CheckpointError, FileNotFoundError):
    """There is no such file."""


def file_name(path: PathOrFile) -> str:
    """Return the name of a file or file object, for errors."""
    return str(path if isinstance(path, str | os.PathLike) else getattr(path, "name", "the file object"))


def first_line(error: BaseException) -> str:
    """Return the first line of an error, with its class where the error is not one of rlzoo's."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    text = str(error).splitlines()[0][:300] if str(error) else ""
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}".removesuffix(": ")


@contextmanager
def checkpoint_errors(prefix: str, raised_as_is: type[CheckpointError] = CheckpointError) -> Iterator[None]:
    """Turn whatever damaged bytes raise in the block into a `CheckpointError` that begins with `prefix`."""
    try:
        yield
    except raised_as_is:
        raise
    except DAMAGE as error:
        raise CheckpointError(f"{prefix}: {first_line(error)}") from None


def is_pickle(start: bytes) -> bool:
    """Return whether a file that begins with these bytes is a pickle."""
    return start[:1] == b"\x80" and start[1:2] <= b"\x05" and start[8:9] != b"{"


def refuse_foreign_start(start: bytes) -> None:
    """Raise if the first bytes are those of a file that is none of rlzoo's.

    :raises CheckpointError: names what the file is
    """
    if not start:
        raise CheckpointError("it is empty")
    if is_pickle(start):
        raise CheckpointError("it is a pickle, and pickles are never loaded: they can execute anything")
    if start.startswith(b"version https://git-lfs"):
        raise CheckpointError("it is a Git LFS pointer, the file itself was not downloaded")
    if start.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html")):
        raise CheckpointError("it is a web page, so the download went wrong")


@dataclass(frozen=True)
class FileKind:
    """A kind of file.

    :param noun: what errors call it
    :param suffixes: a file name without suffix gets the first one; a file is found without any of them
    """

    noun: str
    suffixes: tuple[str, ...] = ()

    def with_suffix(self, path: str | os.PathLike[str]) -> Path:
        """Return the path that `write` writes to.

        :raises UserError: the path has no name
        """
        path = Path(path)
        if not path.name:
            raise UserError(f"{str(path)!r} is no name for a {self.noun}")
        return path if path.suffix or not self.suffixes else path.with_name(f"{path.name}{self.suffixes[0]}")

    def find(self, path: str | os.PathLike[str]) -> Path:
        """Return the existing file that a path means, with or without its suffix.

        A name with another suffix than the first also means the file with the first.

        :raises MissingFile: there is none; the nearest name in the same folder is suggested
        """
        path = Path(path)
        candidates = [path, *(path.with_name(path.name + suffix) for suffix in self.suffixes if path.name)]
        if path.suffix in self.suffixes[1:]:
            candidates.append(path.with_suffix(self.suffixes[0]))
        for candidate in candidates:
            if candidate.is_file():
                return candidate
        if path.is_dir():
            raise MissingFile(f"{path} is a folder, not a {self.noun}")
        hint = ""
        if self.suffixes and path.parent.is_dir():
            names = [other.name for other in path.parent.glob(f"*{self.suffixes[0]}")]
            if match := nearest(path.name if path.suffix else path.name + self.suffixes[0], names):
                hint = f"; did you mean {str(path.with_name(match))!r}?"
        raise MissingFile(f"there is no {self.noun} {str(path)!r}{hint}")

    def write(self, path: PathOrFile, chunks: Iterable[bytes | memoryview], size: int) -> None:
        """Write a file, whole or not at all.

        :param path: a path (missing folders are made), or a binary file object
        :param size: bytes in all chunks
        :raises RunFailed: the disk is full or the folder not writable; a previous file is intact
        """
        if isinstance(path, str | os.PathLike):
            with atomic_write(self.with_suffix(path), size=size) as file:
                file.writelines(chunks)
            return
        for chunk in chunks:
            try:
                path.write(chunk)
            except OSError as error:
                raise RunFailed(f"cannot write the {self.noun}: {error.strerror or error}") from error
            except (AttributeError, TypeError):
                raise self._no_file(path, "saved to", "writing") from None

    @contextmanager
    def open(self, path: PathOrFile) -> Iterator[BinaryIO]:
        """Open a file for reading; a file object is yielded as it is.

        :raises CheckpointError: there is no such file, or it cannot be read
        """
        if isinstance(path, str | os.PathLike):
            found = self.find(path)
            try:
                opened = found.open("rb")
            except OSError as error:
                raise CheckpointError(f"cannot read {found}: {error.strerror}") from None
            with opened:
                yield opened
        elif hasattr(path, "read"):
            yield path
        else:
            raise self._no_file(path, "loaded from", "reading")

    def map(self, path: PathOrFile) -> memoryview:
        """Return the bytes of a file, of which only those that are looked at are read."""
        with self.open(path) as file:
            try:
                descriptor, start = file.fileno(), file.tell()
            except (AttributeError, OSError):
                return memoryview(file.read())
            if os.fstat(descriptor).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))[start:]

    def _no_file(self, path: object, done: str, mode: str) -> UserError:
        return UserError(f"a {self.noun} is {done} a path or a file opened for binary {mode}, not {path!r}")


# Arrays


@dataclass(frozen=True)
class FileColumn:
    """A column of a file: `n` rows of a shape, read a few at a time."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]  # of one row
    n: int
    read: Callable[[int, int], np.ndarray]  # rows [start, stop)

    @classmethod
    def of(cls, array: np.ndarray) -> FileColumn:
        """Return an array as a column."""
        return cls(array.dtype, array.shape[1:], len(array), lambda start, stop: array[start:stop])

    @property
    def nbytes(self) -> int:
        return self.n * self.row_bytes

    @property
    def row_bytes(self) -> int:
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def chunks(self) -> Iterator[memoryview]:
        """Yield the bytes of the rows."""
        for start, stop in row_ranges(self.n, self.row_bytes):
            yield np.ascontiguousarray(self.read(start, stop)).reshape(-1).view(np.uint8).data


def row_ranges(n_rows: int, row_bytes: int) -> Iterator[tuple[int, int]]:
    """Split rows into ranges [start, stop) of about `CHUNK_BYTES`."""
    step = max(CHUNK_BYTES // max(row_bytes, 1), 1)
    yield from ((start, min(start + step, n_rows)) for start in range(0, n_rows, step))


Header: TypeAlias = "dict[str, str]"


@dataclass(frozen=True)
class ArrayFile(FileKind):
    """Files of named arrays with a header.

    :param format: name and version of the format, which the header has
    :param sealed: the header has a checksum of itself and one of every column; otherwise one checksum of all
        columns in the order of their names
    """

    format: str = ""
    version: int = 1
    sealed: bool = True

    def save(self, path: PathOrFile, columns: Mapping[str, FileColumn], metadata: Header) -> None:
        """Write columns, wider numbers before narrower ones, so that all are aligned; see `write`."""
        columns = dict(sorted(columns.items(), key=lambda item: -item[1].dtype.itemsize))
        header = self._header(columns, metadata)
        content = chain.from_iterable(column.chunks() for column in columns.values())
        size = len(header) + sum(column.nbytes for column in columns.values())
        self.write(path, chain([header], content), size)

    def _header(self, columns: Mapping[str, FileColumn], metadata: Header) -> bytes:
        if self.sealed:
            checksums = {name: _checksum(column.chunks()) for name, column in columns.items()}
            own = {"checksum": "00000000"}  # of the header with these zeros in it
            metadata = {**metadata, "checksums": json.dumps(checksums)}
        else:
            by_name = chain.from_iterable(columns[name].chunks() for name in sorted(columns))
            own = {"checksum": str(_checksum(by_name))}
        own |= {"format": self.format, "format_version": str(self.version)}
        tree: dict[str, object] = {"__metadata__": {**own, **metadata}}
        end = 0
        for name, column in columns.items():
            start, end = end, end + column.nbytes
            shape = [column.n, *column.shape]
            tree[name] = {"dtype": _DTYPES[column.dtype.name], "shape": shape, "data_offsets": [start, end]}
        text = json.dumps(tree, separators=(",", ":"))
        text += " " * (-len(text) % 8)
        if self.sealed:
            text = text.replace(_NO_CHECKSUM, f'"checksum":"{zlib.crc32(text.encode()):08x}"', 1)
        return len(text).to_bytes(8, "little") + text.encode()

    def load(
        self, data: memoryview, check_metadata: Callable[[Header], None]
    ) -> tuple[Header, dict[str, np.ndarray]]:
        """Return the metadata and the arrays of a file, after all checksums were verified.

        :param data: of `map`; the arrays are views of it
        :param check_metadata: raises where the file does not fit, before the columns are read
        :raises CheckpointError: the file is damaged, foreign or of a newer version; other errors of `DAMAGE`
            may come too
        """
        refuse_foreign_start(bytes(data[:64]))
        if data[:2] == b"PK":
            raise CheckpointError("it is a zip, perhaps the file of a model")
        raw, body = split_header(data)
        tree = json.loads(raw)
        metadata: Header = tree.pop("__metadata__", {})
        if metadata.get("format") != self.format:
            raise CheckpointError("it is another kind of safetensors file")
        if int(metadata["format_version"]) > self.version:
            raise CheckpointError(f"its format {metadata['format_version'][:20]} is newer than this rlzoo")
        if self.sealed:
            zeroed = raw.replace(f'"checksum":"{metadata["checksum"]}"'.encode(), _NO_CHECKSUM.encode(), 1)
            if f"{zlib.crc32(zeroed):08x}" != metadata["checksum"]:
                raise CheckpointError("its header is damaged")
        check_metadata(metadata)
        columns, end = {}, 0
        for name, entry in sorted(tree.items(), key=lambda item: item[1]["data_offsets"]):
            start, stop = entry["data_offsets"]
            if start != end or not start <= stop <= len(body):
                is_short = stop > len(body)
                raise CheckpointError(f"it is truncated: {len(data):,} bytes" if is_short else "it has gaps")
            columns[name], end = body[start:stop], stop
        if end != len(body):
            raise CheckpointError("it is longer than its columns")
        self._verify(metadata, columns)
        return metadata, {name: _array(name, tree[name], columns[name]) for name in tree}

    def _verify(self, metadata: Header, columns: Mapping[str, memoryview]) -> None:
        if not self.sealed:
            found = _checksum(chunk for name in sorted(columns) for chunk in _split(columns[name]))
            if str(found) != metadata["checksum"]:
                raise CheckpointError("its columns are damaged")
            return
        checksums = json.loads(metadata["checksums"])
        for name, column in columns.items():
            if _checksum(_split(column)) != checksums[name]:
                raise CheckpointError(f"{name} is damaged")


def split_header(data: memoryview, limit: int = MAX_HEADER) -> tuple[bytes, memoryview]:
    """Return the header of a safetensors file, which is JSON, and the bytes after it.

    :raises CheckpointError: the file has no header, or one of more than `limit` bytes
    """
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= min(len(data) - 8, limit):
        raise CheckpointError("it is damaged or of another format")
    return bytes(data[8 : 8 + length]), data[8 + length :]


def _split(data: memoryview) -> Iterator[memoryview]:
    yield from (data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES))


def _checksum(chunks: Iterable[memoryview]) -> int:
    checksum = 0
    for chunk in chunks:
        checksum = zlib.crc32(chunk, checksum)
    return checksum


def _array(name: str, entry: Mapping[str, object], data: memoryview) -> np.ndarray:
    dtype = {code: dtype for dtype, code in _DTYPES.items()}[str(entry["dtype"])]
    shape = entry["shape"]
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise CheckpointError(f"{name} has the shape {str(shape)[:80]}")
    return np.frombuffer(data, dtype).reshape(shape)


# Tensors


def tensors_to_bytes(
    tensors: Mapping[str, torch.Tensor | np.ndarray], metadata: Header | None = None
) -> bytes:
    """Return tensors as safetensors, which wants each contiguous on the CPU and no two in the same memory."""
    import safetensors.torch
    import torch

    plain: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, value in tensors.items():
        tensor = torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value.detach()
        tensor = tensor.cpu().contiguous()
        storage = tensor.untyped_storage()
        if storage.data_ptr() in seen or storage.nbytes() != tensor.numel() * tensor.element_size():
            tensor = tensor.clone()
        seen.add(storage.data_ptr())
        plain[name] = tensor
    return safetensors.torch.save(plain, metadata)


def tensors_from_bytes(content: bytes) -> dict[str, torch.Tensor]:
    """Return the tensors of `tensors_to_bytes`.

    :raises ValueError: it is another file, or damaged
    """
    import safetensors.torch

    try:
        return safetensors.torch.load(content)
    except (*DAMAGE, safetensors.SafetensorError) as error:
        raise ValueError(first_line(error)) from error


def described_to_bytes(tensors: Mapping[str, torch.Tensor], key: str, description: object) -> bytes:
    """Return tensors as safetensors whose metadata hold a JSON value under a key."""
    return tensors_to_bytes(tensors, {key: json.dumps(description)})


def described_from_bytes(content: bytes, key: str) -> tuple[object, dict[str, torch.Tensor]]:
    """Return what `described_to_bytes` was given: the JSON value and the tensors.

    :raises ValueError: it is another file, or damaged
    """
    try:
        header, _ = split_header(memoryview(content))
        return json.loads(json.loads(header)["__metadata__"][key]), tensors_from_bytes(content)
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(first_line(error)) from error

"""The container of arrays: what is written comes back; damage is refused before columns are read."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.io.container import ArrayFile, FileColumn, FileKind, MissingFile

SEALED = ArrayFile("box", (".safetensors", ".pkl"), "a test")
LOOSE = ArrayFile("box", (".safetensors",), "a test", sealed=False)
ARRAYS = {"b": np.arange(5, dtype=np.uint8), "a": np.ones((3, 2)), "empty": np.zeros((0, 4), np.int64)}


def written(kind: ArrayFile) -> bytes:
    file = io.BytesIO()
    kind.save(file, {name: FileColumn.of(array) for name, array in ARRAYS.items()}, {"who": "me"})
    return file.getvalue()


@pytest.mark.parametrize("kind", [SEALED, LOOSE])
def test_arrays_and_metadata_come_back(kind: ArrayFile) -> None:
    metadata, arrays = kind.load(memoryview(written(kind)), lambda found: None)
    assert metadata["who"] == "me" and arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


@pytest.mark.parametrize("kind", [SEALED, LOOSE])
def test_changed_columns_are_refused(kind: ArrayFile) -> None:
    content = bytearray(written(kind))
    content[-1] ^= 1
    with pytest.raises(CheckpointError, match="damaged"):
        kind.load(memoryview(content), lambda found: None)


def test_a_header_longer_than_the_file_is_refused() -> None:
    content = (2**40).to_bytes(8, "little") + b"{}"
    with pytest.raises(CheckpointError, match="damaged or of another format"):
        SEALED.load(memoryview(content), lambda found: None)


def test_metadata_are_checked_before_the_columns() -> None:
    def refuse(metadata: dict[str, str]) -> None:
        raise CheckpointError(f"not of {metadata['who']}")

    with pytest.raises(CheckpointError, match="not of me"):
        SEALED.load(memoryview(written(SEALED)[:-20]), refuse)


def test_files_are_found_without_their_suffix(tmp_path: Path) -> None:
    SEALED.save(tmp_path / "kept", {"a": FileColumn.of(ARRAYS["a"])}, {})
    for name in ("kept", "kept.safetensors", "kept.pkl"):
        assert SEALED.find(tmp_path / name) == tmp_path / "kept.safetensors"
    with pytest.raises(MissingFile, match="did you mean"):
        SEALED.find(tmp_path / "kep")


def test_neither_path_nor_file_is_one_line() -> None:
    with pytest.raises(UserError, match="a box is saved to a path or a file"):
        FileKind("box").write(7, [b""], 0)  # type: ignore[arg-type]

"""A file is the old one or the new one, never something between."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from rlzoo.core.errors import RunFailed
from rlzoo.io.atomic import atomic_write


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    for text in (b"one", b"two, longer", b""):
        with atomic_write(path) as file:
            file.write(text)
            assert not path.exists() or path.read_bytes() != text or text == b""
        assert path.read_bytes() == text
    assert names(tmp_path) == ["a.yml"]


def test_makes_missing_folders(tmp_path: Path) -> None:
    with atomic_write(str(tmp_path / "deep" / "er" / "a.bin")) as file:
        file.write(b"x")
    assert (tmp_path / "deep" / "er" / "a.bin").read_bytes() == b"x"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError, MemoryError, GeneratorExit])
def test_an_error_in_the_block_keeps_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(error), atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        raise error
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named_and_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, full)
    expected = r"model\.zip: the disk is full; it needs 12\.3 MB, .* are free.*intact"
    with pytest.raises(RunFailed, match=expected), atomic_write(path, size=12_300_000) as file:
        file.write(b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["model.zip"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_disk_that_is_full_in_the_middle_of_a_write(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(b"old")
    with pytest.raises(RunFailed, match="the disk is full"), atomic_write(path) as file:
        with open("/dev/full", "wb", buffering=0) as full:
            os.dup2(full.fileno(), file.fileno())
        file.write(b"x" * 1_000_000)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["model.zip"]


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    expected = r"cannot write .*file/a\.bin: (Not a directory|File exists)"
    with pytest.raises(RunFailed, match=expected), atomic_write(tmp_path / "file" / "a.bin"):
        pass
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunFailed, match=r"cannot write .*folder: "), atomic_write(tmp_path / "folder"):
        pass
    assert names(tmp_path) == ["file", "folder"]


def test_an_unrelated_os_error_of_the_block_passes_through(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "a.bin"):
        (tmp_path / "missing").read_bytes()
    assert names(tmp_path) == []


def test_a_symbolic_link_stays_a_link_and_permissions_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "real.zip", tmp_path / "best.zip"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    with atomic_write(link) as file:
        file.write(b"new")
    assert link.is_symlink() and target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_name_of_the_longest_length(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 251 + ".zip")
    with atomic_write(path) as file:
        file.write(b"x")
    assert path.read_bytes() == b"x"


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_device_that_fails_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(b"old")

    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    expected = f"cannot write {path}: {os.strerror(number)}"
    with pytest.raises(RunFailed, match=expected), atomic_write(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"old" and names(tmp_path) == ["model.zip"]

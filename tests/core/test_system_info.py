"""Versions and the commit of a checkout are found without running anything."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest
import torch

import rlzoo
from rlzoo.core import runtime as system_info
from rlzoo.core.runtime import get_system_info, git_commit, versions

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_system_info_is_a_dict_and_the_same_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    info, text = get_system_info()
    assert info["PyTorch"] == torch.__version__ and info["rlzoo"].startswith(rlzoo.__version__)
    assert all(f"- {name}: {value}\n" in text for name, value in info.items())
    assert capsys.readouterr().out.strip() == text.strip()
    get_system_info(print_info=False)
    assert capsys.readouterr().out == ""
    assert versions()["rlzoo"] == rlzoo.__version__


def test_versions_name_the_simulators_that_are_there() -> None:
    import mujoco

    assert versions()["mujoco"] == mujoco.__version__
    assert all(re.match(r"\d+\.\d", version) for version in versions().values())


def git_folder(folder: Path, head: str, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "HEAD").write_text(head)
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", "-")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_the_commit_of_a_checkout(tmp_path: Path) -> None:
    packed = f"# {COMMIT}\n{'f' * 40} refs/x\n{COMMIT} refs/heads/main\n"
    layouts = {
        "branch": ("ref: refs/heads/main\n", {"refs__heads__main": COMMIT}),
        "packed": ("ref: refs/heads/main", {"packed_refs": packed}),
        "detached": (f"{COMMIT}\n", {}),
    }
    for name, (head, files) in layouts.items():
        git_folder(tmp_path / name / ".git", head, **files)
        assert git_commit(tmp_path / name) == COMMIT, name


def test_the_commit_of_a_linked_worktree(tmp_path: Path) -> None:
    git_folder(tmp_path / "main" / ".git", "ref: refs/heads/main", refs__heads__topic=COMMIT)
    git_folder(tmp_path / "main" / ".git" / "worktrees" / "w", "ref: refs/heads/topic", commondir="../..\n")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".git").write_text(f"gitdir: {tmp_path / 'main' / '.git' / 'worktrees' / 'w'}\n")
    assert git_commit(tmp_path / "linked") == COMMIT


def test_what_is_no_checkout_has_no_commit(tmp_path: Path) -> None:
    assert git_commit(tmp_path) is None
    git_folder(tmp_path / "empty" / ".git", "ref: refs/heads/main")
    assert git_commit(tmp_path / "empty") is None
    git_folder(tmp_path / "strange" / ".git", "ref: refs/heads/main", refs__heads__main="../../etc/passwd")
    assert git_commit(tmp_path / "strange") is None


def test_processor_name_is_the_model_or_the_architecture(monkeypatch):
    shown = "processor\t: 0\nmodel name\t: Fast 9000\nprocessor\t: 1\nmodel name\t: Fast 9000\n"
    for cpuinfo, expected in (
        (shown, "Fast 9000"),
        ("Hardware\t: board\n", platform.processor() or platform.machine()),
    ):
        monkeypatch.setattr(Path, "read_text", lambda path, cpuinfo=cpuinfo: cpuinfo)
        system_info.processor_name.cache_clear()
        assert system_info.processor_name() == expected
    system_info.processor_name.cache_clear()

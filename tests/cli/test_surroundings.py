"""Full disks, forbidden folders, long names and terminals without Unicode are one line, not a defect."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlzoo.cli.main import LastingStream, main
from rlzoo.core.errors import UserError
from rlzoo.runs.run_folder import claim


def _run(*arguments: str, **kwargs) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rlzoo", *arguments], stderr=subprocess.PIPE, text=True, check=False, **kwargs
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux")
def test_output_on_a_full_disk_is_one_line():
    with open("/dev/full", "w") as full:
        done = _run("list", "algos", stdout=full)
    assert (done.returncode, done.stderr) == (1, "rlzoo: error: No space left on device\n")


def test_deleted_working_directory_is_one_line(tmp_path):
    code = f"cd {tmp_path} && rmdir {tmp_path} && exec {sys.executable} -m rlzoo list agents"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(["sh", "-c", code], stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert done.stderr == "rlzoo: error: the working directory was deleted; change to an existing one\n"


def test_terminal_without_unicode_gets_question_marks(monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr("rlzoo.cli.main.version", lambda: "1 ± 2")
    assert main(["--version"]) == 0
    assert out.buffer.getvalue() == b"rlzoo 1 ? 2\n"


def test_long_name_is_one_line(capsys):
    assert main(["enjoy", "--algo", "ppo", "--env", "CartPole-v1", "-f", "x" * 300]) == 2
    assert capsys.readouterr().err.startswith("rlzoo: error: File name too long: xxx")


def test_forbidden_folder_is_one_line(monkeypatch, capsys, tmp_path):
    (tmp_path / "ppo").mkdir()

    def forbid(*_):
        raise PermissionError(13, "Permission denied", str(tmp_path / "ppo"))

    monkeypatch.setattr(Path, "iterdir", forbid)
    monkeypatch.setattr(Path, "glob", forbid)
    assert main(["list", "agents", "-f", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"rlzoo: error: Permission denied: {tmp_path / 'ppo'}\n"


def test_run_in_a_path_that_is_no_text_is_refused(tmp_path):
    with pytest.raises(UserError, match="the path is not UTF-8"):
        claim(f"{tmp_path}/l\udcff", "ppo", "CartPole-v1")


def test_closed_output_is_no_error(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["--version"]) == 0


def test_output_that_is_gone_is_said_once(capfd):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe:
        stream = LastingStream(pipe, "standard output")
        for _ in range(3):
            stream.write("text")
            stream.flush()
    said = "rlzoo: standard output is closed (Broken pipe); continuing without it\n"
    assert capfd.readouterr().err == said

"""The command that installs an extra works where the reader is."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from rlzoo.core import errors


def test_install_command_is_quoted_and_works_in_a_checkout(monkeypatch, tmp_path):
    root = Path(errors.__file__).parents[2]
    monkeypatch.chdir(root)
    assert errors.install_command("onnx") == "pip install -e '.[onnx]'"
    monkeypatch.chdir(tmp_path)
    assert errors.install_command("onnx") == f"pip install -e '{root}[onnx]'"
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "site-packages" / "rlzoo" / "core" / "errors.py"))
    wheel = f"rlzoo-{version('rlzoo')}-py3-none-any.whl"  # no index has rlzoo
    assert errors.install_command("onnx") == f"pip install '{wheel}[onnx]'"

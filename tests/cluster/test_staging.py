"""Files that travel between machines."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from rlzoo.cluster.ray_task import run
from rlzoo.cluster.staging import SharedFolder, is_shared, pack, unpack
from rlzoo.cluster.tasks import TaskContext
from rlzoo.core.errors import RunFailed


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def test_files_come_back_as_they_were(tmp_path: Path) -> None:
    made, wanted = tmp_path / "made", tmp_path / "wanted"
    (made / "run_1").mkdir(parents=True)
    (made / "run_1" / "agent.zip").write_bytes(bytes(range(256)))
    (made / "run_1" / "args.yml").write_text(f"log_folder: {made}\n")
    (made / ".lock").write_text("1\n")
    content = pack({"result": {"a": 1}}, made, {str(made): str(wanted)})
    assert unpack(content, wanted) == {"result": {"a": 1}}
    assert (wanted / "run_1" / "agent.zip").read_bytes() == bytes(range(256))
    assert (wanted / "run_1" / "args.yml").read_text() == f"log_folder: {wanted}\n"
    assert not (wanted / ".lock").exists()


@pytest.mark.parametrize(
    "name", ["files/../x", "files//etc/x", "x", "files/.bashrc", "files/a/../../x", "files/a\nb", "files/"]
)
def test_names_that_lead_elsewhere_are_refused(name: str, tmp_path: Path) -> None:
    content = archive(**{"result.json": b"{}", name: b"x"})
    with pytest.raises(RunFailed, match="damaged"):
        unpack(content, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("content", [b"", b"no archive", 3, archive(), archive(**{"result.json": b"{"})])
def test_damaged_results_are_refused(content: object, tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="damaged"):
        unpack(content, tmp_path)


def test_files_of_a_task_without_any_are_refused() -> None:
    with pytest.raises(RunFailed, match="1 files"):
        unpack(archive(**{"result.json": b"{}", "files/a": b"x"}), None)


def test_shared_folder_is_recognised_by_its_mark(tmp_path: Path) -> None:
    with SharedFolder(tmp_path) as shared:
        mark = shared.describe()
        assert is_shared(mark)
        assert not is_shared({**mark, "token": "another"})
        assert not is_shared({**mark, "path": str(tmp_path / "elsewhere")})
        assert not is_shared({})
    assert list(tmp_path.iterdir()) == []


def test_task_elsewhere_gets_copies_of_its_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(context: TaskContext) -> dict[str, object]:
        source = Path(context.input("demos/expert.npz"))
        (Path(context.output) / "copy.npz").write_bytes(source.read_bytes())
        return {"name": source.name}

    monkeypatch.setattr("rlzoo.cluster.staging.copy", copy, raising=False)
    monkeypatch.chdir(tmp_path)
    task = {"target": "rlzoo.cluster.staging:copy", "payload": {}, "inputs": ["demos/expert.npz"]}
    text = json.dumps({**task, "version": version(), "output": "logs", "mark": {}, "environment": {}})
    content = run(text, lambda message, wait: {}, lambda path: b"episodes")
    assert unpack(content, tmp_path / "logs") == {"result": {"name": "expert.npz"}}
    assert (tmp_path / "logs" / "copy.npz").read_bytes() == b"episodes"


def test_task_of_another_version_is_refused() -> None:
    text = json.dumps({"version": "0.0.9"})
    outcome = unpack(run(text, lambda message, wait: {}, lambda path: b""), None)
    assert isinstance(outcome, dict) and outcome["refused"]
    assert "this machine has 0.0.9" in outcome["error"]


def version() -> str:
    from rlzoo import __version__

    return __version__

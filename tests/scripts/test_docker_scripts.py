"""The container scripts, with a `docker` that records its arguments."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rlzoo.cli.main import build, load_command
from rlzoo.config.values_as_text import read_yaml

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(shutil.which("sh") is None, reason="needs sh")


def called(script: str, folder: Path, *arguments: str, **variables: str) -> list[str]:
    """Return the arguments that a script calls `docker` with."""
    path = folder / "bin" / "docker"
    path.parent.mkdir()
    path.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    path.chmod(0o755)
    environment = {**os.environ, **variables, "PATH": f"{path.parent}:{os.environ['PATH']}"}
    command = ["sh", str(ROOT / "scripts" / script), *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(("script", "image"), [("cpu", "rlzoo:cpu"), ("gpu", "rlzoo:cuda")])
def test_run_script_keeps_user_and_mounts_folder(tmp_path: Path, script: str, image: str) -> None:
    folder = tmp_path / "my project"
    folder.mkdir()
    arguments = called(f"run_docker_{script}.sh", folder, "rlzoo", "train", "--env", "an env")
    at = arguments.index(image)
    assert arguments[0] == "run" and arguments[at + 1 :] == ["rlzoo", "train", "--env", "an env"]
    options = arguments[1:at]
    assert options[options.index("--user") + 1] == f"{os.getuid()}:{os.getgid()}"
    assert options[options.index("--volume") + 1] == f"{folder}:/runs"
    assert {"--rm", "--init", "--ipc=host", "-i"} <= set(options)
    assert ("--gpus" in options) == (script == "gpu")
    if script == "gpu":
        assert options[options.index("--gpus") + 1] == "all"


@pytest.mark.parametrize(
    ("variables", "backend", "tag"),
    [
        ({}, "cpu", "rlzoo:cpu"),
        ({"USE_CUDA": "1"}, "", "rlzoo:cuda"),
        ({"USE_CUDA": "1", "TORCH_BACKEND": "cu128"}, "cu128", "rlzoo:cuda"),
    ],
)
def test_build_script_chooses_pytorch(
    tmp_path: Path, variables: dict[str, str], backend: str, tag: str
) -> None:
    arguments = called("build_docker.sh", tmp_path, "--no-cache", **variables)
    expected = ["build", "--build-arg", f"TORCH_BACKEND={backend}", "--tag", tag, "--no-cache", "."]
    assert arguments == expected


def test_image_holds_what_the_dockerfile_copies() -> None:
    sources = [line.split()[1:-1] for line in (ROOT / "Dockerfile").read_text().splitlines()
               if line.startswith("COPY ") and "--from" not in line]  # fmt: skip
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {name for names in sources for name in names}
    assert copied == allowed and all((ROOT / name).exists() for name in copied)


def test_compose_file_runs_valid_commands() -> None:
    services = read_yaml(ROOT / "compose.yaml")["services"]
    assert set(services) == {"database", "worker", "dashboard"}
    for name in ("worker", "dashboard"):
        program, command, *arguments = services[name]["command"]
        assert program == "rlzoo"
        parsed = build(command, load_command(command)).parse_args(arguments)
        assert parsed.storage == "postgresql://rlzoo@database/rlzoo"
        assert "search" in (getattr(parsed, "study_name", None), getattr(parsed, "study", None))
        assert services[name]["user"] and "PGPASSWORD" in services[name]["environment"]

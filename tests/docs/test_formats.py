"""The files of a run, and what the documentation says that they are."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from rlzoo.cli.main import main

ROOT = Path(__file__).parents[2]
RUN_FOLDER = ROOT / "docs" / "start" / "run_folder.md"
FORMATS = ROOT / "docs" / "reference" / "file_formats.md"


def patterns(page: Path, heading: str) -> list[str]:
    """Return the code in the first column of the table under a heading, of which `<...>` is any text."""
    table = re.search(rf"(?ms)^\| {heading} \|.*?(?=^$)", page.read_text())
    assert table is not None, heading
    return re.findall(r"(?m)^\| `([^`]+)`", table[0])


def matches(pattern: str, name: str) -> bool:
    return re.fullmatch(re.sub(r"<\w+>", "[^/]+", re.escape(pattern).replace(r"\.", "[.]")), name) is not None


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was asked for everything."""
    folder = tmp_path_factory.mktemp("runs")
    command = "train --algo dqn --env CartPole-v1 -n 400 --eval-freq 200 --eval-episodes 2 --save-freq 200"
    options = "--save-replay-buffer --verbose 0 -params normalize:true learning_starts:50 train_freq:4"
    assert main([*command.split(), *options.split(), "-f", str(folder)]) == 0
    return folder / "dqn" / "CartPole-v1_1"


def test_run_folder_holds_what_the_page_lists(run: Path) -> None:
    files = [path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()]
    listed = patterns(RUN_FOLDER, "file")
    assert len(listed) > 10
    assert not [name for name in files if not any(matches(pattern, name) for pattern in listed)]
    assert not [pattern for pattern in listed if not any(matches(pattern, name) for name in files)]


def test_model_file_holds_what_the_page_lists(run: Path) -> None:
    with zipfile.ZipFile(run / "CartPole-v1.zip") as archive:
        assert sorted(archive.namelist()) == sorted(patterns(FORMATS, "member"))


def test_replay_buffer_holds_what_the_page_lists(run: Path) -> None:
    content = (run / "replay_buffer.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert sorted(header.keys() - {"__metadata__"}) == sorted(patterns(FORMATS, "tensor"))


def test_arrays_and_columns_are_those_of_the_page(run: Path) -> None:
    page = FORMATS.read_text()
    with np.load(run / "evaluations.npz") as evaluations:
        assert all(f"`{name}` [n" in page for name in evaluations)
    with np.load(run / "CartPole-v1" / "vecnormalize.npz") as statistics:
        assert {"obs_rms.mean", "obs_rms.var", "obs_rms.count"} < set(statistics)
    monitor = (run / "0.monitor.csv").read_text().splitlines()
    assert json.loads(monitor[0].removeprefix("#")).keys() == {"t_start", "env_id"}
    assert monitor[1] == "r,l,t"
    system = json.loads((run / "system.json").read_text())
    assert all(f"`{key}`" in page for key in system)


def test_demonstrations_hold_what_the_page_lists(run: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    agents = str(run.parents[1])
    command = f"record-expert --algo dqn --env CartPole-v1 -f {agents} -n 2 -o expert.npz"
    assert main(command.split()) == 0
    with np.load("expert.npz") as arrays:
        assert sorted(arrays) == sorted(patterns(FORMATS, "array"))


def test_study_folder_holds_what_the_page_lists(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = "optimize --algo ppo --env CartPole-v1 -n 128 --n-trials 1 --sampler random --verbose 0"
    assert main([*command.split(), "--eval-episodes", "1", "--no-optim-plots"]) == 0
    folder = tmp_path / "logs" / "optimize" / "ppo_CartPole-v1"
    table = FORMATS.read_text().partition("## Study folder")[2].partition("## ")[0]
    listed = re.findall(r"`([\w.*]+)`", table)
    files = [path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
    assert not [name for name in files if not any(Path(name).match(pattern) for pattern in listed)]

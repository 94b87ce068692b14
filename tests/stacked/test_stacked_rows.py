"""Rows of a benchmark whose seeds share a process."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from rlzoo.benchmark import run_list
from rlzoo.benchmark.finished import is_finished
from rlzoo.benchmark.parallel import stacked_rows
from rlzoo.benchmark.parallel.stacked_rows import StackingProcesses
from rlzoo.benchmark.run_list import WITHOUT_EVALUATIONS, Ended, Training, jobs_of, run_jobs
from rlzoo.benchmark.run_worker import train_agent
from rlzoo.cli.main import main
from rlzoo.config.benchmark import Row
from rlzoo.core.errors import RunFailed

FAILS, DIES = 8, 9
STAND_IN = f"""
import json, os, signal, sys
from pathlib import Path
problems = {{}}
for task in json.loads(sys.argv[1]):
    run = task["train"]
    if run["seed"] == {DIES}:
        os.kill(os.getpid(), signal.SIGKILL)
    if run["seed"] == {FAILS}:
        problems[str(run["seed"])] = "it is too hot"
        continue
    folder = Path(run["log_folder"]) / run["algo"] / (run["env_id"] + "_1")
    folder.mkdir(parents=True)
    (folder / (run["env_id"] + ".zip")).write_text("agent")
    (folder / "finished.json").write_text('{{"seconds": 1.0}}')
    (folder / "process").write_text(str(os.getpid()))
print(json.dumps(problems))
sys.exit(bool(problems))
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process that makes folders and trains nothing; returns the folder of the benchmark."""
    script = tmp_path / "worker.py"
    script.write_text(STAND_IN)
    monkeypatch.setattr(stacked_rows, "STACK_WORKER", (sys.executable, "-I", str(script)))
    monkeypatch.setattr(run_list, "POLL", 0.01)
    return tmp_path / "benchmark"


def weights_of(folder: Path) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(folder / "CartPole-v1.zip") as archive:
        return load(archive.read("weights.safetensors"))


def row(*seeds: int, algo: str = "ppo") -> Row:
    hyperparams = {"n_steps": 8, "batch_size": 8, "policy_kwargs": {"net_arch": [16]}}
    return Row(algo=algo, env="CartPole-v1", seeds=seeds, n_timesteps=128, hyperparams=hyperparams, name="r")


def done(folder: Path, rows: Sequence[Row], n_jobs: int) -> list[Ended]:
    workers = StackingProcesses(n_jobs, 5.0, "on", folder, WITHOUT_EVALUATIONS)
    return list(run_jobs(jobs_of(rows), folder, n_jobs, WITHOUT_EVALUATIONS, workers))


def test_seeds_of_a_row_are_shared_out_to_the_processes(stand_in: Path) -> None:
    ends = done(stand_in, [row(0, 1, 2, 3, 4)], n_jobs=2)
    assert sorted(ended.job.seed for ended in ends if not ended.problem) == [0, 1, 2, 3, 4]  # type: ignore[union-attr]
    processes = [file.read_text() for file in stand_in.rglob("process")]
    assert sorted(map(processes.count, set(processes))) == [2, 3]
    assert not list((stand_in / "workers").iterdir())  # neither logs nor claims


def test_seed_that_fails_is_named_and_the_others_are_done(stand_in: Path) -> None:
    ends = {ended.job.seed: ended.problem for ended in done(stand_in, [row(0, FAILS, 2)], n_jobs=1)}  # type: ignore[union-attr]
    assert not ends[0] and not ends[2] and ends[FAILS].startswith("it is too hot (")


def test_process_that_dies_fails_what_it_has_not_done(stand_in: Path) -> None:
    ends = {ended.job.seed: ended.problem for ended in done(stand_in, [row(0, DIES, 12)], n_jobs=1)}  # type: ignore[union-attr]
    assert not ends[0]
    assert [ends[seed].partition(" (")[0] for seed in (DIES, 12)] == ["killed by signal 9"] * 2


def test_what_cannot_be_stacked_has_a_process_for_each_seed(tmp_path: Path) -> None:
    workers = StackingProcesses(1, 5.0, "on", tmp_path, WITHOUT_EVALUATIONS)
    for algo, expected in (("ppo", 2), ("ars", 0), ("trpo", 0)):
        plain = Row(algo=algo, env="CartPole-v1", seeds=(0, 1, 2))
        first, *others = (Training(plain, seed) for seed in plain.seeds)
        assert len(workers.together(first, [first, *others], n_free=1)) == expected


def test_row_that_cannot_be_built_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise RunFailed("the simulator is missing")

    monkeypatch.setattr(stacked_rows, "stack_problem", fail)
    first, second = (Training(row(0, 1), seed) for seed in (0, 1))
    workers = StackingProcesses(1, 5.0, "on", tmp_path, WITHOUT_EVALUATIONS)
    assert not workers.together(first, [first, second], n_free=1)


def test_agents_are_those_of_separate_processes(tmp_path: Path) -> None:
    ends = done(tmp_path / "stacked", [row(0, 1)], n_jobs=1)
    assert [ended.problem for ended in ends] == ["", ""]
    for seed in (0, 1):
        training = Training(row(seed), seed)
        task = training.task(tmp_path / "alone", WITHOUT_EVALUATIONS)
        assert train_agent(task["train"], task["command"], task["name"]) == 0
        folders = [training.run_folder(tmp_path / name) for name in ("alone", "stacked")]
        assert all(folder is not None and is_finished(folder) for folder in folders)
        a, b = (weights_of(folder) for folder in folders if folder is not None)
        for name, values in a.items():
            np.testing.assert_allclose(values, b[name], rtol=1e-7, atol=1e-5, err_msg=name)


def test_ray_and_stacked_seeds_exclude_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "list.yml"
    file.write_text("seeds: [0, 1]\nrows: [{algo: ppo, env: CartPole-v1}]\n")
    assert main(["benchmark", "run", str(file), "--backend", "ray", "--stack-seeds", "on"]) == 2
    assert "leave --backend ray out" in capsys.readouterr().err

"""Runs that start at the same instant get folders of their own, with nothing of the other in them."""

from __future__ import annotations

import subprocess

import pytest

from rlzoo import PPO
from rlzoo.runs import run_folder


def start_together(command, logs, n_runs):
    processes = []
    for seed in range(n_runs):
        arguments = [*command, "-n", str(200 + 40 * seed), "--save-freq", "100"]
        arguments[arguments.index("--seed") + 1] = str(seed)
        processes.append(subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True))
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    folders = sorted((logs / "ppo").iterdir())
    assert len(folders) == n_runs
    found = {run_folder.read_run(folder).seed: folder for folder in folders}
    assert sorted(found) == list(range(n_runs))
    for seed, folder in found.items():
        assert PPO.load(folder / "Faulty-v0.zip", device="cpu").num_timesteps == 200 + 40 * seed
        assert f"--seed {seed}" in (folder / "command.txt").read_text()
        rows = (folder / "0.monitor.csv").read_text().splitlines()[2:]
        assert len(rows) == (200 + 40 * seed) // 40
        times = [float(row.split(",")[2]) for row in rows]
        assert times == sorted(times)


def test_two_runs_at_once(command, logs):
    start_together(command, logs, 2)


@pytest.mark.slow
@pytest.mark.parametrize("repetition", range(10))
def test_two_runs_at_once_ten_times(command, logs, repetition):
    start_together(command, logs, 2)

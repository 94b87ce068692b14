"""Run folders to draw."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rlzoo.envs.single_env.monitor import ResultsWriter


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """Enough for what is tested; each test with 10,000 would take a second."""
    for name in (
        "aggregate_figures.RESAMPLES",
        "aggregate_figures.FIGURE_RESAMPLES",
        "normalisation.RESAMPLES",
    ):
        monkeypatch.setattr(f"rlzoo.plots.{name}", 200)


@pytest.fixture
def make_run(tmp_path):
    """A function that writes the folder of a run, as `rlzoo train` does, below <tmp_path>/logs."""

    def make(
        algo="ppo",
        env="CartPole-v1",
        seed=0,
        returns=(10.0, 20.0, 30.0),
        steps=None,
        name=None,
        successes=None,
        episodes=None,
        parent="logs",
        **arrays,
    ) -> Path:
        folder = tmp_path / parent / algo / f"{env}_{seed + 1}"
        (folder / env).mkdir(parents=True)
        (folder / env / "args.yml").write_text(f"algo: {algo}\nenv_id: {env}\nseed: {seed}\n")
        if returns is not None:
            steps = np.arange(1, len(returns) + 1) * 1000 if steps is None else np.asarray(steps)
            results = np.asarray(returns)[:, None] + np.array([-1.0, 1.0])
            if successes is not None:
                arrays["successes"] = np.asarray(successes)
            lengths = np.full(results.shape, 7)
            np.savez(
                folder / "evaluations.npz", timesteps=steps, results=results, ep_lengths=lengths, **arrays
            )
        if name is not None:
            (folder / "row.json").write_text(json.dumps({"name": name}))
        if episodes is not None:
            writer = ResultsWriter(folder, {"t_start": 0.0}, extra_keys=("is_success",))
            for place, value in enumerate(episodes):
                writer.write_row({"r": value, "l": 10, "t": 60.0 * place, "is_success": value > 2})
            writer.close()
        return folder

    return make


@pytest.fixture
def logs(make_run, tmp_path) -> Path:
    """The folder of two algorithms on two environments, three seeds each."""
    for seed in range(3):
        make_run("ppo", "CartPole-v1", seed, (20.0 + seed, 250.0, 400.0 + 50 * seed))
        make_run("a2c", "CartPole-v1", seed, (20.0, 100.0 + seed, 200.0))
        make_run("ppo", "Mine-v0", seed, (0.0, 4.0, 5.0 + seed))
        make_run("a2c", "Mine-v0", seed, (1.0, 2.0 + seed, 10.0))
    return tmp_path / "logs"

"""Scores to make tables of."""

from __future__ import annotations

import pytest

from rlzoo.benchmark.scores import Score


@pytest.fixture
def score():
    """A function that makes a score: what a test is about is given, the rest does not matter."""

    def make(algo="ppo", env_id="CartPole-v1", seed=0, mean=500.0, **changes):
        values = {
            "n_timesteps": 100_096,
            "episodes": 100,
            "std": 1.5,
            "median": mean,
            "mean_length": 500.0,
            "success_rate": None,
            "deterministic": True,
            "evaluation_seed": 1_000_000,
            "training_seconds": 12.0,
            "sha256": "0" * 64,
            "trained_with": {},
            "versions": {},
            "date": "2026-01-01T00:00:00Z",
        }
        return Score(algo=algo, env_id=env_id, seed=seed, mean=mean, **{**values, **changes})

    return make

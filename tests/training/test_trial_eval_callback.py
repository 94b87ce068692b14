"""TrialEvalCallback: when it evaluates, what it tells the trial, and that the trial can end the training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlzoo.callbacks.trial_eval_callback import TrialEvalCallback
from rlzoo.core.errors import UserError


class Reports:
    """A trial that is to be pruned from a step on."""

    def __init__(self, prune_at: int | None = None) -> None:
        self.prune_at = prune_at
        self.reported: list[tuple[int, float]] = []

    def report(self, value: float, step: int) -> None:
        self.reported.append((step, value))

    def should_prune(self) -> bool:
        return self.prune_at is not None and self.reported[-1][0] >= self.prune_at


def test_it_evaluates_at_a_frequency_and_numbers_from_one(model: Any, make_env: Callable[..., Any]) -> None:
    trial = Reports()
    callback = TrialEvalCallback(make_env(2, 4), trial, n_eval_episodes=4, eval_freq=3)
    model.learn(8, callback)
    assert trial.reported == [(1, 3.0), (2, 3.0)]
    assert callback.eval_idx == 2
    assert callback.mean_rewards == [3.0] * 2
    assert callback.is_pruned is False
    assert model.num_timesteps == 8


def test_a_trial_that_is_pruned_ends_the_training(model: Any, make_env: Callable[..., Any]) -> None:
    trial = Reports(prune_at=2)
    callback = TrialEvalCallback(make_env(1), trial, n_eval_episodes=1, eval_freq=3)
    model.learn(100, callback)
    assert callback.is_pruned is True
    assert model.num_timesteps == 6
    assert len(trial.reported) == 2


def test_evaluations_are_spread_up_to_the_last_step(
    model: Any, make_env: Callable[..., Any], tmp_path: Path
) -> None:
    trial = Reports()
    callback = TrialEvalCallback(
        make_env(1),
        trial,
        n_eval_episodes=1,
        n_evaluations=4,
        log_path=tmp_path,
        best_model_save_path=tmp_path,
    )
    model.learn(10, callback)
    assert [step for step, _ in trial.reported] == [1, 2, 3]
    callback.evaluate_end()
    assert [step for step, _ in trial.reported] == [1, 2, 3, 4]
    assert np.load(tmp_path / "evaluations.npz")["timesteps"].tolist() == [3, 5, 8, 12]  # a whole rollout


def test_a_step_that_passes_several_times_evaluates_once(model: Any, make_env: Callable[..., Any]) -> None:
    trial = Reports()
    callback = TrialEvalCallback(make_env(1), trial, n_eval_episodes=1, n_evaluations=9)
    model.learn(3, callback)
    callback.evaluate_end()
    assert [step for step, _ in trial.reported] == [3, 6, 8, 9]


def test_the_end_of_a_pruned_trial_is_not_evaluated(model: Any, make_env: Callable[..., Any]) -> None:
    trial = Reports(prune_at=1)
    callback = TrialEvalCallback(make_env(1), trial, n_eval_episodes=1, n_evaluations=4)
    model.learn(10, callback)
    callback.evaluate_end()
    assert [step for step, _ in trial.reported] == [1]
    assert model.num_timesteps == 3


def test_an_empty_number_of_evaluations_is_refused(make_env: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match="n_evaluations must be at least 1, not 0"):
        TrialEvalCallback(make_env(1), Reports(), n_evaluations=0)

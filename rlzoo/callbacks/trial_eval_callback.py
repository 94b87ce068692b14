"""Evaluation of a training that is one trial of a search for hyperparameters."""

from __future__ import annotations

import os
from typing import Any, Protocol

from rlzoo.callbacks.eval_callback import EvalCallback
from rlzoo.core.errors import UserError


class Trial(Protocol):
    """What evaluations are reported to; an `optuna.Trial` is one."""

    def report(self, value: float, step: int) -> None:
        """Take note of a value."""

    def should_prune(self) -> bool:
        """Return whether the trial should be pruned."""


class TrialEvalCallback(EvalCallback):
    """Reports the mean return of each evaluation to a trial, and ends the training when it is to be pruned.

    Attributes: `is_pruned`; `eval_idx`, the number of the latest evaluation, from 1 on, which is the step it
    is reported as; `mean_rewards`, what all evaluations gave.

    :param trial: an `optuna.Trial`, or anything else with `report(value, step)` and `should_prune()`
    :param n_evaluations: that many, spread evenly over the training, take the place of `eval_freq`; the last
        is left to `evaluate_end`. Where one step passes the time of two, only the later one takes place.
    """

    state_names = ("eval_idx", "mean_rewards")

    def __init__(
        self,
        eval_env: Any,
        trial: Trial,
        n_eval_episodes: int = 5,
        eval_freq: int = 10000,
        deterministic: bool = True,
        verbose: int = 0,
        best_model_save_path: str | os.PathLike[str] | None = None,
        log_path: str | os.PathLike[str] | None = None,
        n_evaluations: int | None = None,
    ) -> None:
        super().__init__(
            eval_env,
            n_eval_episodes=n_eval_episodes,
            eval_freq=eval_freq,
            deterministic=deterministic,
            verbose=verbose,
            best_model_save_path=best_model_save_path,
            log_path=log_path,
        )
        if n_evaluations is not None and n_evaluations < 1:
            raise UserError(f"n_evaluations must be at least 1, not {n_evaluations}")
        self.trial = trial
        self.n_evaluations = n_evaluations
        self.eval_idx = 0
        self.is_pruned = False
        self.mean_rewards: list[float] = []

    def _on_step(self) -> bool:
        if self.n_evaluations is None:
            due = self.eval_freq > 0 and self.n_calls % self.eval_freq == 0
            return self._evaluate_as(self.eval_idx + 1) if due else True
        passed = self.num_timesteps * self.n_evaluations // self.model.counters.total_timesteps
        passed = min(passed, self.n_evaluations - 1)
        return self._evaluate_as(passed) if passed > self.eval_idx else True

    def evaluate_end(self) -> None:
        """Make the last of `n_evaluations`: of the agent that `learn` left, after its last update.

        To be called when `learn` has returned; does nothing where the trial was pruned before.
        """
        assert self.n_evaluations is not None
        if not self.is_pruned:
            self.num_timesteps = self.model.num_timesteps
            self._evaluate_as(self.n_evaluations)

    def _evaluate_as(self, number: int) -> bool:
        self.eval_idx = number
        go_on = self._evaluate()
        self.mean_rewards.append(self.last_mean_reward)
        self.trial.report(self.last_mean_reward, number)
        self.is_pruned = self.trial.should_prune()
        return go_on and not self.is_pruned

"""Studies in memory as workers leave them behind, without any training."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from rlzoo.config.values_as_text import dump_yaml
from rlzoo.tuning.storage.study_settings import StudySettings

BEGAN = datetime(2026, 1, 1, 12)
SPACE: dict[str, BaseDistribution] = {
    "learning_rate": FloatDistribution(1e-5, 1e-2, log=True),
    "log2(n_steps)": IntDistribution(5, 11),
    "1 - gamma": FloatDistribution(1e-4, 0.1, log=True),
    "policy_kwargs.net_arch": CategoricalDistribution(("[64, 64]", "[256, 256]", "[400, 300]")),
    "noise_type": CategoricalDistribution(("normal", "ornstein-uhlenbeck", "none")),
    "clip_range": FloatDistribution(0.1, 0.4),
}


def make_settings(**changes: Any) -> StudySettings:
    config = dump_yaml({"n_timesteps": 20_000.0, "policy": "MlpPolicy", "n_envs": 4})
    values: dict[str, Any] = {
        "algo": "ppo",
        "env_id": "MountainCarContinuous-v0",
        "config": config,
        "space": {},
        "seed": 1,
        "sampler": "tpe",
        "pruner": "median",
        "n_startup_trials": 5,
        "n_evaluations": 6,
        "eval_episodes": 5,
        "n_eval_envs": 1,
        "n_seeds": 1,
        "objective": "last",
    }
    return StudySettings(**{**values, **changes})


def make_study(
    n_complete: int = 0, n_pruned: int = 0, n_failed: int = 0, n_waiting: int = 0, two: bool = False
) -> optuna.Study:
    """A study whose return depends on the learning rate; the states are mixed."""
    directions = ["maximize", "minimize"] if two else ["maximize"]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(directions=directions, study_name="a <study> & more")
    states = (
        [TrialState.COMPLETE] * n_complete + [TrialState.PRUNED] * n_pruned + [TrialState.FAIL] * n_failed
    )
    rng = np.random.default_rng(0)
    for number, index in enumerate(rng.permutation(len(states))):
        study.add_trial(make_trial(states[index], number, rng, two))
    for _ in range(n_waiting):
        study.add_trial(create_trial(state=TrialState.WAITING))
    if study.trials:
        study.set_user_attr("n_trials", len(study.trials))
    return study


def make_trial(state: TrialState, number: int, rng: np.random.Generator, two: bool = False) -> FrozenTrial:
    params: dict[str, Any] = {
        "learning_rate": float(10 ** rng.uniform(-5, -2)),
        "log2(n_steps)": int(rng.integers(5, 12)),
        "1 - gamma": float(10 ** rng.uniform(-4, -1)),
        "policy_kwargs.net_arch": str(rng.choice(SPACE["policy_kwargs.net_arch"].choices)),  # type: ignore[attr-defined]
        "noise_type": str(rng.choice(["normal", "none"])),
    }
    if params["noise_type"] == "normal":
        params["clip_range"] = float(rng.uniform(0.1, 0.4))
    value = 90 - 40 * abs(np.log10(params["learning_rate"]) + 3) + float(rng.normal(0, 4))
    steps = 6 if state == TrialState.COMPLETE else 2
    reports = {k: value * (k + 1) / 6 + float(rng.normal(0, 3)) for k in range(steps)}
    values = [value, float(rng.uniform(20, 60))] if two else [value]
    user_attrs: dict[str, Any] = {
        "seeds": [number + 100],
        "n_steps": 20_000,
        "seconds": 31.5,
        "worker": "host:1:2",
    }
    if state == TrialState.FAIL:
        user_attrs["error"] = f"ValueError: <b>trial {number}</b> blew up"
    else:
        user_attrs["hyperparams"] = dump_yaml(hyperparams_of(params))
    trial = create_trial(
        state=state,
        values=values if state == TrialState.COMPLETE else None,
        params=params,
        distributions={name: SPACE[name] for name in params},
        user_attrs=user_attrs,
        intermediate_values={} if two or state == TrialState.FAIL else reports,
    )
    trial.datetime_start = BEGAN + timedelta(seconds=20 * number)
    if state.is_finished():
        trial.datetime_complete = trial.datetime_start + timedelta(seconds=38 if steps == 6 else 15)
    return trial


def hyperparams_of(params: dict[str, Any]) -> dict[str, Any]:
    """The configuration that follows from what was drawn."""
    return {
        "n_timesteps": 20_000.0,
        "policy": "MlpPolicy",
        "n_envs": 4,
        "learning_rate": params["learning_rate"],
        "n_steps": 2 ** params["log2(n_steps)"],
        "gamma": 1 - params["1 - gamma"],
        "policy_kwargs": {
            "net_arch": [int(part) for part in params["policy_kwargs.net_arch"][1:-1].split(",")]
        },
    }


def returns(study: optuna.Study) -> Sequence[float]:
    return [trial.values[0] for trial in study.trials if trial.state == TrialState.COMPLETE]

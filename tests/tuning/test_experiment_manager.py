from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import optuna
import pytest

import rlzoo
from rlzoo.core.errors import UserError

SMALL = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 1}


class Count(rlzoo.BaseCallback):
    def _on_step(self) -> bool:
        return True


class Manager(rlzoo.ExperimentManager):
    """What a user's script has."""

    def create_envs(self, n_envs: int, eval_env: bool = False, no_log: bool = False) -> rlzoo.VecEnv:
        venv = super().create_envs(n_envs, eval_env, no_log)
        venv.made_for = "evaluation" if eval_env else "training"
        return venv

    def create_callbacks(self) -> None:
        super().create_callbacks()
        self.callbacks.append(Count())


def manager(tmp_path: Path, **options: Any) -> Manager:
    given = {"n_timesteps": 64, "hyperparams": SMALL, "verbose": 0, "device": "cpu", **options}
    return Manager(argparse.Namespace(), "ppo", "CartPole-v1", str(tmp_path), **given)


def test_manager_trains_with_the_parts_of_a_subclass(tmp_path):
    made = manager(tmp_path, eval_freq=32, n_eval_episodes=1)
    model, hyperparams = made.setup_experiment()
    assert hyperparams["n_steps"] == made._hyperparams["n_steps"] == 16
    assert model.env.made_for == "training"
    assert made._eval_env.made_for == "evaluation"
    made.learn(model)
    made.save_trained_model(model)
    assert [type(callback).__name__ for callback in made.callbacks] == ["EvalCallback", "Count"]
    assert made.callbacks[-1].num_timesteps == 64
    assert {path.name for path in Path(made.save_path).iterdir()} >= {"CartPole-v1.zip", "best_model.zip"}


def test_overrides_may_be_changed_before_the_setup(tmp_path):
    made = manager(tmp_path, eval_freq=-1)
    made._hyperparams["n_steps"] = 8
    model, _ = made.setup_experiment()
    assert model.n_steps == 8
    model.learn(16)
    made.save_trained_model(model)  # trained otherwise than by `learn`
    assert rlzoo.PPO.load(Path(made.save_path) / "CartPole-v1.zip").num_timesteps == 16


def test_manager_makes_environments_before_the_setup(tmp_path):
    venv = manager(tmp_path).create_envs(3, no_log=True)
    assert (venv.num_envs, venv.made_for) == (3, "training")
    assert not list(tmp_path.iterdir())
    with pytest.raises(UserError, match="setup_experiment"):
        manager(tmp_path).create_callbacks()
    with pytest.raises(UserError, match="setup_experiment"):
        manager(tmp_path).learn(rlzoo.PPO("MlpPolicy", "CartPole-v1"))


def test_attributes_are_those_of_the_hyperparameters(tmp_path):
    values = {
        **SMALL,
        "n_timesteps": 32,
        "normalize": "{'norm_obs': True, 'norm_reward': False}",
        "frame_stack": 2,
    }
    made = manager(tmp_path, n_timesteps=-1, hyperparams=values, eval_freq=-1)
    model, _ = made.setup_experiment()
    assert (made.n_timesteps, made.n_envs, made.frame_stack, made.normalize) == (32, 2, 2, True)
    assert made.normalize_kwargs["norm_reward"] is False and made.monitor_kwargs == {}
    assert model.learn(made.n_timesteps).num_timesteps == 32


def test_search_refuses_an_objective_of_its_own(tmp_path):
    class Own(Manager):
        def objective(self, trial):
            return 0.0

    made = Own(argparse.Namespace(), "ppo", "CartPole-v1", str(tmp_path), optimize_hyperparameters=True)
    with pytest.raises(UserError, match=r"Own\.objective is not called"):
        made.hyperparameters_optimization()
    assert not list(tmp_path.iterdir())


def test_manager_searches(tmp_path):
    made = manager(
        tmp_path, optimize_hyperparameters=True, n_trials=1, no_optim_plots=True, n_eval_episodes=1
    )
    assert made.setup_experiment() is None
    study = made.hyperparameters_optimization()
    assert isinstance(study, optuna.Study)
    again = manager(tmp_path, trial_id=0, eval_freq=-1)
    model, values = again.setup_experiment()
    assert values["learning_rate"] is not None
    again.learn(model)

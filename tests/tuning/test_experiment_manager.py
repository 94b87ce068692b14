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


class Written(rlzoo.ExperimentManager):
    """Makes environments as a subclass does that was written for RL Baselines3 Zoo."""

    def create_envs(self, n_envs: int, eval_env: bool = False, no_log: bool = False) -> rlzoo.VecEnv:
        venv = rlzoo.make_vec_env(
            self.env_name.gym_id,
            n_envs=n_envs,
            seed=self.seed,
            env_kwargs=self.eval_env_kwargs if eval_env else self.env_kwargs,
            monitor_dir=None if eval_env or no_log else self.save_path,
            wrapper_class=self.env_wrapper,
            vec_env_cls=self.vec_env_class,
            vec_env_kwargs=self.vec_env_kwargs,
            monitor_kwargs=self.monitor_kwargs,
        )
        if self.vec_env_wrapper is not None:
            venv = self.vec_env_wrapper(venv)
        return self._maybe_normalize(venv, eval_env)


def written(tmp_path: Path, env_id: str = "Pendulum-v1", algo: str = "ppo", **options: Any) -> Written:
    given = {"n_timesteps": 64, "verbose": 0, "device": "cpu", "eval_freq": 32, **options}
    return Written(argparse.Namespace(), algo, env_id, str(tmp_path), **given)


def test_written_out_create_envs_has_what_it_reads(tmp_path):
    values = {
        **SMALL,
        "normalize": True,
        "env_wrapper": [{"rlzoo.HistoryWrapper": {"horizon": 2}}],
        "vec_env_wrapper": "rlzoo.VecMonitor",
        "callback": "rlzoo.RawStatisticsCallback",
        "env_kwargs": {"g": 9.0},
    }
    made = written(tmp_path, hyperparams=values, tensorboard_log=str(tmp_path / "tb"), n_eval_episodes=1)
    assert made.save_path == str(tmp_path / "ppo" / "Pendulum-v1_1")
    assert made.env_wrapper is made.vec_env_wrapper is None and made.specified_callbacks == []
    model, _ = made.setup_experiment()
    assert isinstance(model.env, rlzoo.VecNormalize) and isinstance(model.env.venv, rlzoo.VecMonitor)
    assert type(model.env.unwrapped) is made.vec_env_class is rlzoo.DummyVecEnv
    assert model.env.get_attr("g") == [9.0, 9.0] and model.observation_space.shape == (8,)
    assert made._eval_env.training is made._eval_env.norm_reward is False
    assert model.env.training and model.env.norm_reward
    assert made.specified_callbacks == ["rlzoo.RawStatisticsCallback"]
    assert made.env_kwargs == made.eval_env_kwargs == {"g": 9.0}
    assert made.custom_hyperparams is values and made.deterministic_eval and not made.continue_training
    made.learn(model)
    names = {path.name for path in Path(made.save_path).iterdir()}
    assert names >= {"0.monitor.csv", "1.monitor.csv", "Pendulum-v1.zip", "best_model.zip"}
    again = written(tmp_path, hyperparams=values, trained_agent=f"{made.save_path}/Pendulum-v1.zip")
    assert again.continue_training and again.save_path == str(tmp_path / "ppo" / "Pendulum-v1_2")


def test_save_path_is_known_where_workers_play_candidates(tmp_path):
    made = written(tmp_path, "CartPole-v1", "ars", hyperparams={"n_envs": 2, "n_delta": 1}, eval_freq=-1)
    model, _ = made.setup_experiment()
    assert (made.n_envs, model.env.num_envs) == (2, 1)
    assert Path(made.save_path, "0.monitor.csv").is_file()
    made.learn(model)


def test_search_sets_what_a_script_reads(tmp_path):
    values = {**SMALL, "frame_stack": 2, "env_wrapper": "rlzoo.HistoryWrapper"}
    made = written(tmp_path, hyperparams=values, optimize_hyperparameters=True, vec_env_type="subproc")
    assert made.setup_experiment() is None
    assert (made.n_envs, made.frame_stack, made.vec_env_class) == (2, 2, rlzoo.SubprocVecEnv)
    assert made.env_wrapper is not None and not list(tmp_path.iterdir())


def test_evaluation_is_as_deterministic_as_the_manager_says(tmp_path):
    made = manager(tmp_path, eval_freq=32)
    made.deterministic_eval = False
    made.setup_experiment()
    assert [callback.deterministic for callback in made.callbacks[:1]] == [False]


def test_id_with_a_slash_is_a_name_and_an_id(tmp_path):
    made = manager(tmp_path)
    assert made.env_name == made.env_name.gym_id == "CartPole-v1"
    other = rlzoo.ExperimentManager(argparse.Namespace(), "ppo", "ALE/Pong-v5", str(tmp_path))
    assert (other.env_name, other.run.env_id) == ("ALE-Pong-v5", "ALE/Pong-v5")
    assert other.params_path == str(tmp_path / "ppo" / "ALE-Pong-v5_1" / "ALE-Pong-v5")
    assert not other.deterministic_eval

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna
import pytest

import rlzoo
from rlzoo.core.errors import UserError
from rlzoo.tuning.space import own_samplers
from rlzoo.tuning.space.own_samplers import HYPERPARAMS_CONVERTER, HYPERPARAMS_SAMPLER, convert_params


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    small = {"n_envs": 1, "n_steps": 16, "batch_size": 16, "n_epochs": 1}
    return {
        "algo": "ppo", "env": "CartPole-v1", "n_timesteps": 32, "hyperparams": small, "n_trials": 2,
        "log_folder": tmp_path, "eval_episodes": 1, "no_optim_plots": True, "verbose": 0, "seed": 0,
    }  # fmt: skip


def test_a_function_of_the_user_is_searched_with(options, monkeypatch):
    asked = []

    def sample(trial: Any, n_actions: int, n_envs: int, additional: dict[str, Any]) -> dict[str, Any]:
        asked.append((n_actions, n_envs, additional["using_her_replay_buffer"]))
        return {"one_minus_gamma": trial.suggest_float("g", 0.1, 0.2), "net_arch": "tiny"}

    monkeypatch.setitem(HYPERPARAMS_SAMPLER, "ppo", sample)
    study = rlzoo.optimize(**options)
    assert asked == [(0, 1, False)] * 2  # discrete actions
    assert [[*trial.params] for trial in study.trials] == [["g"], ["g"]]
    assert "net_arch: [64]" in study.best_trial.user_attrs["hyperparams"]


def test_wrong_functions_of_the_user_are_explained(options, monkeypatch):
    monkeypatch.setitem(HYPERPARAMS_SAMPLER, "ppo", lambda *arguments: None)
    with pytest.raises(rlzoo.RunFailed, match="must return a dictionary, not None"):
        rlzoo.optimize(**options)
    with pytest.raises(UserError, match="use tpe"):
        rlzoo.optimize(**options, sampler="grid", study_name="other")


@pytest.mark.parametrize("algo", ["ppo", "sac", "dqn", "ars"])
def test_samplers_of_rlzoo_draw_from_its_spaces(algo):
    sample = getattr(rlzoo, f"sample_{algo}_params")
    values = sample(optuna.create_study().ask(), n_actions=2, n_envs=1, additional_args={})
    assert "learning_rate" in values
    assert HYPERPARAMS_SAMPLER[algo] is sample
    assert own_samplers.own_sampler(algo) is None


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_drawn_hyperparameters_are_ready_to_use(algo):
    learner = {"ppo": rlzoo.PPO, "sac": rlzoo.SAC}[algo]
    for seed in range(3):
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed))
        learner("MlpPolicy", "Pendulum-v1", **HYPERPARAMS_SAMPLER[algo](study.ask(), 1, 1, {}))


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_no_noise_on_states_is_drawn_for_discrete_actions(algo):
    for seed in range(8):
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed))
        drawn = HYPERPARAMS_SAMPLER[algo](study.ask(), 0, 1, {})
        assert not drawn.get("use_sde") and "learning_rate" in drawn
    assert "learning_rate" in HYPERPARAMS_SAMPLER["sac"](optuna.create_study().ask(), 0, 1, {})


@pytest.mark.parametrize("algo", ["ppo", "sac", "dqn", "ars", "tqc"])
def test_the_parameters_of_a_trial_become_its_hyperparameters(algo):
    for seed in range(5):
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed))
        trial = study.ask()
        hyperparameters = HYPERPARAMS_SAMPLER[algo](trial, 1, 1, {})
        assert HYPERPARAMS_CONVERTER[algo](dict(trial.params)) == hyperparameters


def test_parameters_of_a_trial_keep_those_of_the_user():
    values = HYPERPARAMS_CONVERTER["ppo"]({"log2(n_steps)": 5, "1 - gamma": 0.125, "mine": 3})
    assert (values["n_steps"], values["gamma"], values["mine"]) == (32, 0.875, 3)


def test_values_as_the_other_zoo_draws_them_are_converted():
    drawn = {"one_minus_gamma": 0.25, "batch_size_pow": 3, "net_arch": "big", "train_freq": 8, "tau": 0.1}
    assert convert_params({**drawn, "subsample_steps": 2}) == {
        "gamma": 0.75,
        "batch_size": 8,
        "policy_kwargs": {"net_arch": [400, 300]},
        "train_freq": 8,
        "tau": 0.1,
        "gradient_steps": 4,
    }
    assert convert_params({"train_freq": 8, "n_quantiles": 25, "net_arch": "large"}) == {
        "train_freq": 8,
        "gradient_steps": 8,
        "policy_kwargs": {"n_quantiles": 25, "net_arch": [256, 256, 256]},
    }
    assert convert_params({"n_delta_pow": 4, "top_frac_size": 0.5}) == {"n_delta": 16, "n_top": 8}

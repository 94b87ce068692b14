"""PPO1 and PPO2 make a PPO with the options and defaults that they had; old names work elsewhere too."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rlzoo import A2C, DDPG, DQN, HER, PPO, PPO1, PPO2, SAC, BitFlippingEnv, UnknownArgument, UserError
from rlzoo.envs.make_vec_env import make_vec_env
from rlzoo.experiment.resolve import resolve_config


def notices(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(warning.message) for warning in caught]


def test_ppo2_is_a_ppo_with_its_old_defaults() -> None:
    with pytest.warns(UserWarning) as caught:
        model = PPO2("MlpPolicy", make_vec_env("CartPole-v1", n_envs=4), noptepochs=2, cliprange=0.1, seed=0)
    assert notices(caught) == ["PPO2 is now PPO; noptepochs is now n_epochs; cliprange is now clip_range"]
    assert caught[0].filename == __file__
    assert type(model) is PPO
    assert (model.n_steps, model.batch_size, model.n_epochs) == (128, 128, 2)
    assert (model.learning_rate, model.ent_coef, model.vf_coef) == (2.5e-4, 0.01, 0.5)
    assert (model.clip_range, model.clip_range_vf) == (0.1, 0.1)
    model.learn(512)
    assert model.n_updates == 2 * 4


def test_ppo1_is_a_ppo_with_its_old_defaults() -> None:
    with pytest.warns(UserWarning, match="PPO1 is now PPO; timesteps_per_actorbatch is now n_steps"):
        model = PPO1("MlpPolicy", gym.make("CartPole-v1"), timesteps_per_actorbatch=64, seed=0)
    assert type(model) is PPO
    assert (model.n_steps, model.batch_size, model.n_epochs) == (64, 64, 4)
    assert (model.learning_rate, model.clip_range, model.clip_range_vf) == ("lin_0.001", "lin_0.2", None)
    assert (model.vf_coef, model.max_grad_norm, model.ent_coef) == (1.0, float("inf"), 0.01)
    model.learn(128)
    assert model.n_updates == 2 * 4


@pytest.mark.filterwarnings("ignore:PPO")
def test_arguments_by_position_are_in_the_old_order() -> None:
    model = PPO2("MlpPolicy", "CartPole-v1", 0.98, 64, 0.0, 1e-3, 0.4, 0.6, 0.9, 2, 3, 0.3, -1, 0)
    assert (model.gamma, model.n_steps, model.ent_coef, model.learning_rate) == (0.98, 64, 0.0, 1e-3)
    assert (model.vf_coef, model.max_grad_norm, model.gae_lambda, model.batch_size) == (0.4, 0.6, 0.9, 32)
    assert (model.n_epochs, model.clip_range, model.clip_range_vf, model.verbose) == (3, 0.3, None, 0)
    with pytest.raises(TypeError, match="PPO2 takes at most"):
        PPO2("MlpPolicy", "CartPole-v1", *range(30))
    with pytest.raises(TypeError, match="PPO2 got several values for 'gamma'"):
        PPO2("MlpPolicy", "CartPole-v1", 0.9, gamma=0.9)


@pytest.mark.filterwarnings("ignore:PPO")
@pytest.mark.parametrize("older", [PPO1, PPO2])
def test_save_and_load(tmp_path: Path, older: Any) -> None:
    model = older("MlpPolicy", "CartPole-v1", n_steps=64, seed=0).learn(64)
    model.save(tmp_path / "agent")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = older.load(tmp_path / "agent", env="CartPole-v1")
    assert type(loaded) is PPO and loaded.config == model.config
    obs = model.get_env().reset()
    assert loaded.predict(obs, deterministic=True)[0] == model.predict(obs, deterministic=True)[0]
    loaded.learn(64, reset_num_timesteps=False)
    with pytest.warns(UserWarning, match="cliprange is now clip_range; nminibatches=2 is now batch_size=32"):
        loaded = older.load(tmp_path / "agent", cliprange=0.05, nminibatches=2)
    assert (loaded.clip_range, loaded.batch_size, loaded.n_steps) == (0.05, 32, 64)


def test_old_names_of_todays_classes() -> None:
    with pytest.warns(UserWarning) as caught:
        model = A2C(
            "MlpPolicy", "CartPole-v1", alpha=0.9, epsilon=1e-3, lr_schedule="linear", n_cpu_tf_sess=1
        )
    assert len(caught) == 1 and caught[0].filename == __file__
    assert model.learning_rate == "lin_0.0007"
    group = model.policy.optimizer.param_groups[0]
    assert group["alpha"] == 0.9 and group["eps"] == 1e-3
    assert model.ent_coef == 0.0  # defaults are today's: the name A2C is

    with pytest.warns(UserWarning, match="^target_network_update_freq is now target_update_interval$"):
        assert DQN("MlpPolicy", "CartPole-v1", target_network_update_freq=500).target_update_interval == 500
    with pytest.warns(UserWarning, match="nb_train_steps is now gradient_steps"):
        ddpg = DDPG("MlpPolicy", "Pendulum-v1", nb_train_steps=5, nb_rollout_steps=10, memory_limit=99)
    assert (ddpg.gradient_steps, ddpg.train_freq.frequency, ddpg.buffer_size) == (5, 10, 99)
    with pytest.warns(UserWarning, match="memory_limit is now buffer_size"):
        her = HER("MlpPolicy", BitFlippingEnv(3, continuous=True), DDPG, memory_limit=99)
    assert type(her) is DDPG and her.buffer_size == 99


def test_loading_takes_old_names(tmp_path: Path) -> None:
    A2C("MlpPolicy", "CartPole-v1", learning_rate=1e-3).save(tmp_path / "agent")
    with pytest.warns(UserWarning, match="^lr_schedule='linear' is now learning_rate='lin_0.001'$"):
        assert A2C.load(tmp_path / "agent", lr_schedule="linear").learning_rate == "lin_0.001"


def test_names_that_are_neither_old_nor_todays() -> None:
    with pytest.raises(UnknownArgument, match="unknown hyperparameter 'n_epochz'; did you mean 'n_epochs'"):
        PPO("MlpPolicy", "CartPole-v1", n_epochz=3)
    with pytest.raises(UnknownArgument, match="unknown hyperparameter 'noptepochs'"):
        SAC("MlpPolicy", "Pendulum-v1", noptepochs=3)
    with pytest.warns(UserWarning), pytest.raises(UnknownArgument, match="did you mean 'n_epochs'"):
        PPO2("MlpPolicy", "CartPole-v1", n_epochz=3)
    with pytest.raises(UserError, match="'cliprange' \\(old\\) and 'clip_range' say the same: give one"):
        PPO("MlpPolicy", "CartPole-v1", cliprange=0.1, clip_range=0.1)


def test_todays_names_give_no_notice() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PPO("MlpPolicy", "CartPole-v1", n_epochs=3)


@pytest.mark.filterwarnings("ignore:ppo2 is now ppo")
def test_entries_under_an_old_name_are_entries_of_ppo() -> None:
    resolved = resolve_config("ppo2", {"policy": "MlpPolicy", "n_envs": 4, "nminibatches": 2})
    assert resolved.algorithm is PPO and resolved.algo == "ppo2"
    assert resolved.hyperparams["batch_size"] == 256 and resolved.hyperparams["clip_range_vf"] == 0.2
    assert "nminibatches" not in resolved.values and resolved.values["n_steps"] == 128
    again = resolve_config("ppo2", resolved.values)
    assert again.hyperparams == resolved.hyperparams

"""Sampled hyperparameters are made to fit; what the user fixed stays."""

from __future__ import annotations

from typing import Any

import pytest

from rlzoo.config.values_as_text import Name
from rlzoo.tuning.space.default_spaces import overrides

MLP = {"policy": "MlpPolicy", "n_timesteps": 1_000_000}


@pytest.mark.parametrize(
    ("algo", "values", "sampled", "changed"),
    [
        ("ppo", {"n_envs": 8}, {"n_steps": 512, "batch_size": 64}, {}),
        ("ppo", {"n_envs": 1, "n_steps": 100}, {"batch_size": 64}, {"batch_size": 50}),
        ("ppo", {"n_envs": 1, "batch_size": 100}, {"n_steps": 512}, {"n_steps": 500}),
        ("ppo", {"n_envs": 2, "n_steps": 8}, {"batch_size": 256}, {"batch_size": 16}),
        ("ppo", {"n_envs": 8, "n_timesteps": 20_000}, {"n_steps": 4096}, {"n_steps": 512}),
        # What the user fixed is not what the budget would have, and minibatches go by what it is.
        ("ppo", {"n_envs": 1, "n_timesteps": 400, "n_steps": 300}, {"batch_size": 64}, {"batch_size": 60}),
        ("a2c", {"n_timesteps": 2}, {"n_steps": 64}, {"n_steps": 2}),
        ("sac", {"n_timesteps": 1000}, {"learning_starts": 10_000}, {"learning_starts": 500}),
        (
            "sac",
            {"n_timesteps": 2000},
            {"train_freq": 1000, "gradient_steps": 500},
            {"train_freq": 100, "gradient_steps": 50},
        ),
        ("sac", {"n_timesteps": 2000}, {"train_freq": [1, "episode"], "gradient_steps": -1}, {}),
        ("dqn", {"n_timesteps": 2000}, {"target_update_interval": 9000}, {"target_update_interval": 200}),
        ("dqn", {"n_timesteps": 2e6, "buffer_size": 5e4}, {"n_steps": 3}, {}),
        ("ars", {"n_delta": 4}, {"n_top": 9}, {"n_top": 4}),
        ("ars", {"n_top": 9}, {"n_delta": 4}, {"n_delta": 9}),
        ("acer", {}, {"n_steps": 30, "buffer_size": 1000, "replay_start": 1000}, {"buffer_size": 1020}),
        ("acer", {"buffer_size": 1000}, {"n_steps": 30, "replay_start": 1000}, {"replay_start": 990}),
        (
            "tqc",
            {"policy_kwargs": {"n_quantiles": 5}},
            {"top_quantiles_to_drop_per_net": 7},
            {"top_quantiles_to_drop_per_net": 4},
        ),
    ],
)
def test_rules(algo: str, values: dict[str, Any], sampled: dict[str, Any], changed: dict[str, Any]) -> None:
    assert overrides(algo, {**MLP, **values}, sampled) == {**sampled, **changed}


def test_keys_become_dictionaries() -> None:
    sampled = {
        "gamma": 0.9,
        "policy_kwargs.net_arch": [64],
        "policy_kwargs.activation_fn": "nn.ReLU",
        "replay_buffer_kwargs.n_sampled_goal": 4,
    }
    assert overrides("sac", {**MLP, "policy_kwargs": {"log_std_init": -3}}, sampled) == {
        "gamma": 0.9,
        "policy_kwargs": {"net_arch": [64], "activation_fn": Name("torch.nn.ReLU")},
        "replay_buffer_kwargs": {"n_sampled_goal": 4},
    }

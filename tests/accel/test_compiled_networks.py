"""`torch.compile` of the networks of gradient steps."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch

import rlzoo
from rlzoo.accel.gpu.compiled_networks import compiled_networks
from rlzoo.core.errors import UserError
from rlzoo.core.runtime import get_rng_state, set_rng_state


def make(name: str) -> Any:
    env_id = "CartPole-v1" if name == "DQN" else "Pendulum-v1"
    options: dict[str, Any] = {"policy_kwargs": {"net_arch": [16]}, "seed": 0, "device": "cpu"}
    if name == "PPO":
        options |= {"n_steps": 16, "batch_size": 16, "n_epochs": 2}
    else:
        options |= {"learning_starts": 20, "batch_size": 8, "train_freq": 1, "buffer_size": 500}
    return getattr(rlzoo, name)("MlpPolicy", rlzoo.make_vec_env(env_id, 2, seed=0), **options)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("name", ["PPO", "SAC", "DQN"])
def test_compiled_networks_learn_the_same(name: str) -> None:
    plain, compiled = make(name), make(name)
    state = get_rng_state()
    plain.learn(60)
    set_rng_state(state)
    compiled.compile_networks = True
    compiled.learn(60)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
    for one, two in zip(plain.policy.parameters(), compiled.policy.parameters(), strict=True):
        assert torch.allclose(one, two, rtol=1e-3, atol=1e-4)


def test_networks_are_plain_again_afterwards() -> None:
    policy = make("SAC").policy
    before = policy.actor.action_log_prob
    with compiled_networks(policy):
        assert policy.actor.action_log_prob is not before and "values" in vars(policy.critic)
    assert policy.actor.action_log_prob == before and "forward" not in vars(policy.critic)


def test_missing_compiler_is_a_user_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    model = make("DQN")
    model.compile_networks = True
    with pytest.raises(UserError, match="install g"):
        model.learn(10)

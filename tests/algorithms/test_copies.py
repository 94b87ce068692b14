"""Copies of an agent, also of one that has learned, and what scripts assign to agents and buffers."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import cloudpickle
import pytest
import torch

from rlzoo import A2C, ACER, ACKTR, DDPG, DQN, PPO, SAC, TD3, TQC, ActorCriticPolicy, CrossQ
from rlzoo.core.runtime import get_rng_state, set_rng_state

CASES: dict[Any, tuple[str, dict[str, Any]]] = {
    PPO: ("CartPole-v1", {"n_steps": 32, "batch_size": 32}),
    A2C: ("CartPole-v1", {}),
    DQN: ("CartPole-v1", {"learning_starts": 10}),
    SAC: ("Pendulum-v1", {"learning_starts": 10}),
    TD3: ("Pendulum-v1", {"learning_starts": 10}),
    TQC: ("Pendulum-v1", {"learning_starts": 10}),
    CrossQ: ("Pendulum-v1", {"learning_starts": 10}),
    ACKTR: ("CartPole-v1", {}),
    ACER: ("CartPole-v1", {}),
    DDPG: ("Pendulum-v1", {"learning_starts": 10, "normalize_observations": True, "normalize_returns": True}),
}


def make(algorithm: Any, **more: Any) -> Any:
    env_id, kwargs = CASES[algorithm]
    kwargs = {"policy_kwargs": {"net_arch": [16]}, "device": "cpu", "seed": 0, **kwargs, **more}
    return algorithm("MlpPolicy", env_id, **kwargs)


def parameters(model: Any) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.policy.parameters()])


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
@pytest.mark.parametrize("algorithm", CASES)
def test_copy_of_a_trained_agent_learns_as_the_agent(algorithm: Any, how: str) -> None:
    model = make(algorithm).learn(64)
    copied = copy.deepcopy(model) if how == "deepcopy" else pickle.loads(cloudpickle.dumps(model))
    before, state = parameters(model), get_rng_state()
    copied.learn(64, reset_num_timesteps=False)
    assert torch.equal(before, parameters(model)) and not torch.equal(before, parameters(copied))
    set_rng_state(state)
    model.learn(64, reset_num_timesteps=False)
    torch.testing.assert_close(parameters(model), parameters(copied), rtol=1e-4, atol=1e-6)
    assert model.n_updates == copied.n_updates


def test_copy_reads_its_own_rollout() -> None:
    model = make(PPO).learn(32)
    copied = copy.deepcopy(model)
    assert copied.rollout_buffer.algorithm() is copied and model.rollout_buffer.algorithm() is model


def test_signature_of_the_constructor_names_hyperparameters() -> None:
    class Mine(SAC):
        pass

    for algorithm in (PPO, SAC, Mine):
        names = list(inspect.signature(algorithm.__init__).parameters)
        assert names[:3] == ["self", "policy", "env"] and {"learning_rate", "seed"} <= set(names)
        assert names[1:] == list(inspect.signature(algorithm).parameters)


def test_policy_aliases_of_a_subclass_are_used() -> None:
    class Mine(ActorCriticPolicy):
        pass

    class Own(PPO):
        policy_aliases = {"MlpPolicy": Mine, "Other": Mine}

    for name in ("MlpPolicy", "Other"):
        assert type(Own(name, "CartPole-v1", device="cpu").policy) is Mine


def test_assigned_exploration_schedule_is_followed() -> None:
    model = make(DQN)
    model.exploration_schedule = lambda progress: 0.25 * progress
    model.learn(40)
    assert model.exploration_rate == pytest.approx(0.25 * model.counters.progress_remaining)


def test_methods_assigned_to_a_replay_buffer_are_called() -> None:
    model, calls = make(SAC), []
    sample, add = model.replay_buffer.sample, model.replay_buffer.add

    def noted(name: str, function: Any) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            calls.append(name)
            return function(*arguments, **keywords)

        return call

    model.replay_buffer.sample, model.replay_buffer.add = noted("sample", sample), noted("add", add)
    model.learn(30)
    assert calls.count("add") == 30 and calls.count("sample") == model.n_updates > 0

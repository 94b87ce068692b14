"""Parameters, layers and networks that a script replaces are trained on, as those that were there before."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from rlzoo import A2C, DQN, PPO, SAC, TD3, TRPO, RecurrentPPO, set_random_seed
from rlzoo.core.errors import UserError

ENV_IDS: dict[Any, str] = {
    **dict.fromkeys((PPO, A2C, TRPO, DQN), "CartPole-v1"),
    **dict.fromkeys((SAC, TD3), "Pendulum-v1"),
}
OPTIONS: dict[Any, dict[str, Any]] = {
    PPO: {"n_steps": 32, "batch_size": 32},
    A2C: {"n_steps": 8},
    TRPO: {"n_steps": 32, "batch_size": 32},
    DQN: {"learning_starts": 10, "train_freq": 1, "target_update_interval": 5},
    SAC: {"learning_starts": 10},
    TD3: {"learning_starts": 10},
}


def make(algorithm: Any) -> Any:
    kwargs = {"policy_kwargs": {"net_arch": [16]}, "device": "cpu", "seed": 0, **OPTIONS[algorithm]}
    return algorithm("MlpPolicy", ENV_IDS[algorithm], **kwargs)


def values(module: nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in module.parameters()]


def assert_all_change(module: nn.Module, model: Any, steps: int = 64) -> None:
    before = values(module)
    model.learn(steps)
    for old, new in zip(before, module.parameters(), strict=True):
        assert not torch.equal(old, new)


def copy_memory(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.data = parameter.data.clone()


@pytest.mark.parametrize("algorithm", ENV_IDS)
def test_parameters_with_new_memory_are_trained(algorithm: Any) -> None:
    plain, moved = make(algorithm), make(algorithm)
    copy_memory(moved.policy)
    for model in (plain, moved):
        set_random_seed(0)
        model.env.seed(0)
        model.learn(64)
    for one, two in zip(plain.policy.parameters(), moved.policy.parameters(), strict=True):
        torch.testing.assert_close(one, two)


def test_target_networks_with_new_memory_are_updated() -> None:
    for algorithm, name in ((SAC, "critic_target"), (DQN, "q_net_target"), (TD3, "actor_target")):
        model = make(algorithm).learn(30)
        copy_memory(getattr(model.policy, name))
        assert_all_change(getattr(model.policy, name), model)


def test_parameters_of_a_vector_are_trained() -> None:
    model = make(SAC).learn(30)
    n = sum(parameter.numel() for parameter in model.actor.parameters())
    nn.utils.vector_to_parameters(torch.full((n,), 0.01), model.actor.parameters())
    assert all((parameter == 0.01).all() for parameter in model.actor.parameters())
    assert_all_change(model.actor, model)


def test_parameters_of_another_number_type_are_an_error() -> None:
    model = make(PPO).learn(32)
    model.policy.double()
    with pytest.raises(RuntimeError):
        model.learn(32)


def test_replaced_head_is_clipped_and_stepped_on() -> None:
    model = make(PPO).learn(32)
    model.policy.action_net = nn.Linear(16, 2)
    optimizer = model.policy.optimizer = torch.optim.Adam(model.policy.parameters(), lr=1e-3)
    assert_all_change(model.policy, model)
    assert model.policy.optimizer is optimizer
    gradients = [parameter.grad.flatten() for parameter in model.policy.parameters()]
    assert torch.cat(gradients).norm() < model.max_grad_norm + 1e-3


def test_replaced_head_of_an_actor_keeps_the_rest() -> None:
    model = make(SAC).learn(40)
    targets, steps = values(model.critic_target), model.n_updates
    model.actor.mu = nn.Linear(16, 1)
    optimizer = model.actor.optimizer = torch.optim.Adam(model.actor.parameters())
    model.optimize_assigned_policy()
    (state,) = model.critic.optimizer.state.values()
    assert float(state["step"]) == steps > 0
    for old, new in zip(targets, model.critic_target.parameters(), strict=True):
        assert torch.equal(old, new)
    assert_all_change(model.actor, model)
    assert model.actor.optimizer is optimizer


def test_replaced_networks_are_trained() -> None:
    sac = make(SAC).learn(30)
    sac.policy.critic = sac.policy.make_critic()
    assert_all_change(sac.policy.critic, sac)
    td3 = make(TD3).learn(30)
    td3.policy.actor = copy.deepcopy(td3.policy.actor)
    td3.policy.actor.optimizer = torch.optim.Adam(td3.policy.actor.parameters())
    assert_all_change(td3.policy.actor, td3)


def test_replaced_target_networks_are_updated() -> None:
    sac = make(SAC).learn(30)
    sac.policy.critic_target = copy.deepcopy(sac.policy.critic)
    assert_all_change(sac.policy.critic_target, sac)
    dqn = make(DQN).learn(30)
    dqn.policy.q_net_target = copy.deepcopy(dqn.policy.q_net)
    assert_all_change(dqn.policy.q_net_target, dqn)


class Noisy(nn.Linear):
    """A layer that draws new noise into a buffer at every evaluation, as those of NoisyNet may do."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__(n_inputs, n_outputs)
        self.register_buffer("noise", torch.zeros(n_outputs, n_inputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.noise.normal_(1.0, 0.1)
        return nn.functional.linear(x, self.weight * self.noise, self.bias)


@pytest.mark.parametrize("double_q", [False, True])
def test_layers_that_change_their_buffers_are_trained(double_q: bool) -> None:
    model = make(DQN)
    model.replace_config(double_q=double_q)
    for network in (model.policy.q_net, model.policy.q_net_target):
        network.q_net[-1] = Noisy(16, 2)
    assert_all_change(model.policy.q_net, model)


def test_replaced_layers_before_an_lstm_are_called() -> None:
    model = RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=8, batch_size=8, seed=0, device="cpu")
    rows = []
    handle = model.policy.before_lstm.register_forward_hook(lambda _, __, output: rows.append(len(output)))
    model.learn(8)
    assert rows
    handle.remove()
    model.policy.before_lstm = nn.Linear(4, 4)
    assert_all_change(model.policy.before_lstm, model, steps=8)


def test_part_that_is_unfrozen_after_a_new_head_is_trained() -> None:
    model = make(PPO)
    model.policy.mlp_extractor.requires_grad_(False)
    model.policy.action_net = nn.Linear(16, 2)
    model.learn(32)
    model.policy.mlp_extractor.requires_grad_(True)
    assert_all_change(model.policy, model)


def test_copy_of_an_agent_with_a_replaced_head_trains_it() -> None:
    model = make(PPO).learn(32)
    model.policy.action_net = nn.Linear(16, 2)
    copied = copy.deepcopy(model)
    assert_all_change(copied.policy, copied)


def test_further_group_of_an_optimiser_is_refused() -> None:
    model = make(PPO)
    with pytest.raises(UserError, match="make one of all parameters"):
        model.policy.optimizer.add_param_group({"params": nn.Linear(2, 2).parameters()})


@pytest.mark.parametrize("algorithm", [PPO, A2C])
def test_an_extractor_under_all_its_names_is_trained(algorithm: Any) -> None:
    model = make(algorithm)
    extractor = nn.Sequential(nn.Flatten(), nn.Linear(4, 4))
    policy = model.policy
    policy.features_extractor = policy.pi_features_extractor = policy.vf_features_extractor = extractor
    policy.optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    assert_all_change(extractor, model)

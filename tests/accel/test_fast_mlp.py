"""Networks evaluated without their modules, against the modules."""

from __future__ import annotations

import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlzoo.accel.fast_mlp import chain_with_backward, fast_forward
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy


def mlp(activation=nn.Tanh, bias=True):
    return nn.Sequential(
        nn.Linear(4, 8, bias=bias), activation(), nn.Linear(8, 6), activation(), nn.Linear(6, 2)
    )


@pytest.mark.parametrize(
    "network",
    [
        mlp(),
        mlp(nn.ReLU),
        mlp(nn.GELU),
        mlp(bias=False),
        nn.Linear(4, 2),
        nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2)),
        nn.Sequential(nn.Tanh(), mlp(), nn.ReLU(), nn.ReLU()),
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)),
        nn.Sequential(),
    ],
)
def test_the_result_is_that_of_the_modules(network):
    x = torch.randn(5, 4)
    before = x.clone()
    with torch.no_grad():
        assert torch.equal(fast_forward(network, x), network(x))
    assert torch.equal(x, before)


def test_plain_layers_are_not_called_and_those_with_hooks_are(monkeypatch):
    net, x = mlp(), torch.randn(5, 4)
    called = []
    monkeypatch.setattr(nn.Linear, "forward", lambda layer, x: called.append(layer) or x)
    with torch.no_grad():
        fast_forward(net, x)
        assert not called
        handle = net[2].register_forward_hook(lambda *_: torch.zeros(5, 6))
        assert torch.equal(fast_forward(net, x), net[4].bias.expand(5, 2))
        assert called == [net[2]]
        handle.remove()
        net.register_forward_pre_hook(lambda *_: None)
        fast_forward(net, x)
        assert called[1:] == [net[0], net[2], net[4]]


@pytest.mark.parametrize(
    "action_space", [spaces.Discrete(3), spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 3])]
)
@pytest.mark.parametrize("arch", [[], {"pi": [16], "vf": [8, 8]}, [12, {"pi": [8]}]])
def test_a_policy_gives_the_same_with_and_without_gradients(action_space, arch):
    policy = ActorCriticPolicy(spaces.Box(-1, 1, (4,)), action_space, lambda _: 1e-3, net_arch=arch)
    obs = torch.randn(9, 4)
    with torch.no_grad():
        actions, values, log_prob = policy(obs)
        assert torch.allclose(policy.predict_values(obs), values, atol=1e-6)
    learned = policy.evaluate_actions(obs, actions)
    assert torch.allclose(learned[0], values, atol=1e-6)
    assert torch.allclose(learned[1], log_prob, atol=1e-6)


def test_policies_have_second_derivatives():
    policy = ActorCriticPolicy(spaces.Box(-1, 1, (4,)), spaces.Box(-1, 1, (2,)), lambda _: 1e-3)
    log_prob = policy.evaluate_actions(torch.randn(9, 4), torch.randn(9, 2))[1].mean()
    parameters = [policy.action_net.weight, policy.mlp_extractor.policy_net[0].weight]
    gradients = torch.autograd.grad(log_prob, parameters, create_graph=True)
    curvature = torch.autograd.grad(gradients[1].square().sum(), parameters)
    assert all(c.any() for c in curvature)


@pytest.mark.parametrize(
    "network",
    [
        mlp(),
        mlp(nn.ReLU),
        mlp(bias=False),
        nn.Linear(4, 2),
        nn.Sequential(nn.Tanh(), nn.Linear(4, 2), nn.ReLU()),
    ],
)
def test_gradients_are_those_of_autograd(network):
    x, gradient = torch.randn(5, 4), torch.randn(5, 2)
    network(x).backward(gradient)
    expected = [parameter.grad.clone() for parameter in network.parameters()]
    out, backward = chain_with_backward(network, x)
    assert torch.allclose(out, network(x)) and not out.requires_grad
    backward(gradient)  # adds to what is there
    for parameter, once in zip(network.parameters(), expected, strict=True):
        assert torch.allclose(parameter.grad, 2 * once, atol=1e-6)


def test_what_is_not_plain_is_left_to_autograd():
    def refused(network, *, grads=True):
        for parameter in network.parameters():
            parameter.grad = torch.zeros_like(parameter) if grads else None
        return chain_with_backward(network, torch.randn(5, 4)) is None

    assert not refused(mlp())
    assert refused(mlp(nn.GELU)) and refused(nn.Sequential(mlp(), nn.ReLU()))
    assert refused(mlp(), grads=False)
    hooked = mlp()
    hooked[0].register_full_backward_hook(lambda *_: None)
    assert refused(hooked)

"""Networks evaluated without their modules, against the modules."""

from __future__ import annotations

import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlzoo.accel.fast_mlp import fast_backward, fast_forward, fast_mlp
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
    parameters = list(network.parameters())
    expected = torch.autograd.grad(network(x), parameters, gradient)
    output = fast_mlp(network, x)
    assert torch.equal(output, network(x)) and output.grad_fn.name() == "MLPFunctionBackward"
    for fast, stock in zip(torch.autograd.grad(output, parameters, gradient), expected, strict=True):
        assert torch.equal(fast, stock)


def test_second_derivatives_are_those_of_autograd():
    network, x = mlp(), torch.randn(5, 4)
    parameters = list(network.parameters())

    def curvature(output):
        gradients = torch.autograd.grad(output.square().sum(), parameters, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in gradients), parameters)

    for fast, stock in zip(curvature(fast_mlp(network, x)), curvature(network(x)), strict=True):
        assert torch.allclose(fast, stock, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_fast_backward_overwrites_with_the_gradient_of_autograd(weighted):
    network, x, target = mlp(nn.ReLU), torch.randn(8, 4), torch.randn(8)
    parameters, actions = list(network.parameters()), torch.randint(2, (8, 1))

    def loss(output):
        losses = nn.functional.smooth_l1_loss(output.gather(1, actions).squeeze(1), target, reduction="none")
        return (losses * torch.arange(8.0)).mean() if weighted else losses.mean()

    expected = torch.autograd.grad(loss(network(x)), parameters)
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 7.0)
    assert fast_backward(loss(fast_mlp(network, x)), parameters)
    for parameter, stock in zip(parameters, expected, strict=True):
        assert torch.equal(parameter.grad, stock)


def test_fast_backward_leaves_other_losses_alone():
    network, x = mlp(), torch.randn(5, 4)
    parameters = list(network.parameters())
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 7.0)
    output = fast_mlp(network, x)
    others = {
        "another operation": output.exp().mean(),
        "two paths": (output * output).mean(),
        "modules": network(x).mean(),
        "no graph": torch.zeros(()),
    }
    for loss in others.values():
        assert not fast_backward(loss, parameters)
    assert not fast_backward(output.mean(), parameters[1:])
    assert all((parameter.grad == 7).all() for parameter in parameters)


def test_other_layers_and_hooks_are_left_to_autograd():
    def is_fast(network):
        return "MLPFunction" in fast_mlp(network, torch.randn(5, 4)).grad_fn.name()

    assert is_fast(mlp())
    assert not is_fast(mlp(nn.GELU)) and not is_fast(nn.Sequential(mlp(), nn.ReLU()))
    for where in (0, None):
        hooked = mlp()
        (hooked if where is None else hooked[where]).register_full_backward_hook(lambda *_: None)
        assert not is_fast(hooked)

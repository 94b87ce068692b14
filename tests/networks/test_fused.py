"""The fused networks against the modules they stand for."""

from __future__ import annotations

import copy

import pytest
import torch
from gymnasium import spaces
from torch import nn

from rlzoo.networks.fused import adds_gradients, forward_chain, forward_chains, linear_chain
from rlzoo.networks.policies import ActorCriticPolicy
from rlzoo.optim.flat import FlatParameters

OBSERVATIONS = spaces.Box(-1, 1, (4,))


def make_policy(action_space=None, **kwargs):
    return ActorCriticPolicy(OBSERVATIONS, action_space or spaces.Discrete(3), lambda _: 1e-3, **kwargs)


def zero_gradients(module):
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)


def mlp(activation=nn.Tanh, bias=True):
    return nn.Sequential(
        nn.Linear(4, 8, bias=bias), activation(), nn.Linear(8, 6), activation(), nn.Linear(6, 2)
    )


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
@pytest.mark.parametrize("ends_with_activation", [False, True])
def test_gradients_equal_those_of_the_modules(activation, ends_with_activation):
    torch.manual_seed(0)
    modules = [mlp(activation).double(), nn.Linear(4, 3).double()]
    if ends_with_activation:
        modules[0].append(activation())
    plain = copy.deepcopy(modules)
    x = torch.randn(7, 4, dtype=torch.double)
    chains = tuple(linear_chain(module) for module in modules)
    for module in modules:
        zero_gradients(module)
    assert adds_gradients(*chains)
    fused = forward_chains((x, x), chains)
    for output, module in zip(fused, plain, strict=True):
        assert torch.allclose(output, module(x), atol=1e-12)
    weights = [torch.randn_like(output) for output in fused]
    torch.autograd.backward(fused, weights)
    torch.autograd.backward([module(x) for module in plain], weights)
    for mine, theirs in zip(modules, plain, strict=True):
        for p, q in zip(mine.parameters(), theirs.parameters(), strict=True):
            assert torch.allclose(p.grad, q.grad, atol=1e-12)


def test_gradients_agree_with_finite_differences():
    torch.manual_seed(0)
    net = mlp().double()
    zero_gradients(net)
    x = torch.randn(5, 4, dtype=torch.double)

    def loss():
        return forward_chains((x,), (linear_chain(net),))[0].square().sum()

    loss().backward()
    weight, step = net[2].weight, 1e-6
    for i, j in [(0, 0), (3, 5), (5, 7)]:
        with torch.no_grad():
            weight[i, j] += step
            above = loss().item()
            weight[i, j] -= 2 * step
            below = loss().item()
            weight[i, j] += step
        assert weight.grad[i, j].item() == pytest.approx((above - below) / (2 * step), rel=1e-5)


def test_gradients_add_up_and_unused_outputs_give_none():
    net, other = mlp(), mlp()
    zero_gradients(net)
    zero_gradients(other)
    x = torch.randn(5, 4)
    for _ in range(2):
        forward_chains((x, x), (linear_chain(net), linear_chain(other)))[0].sum().backward()
    assert torch.allclose(net[4].bias.grad, torch.full((2,), 10.0))
    assert all(not p.grad.any() for p in other.parameters())


def test_without_gradients_it_is_the_plain_forward_pass():
    net, x = mlp(nn.ReLU), torch.randn(5, 4)
    with torch.no_grad():
        assert torch.allclose(forward_chain(x, linear_chain(net)), net(x), atol=1e-6)


@pytest.mark.parametrize(
    "foreign",
    [
        mlp(nn.GELU),
        mlp(bias=False),
        nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2)),
        nn.Sequential(nn.Tanh(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(4, 2), nn.Tanh(), nn.Tanh()),
        nn.utils.parametrizations.spectral_norm(nn.Linear(4, 2)),
        nn.Identity(),
        nn.Sequential(),
    ],
)
def test_anything_else_is_left_to_the_modules(foreign):
    assert linear_chain(foreign) is None


def test_hooks_are_seen():
    net = mlp()
    assert linear_chain(net) is not None
    handle = net[2].register_forward_hook(lambda *_: None)
    assert linear_chain(net) is None
    handle.remove()
    handle = net.register_full_backward_hook(lambda *_: None)
    assert linear_chain(net) is None
    handle.remove()
    zero_gradients(net)
    assert adds_gradients(linear_chain(net))
    net[0].weight.register_hook(lambda grad: grad)
    assert not adds_gradients(linear_chain(net))


def test_frozen_and_gradientless_parameters_are_not_fused():
    net = mlp()
    assert not adds_gradients(linear_chain(net))
    zero_gradients(net)
    net[0].bias.requires_grad_(False)
    assert not adds_gradients(linear_chain(net))


@pytest.mark.parametrize(
    "action_space", [spaces.Discrete(3), spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 3])]
)
@pytest.mark.parametrize("arch", [None, [], {"pi": [16], "vf": [8, 8]}])
def test_a_policy_learns_the_same_either_way(action_space, arch):
    torch.manual_seed(0)
    fast = make_policy(action_space, net_arch=arch)
    exact = copy.deepcopy(fast)
    exact.exact_graph(True)
    flat = FlatParameters(fast.parameters())
    obs = torch.randn(9, 4)
    actions = fast.act(obs).detach()
    for policy in (fast, exact):
        values, log_prob, entropy = policy.evaluate_actions(obs, actions)
        (values.square().mean() + (log_prob * torch.arange(9)).mean() - 0.1 * entropy.mean()).backward()
    assert flat.vector.grad.any()
    for p, q in zip(fast.parameters(), exact.parameters(), strict=True):
        assert torch.allclose(p.grad, q.grad, atol=1e-5)


def test_another_optimiser_trains_a_policy_whose_gradients_it_dropped():
    policy = make_policy()
    FlatParameters(policy.parameters())
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    obs, actions = torch.randn(9, 4), torch.zeros(9)
    for _ in range(2):
        optimizer.zero_grad(set_to_none=True)
        before = [p.detach().clone() for p in policy.parameters()]
        values, log_prob, _ = policy.evaluate_actions(obs, actions)
        (values.mean() - log_prob.mean()).backward()
        optimizer.step()
        assert all(not torch.equal(p, q) for p, q in zip(policy.parameters(), before, strict=True))


def test_second_derivatives_need_the_exact_graph():
    policy = make_policy(spaces.Box(-1, 1, (2,)))
    zero_gradients(policy)
    obs, actions = torch.randn(9, 4), torch.randn(9, 2)

    def log_prob():
        return policy.evaluate_actions(obs, actions)[1].mean()

    values = policy.evaluate_actions(obs, actions)[0].sum()
    with (
        pytest.raises(RuntimeError, match="exact_graph"),
        pytest.warns(UserWarning),
    ):  # torch warns of a cycle
        values.backward(create_graph=True)
    policy.exact_graph(True)
    parameters = [policy.action_net.weight, policy.mlp_extractor.policy_net[0].weight]
    gradients = torch.autograd.grad(log_prob(), parameters, create_graph=True)
    curvature = torch.autograd.grad(gradients[1].square().sum(), parameters)
    assert all(c.any() for c in curvature)

"""One vector of parameters against an optimiser of the single ones."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from rlzoo.accel.flat_parameters import FlatParameters
from rlzoo.optim import RMSpropTFLike


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def loss(net):
    return net(torch.arange(6.0).reshape(2, 3)).square().sum()


@pytest.mark.parametrize(
    ("optimizer_class", "kwargs"),
    [
        (torch.optim.Adam, {"eps": 1e-5}),
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.RMSprop, {}),
        (RMSpropTFLike, {"momentum": 0.5}),
        (torch.optim.Adafactor, {}),  # looks at shapes, so it is given the parameters one by one
    ],
)
def test_steps_equal_those_on_single_parameters(optimizer_class, kwargs):
    flat_net, plain_net = network(), network()
    flat = FlatParameters(flat_net.parameters())
    optimizer = flat.optimizer(optimizer_class, lr=0.01, **kwargs)
    plain = optimizer_class(plain_net.parameters(), lr=0.01, **kwargs)
    for _ in range(3):
        flat.zero_grad()
        loss(flat_net).backward()
        norm = flat.clip_grad_norm(0.5)
        optimizer.step()
        plain.zero_grad()
        loss(plain_net).backward()
        expected = nn.utils.clip_grad_norm_(plain_net.parameters(), 0.5)
        plain.step()
        assert torch.allclose(norm, expected)
    for p, q in zip(flat_net.parameters(), plain_net.parameters(), strict=True):
        assert torch.allclose(p, q, atol=1e-6)


def test_small_gradients_are_not_scaled_up():
    net = network()
    flat = FlatParameters(net.parameters())
    flat.vector.grad.fill_(1e-3)
    flat.clip_grad_norm(10.0)
    assert torch.allclose(net[0].bias.grad, torch.full((4,), 1e-3))


def test_gradients_dropped_by_another_optimiser_are_reattached():
    net = network()
    flat = FlatParameters(net.parameters())
    torch.optim.SGD(net.parameters(), lr=0.1).zero_grad(set_to_none=True)
    flat.zero_grad()
    loss(net).backward()
    assert flat.vector.grad.any()
    assert net[2].weight.grad.data_ptr() == flat.gradients[2].data_ptr()


def test_parameters_that_were_moved_away_are_an_error():
    net = network()
    flat = FlatParameters(net.parameters())
    net.double()
    with pytest.raises(RuntimeError, match="no longer share"):
        flat.zero_grad()


def test_the_module_still_saves_and_loads():
    net, other = network(), network()
    with torch.no_grad():
        other[0].bias.fill_(7.0)
    flat = FlatParameters(net.parameters())
    net.load_state_dict(copy.deepcopy(other.state_dict()))
    assert (flat.vector == 7.0).sum() == 4


@pytest.mark.parametrize("optimizer_class", [torch.optim.Adam, torch.optim.SGD, torch.optim.Adafactor])
def test_zero_grad_of_the_optimiser_keeps_its_gradients(optimizer_class):
    flat_net, plain_net = network(), network()
    optimizer = FlatParameters(flat_net.parameters()).optimizer(optimizer_class, lr=0.01)
    plain = optimizer_class(plain_net.parameters(), lr=0.01)
    for net, steps in ((flat_net, optimizer), (plain_net, plain)):
        for _ in range(3):
            steps.zero_grad()
            loss(net).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            steps.step()
    for p, q in zip(flat_net.parameters(), plain_net.parameters(), strict=True):
        torch.testing.assert_close(p, q)

"""RMSpropTFLike against the recurrence written out with plain numbers."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from rlzoo.core.errors import UserError
from rlzoo.optim import RMSpropTFLike

LR, ALPHA, EPS = 0.1, 0.9, 1e-3


def scalar_run(grads, momentum=0.0, centered=False, weight_decay=0.0):
    x, square, mean, buffer = 1.0, 1.0, 0.0, 0.0
    for grad in grads:
        g = grad + weight_decay * x
        square = ALPHA * square + (1 - ALPHA) * g * g
        mean = ALPHA * mean + (1 - ALPHA) * g
        root = math.sqrt(square - (mean * mean if centered else 0.0) + EPS)
        buffer = momentum * buffer + LR * g / root
        x -= buffer
    return x


@pytest.mark.parametrize(
    "options",
    [{}, {"momentum": 0.8}, {"centered": True}, {"weight_decay": 0.05, "momentum": 0.5, "centered": True}],
)
def test_steps_follow_the_recurrence(options):
    grads = [0.5, -2.0, 3.0, 0.1]
    x = torch.nn.Parameter(torch.ones(3))
    optimizer = RMSpropTFLike([x], lr=LR, alpha=ALPHA, eps=EPS, **options)
    for grad in grads:
        x.grad = torch.full((3,), grad)
        optimizer.step()
        assert torch.equal(x.grad, torch.full((3,), grad))  # the caller's gradient is only read
    assert torch.allclose(x, torch.full((3,), scalar_run(grads, **options)), atol=1e-6)


def test_first_step_is_smaller_than_torchs():
    def first_step(optimizer_class):
        x = torch.nn.Parameter(torch.zeros(1))
        x.grad = torch.full((1,), 0.01)
        optimizer_class([x], lr=0.1, alpha=0.99, eps=1e-5).step()
        return x.abs().item()

    assert first_step(RMSpropTFLike) < 0.02 * first_step(torch.optim.RMSprop)


def test_rmsprop_state_dict_round_trips_without_some_gradients():
    x, idle = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    optimizer = RMSpropTFLike([x, idle], lr=LR, momentum=0.5)
    x.grad = torch.ones(2)
    optimizer.step()
    assert torch.equal(idle, torch.ones(2))
    y = torch.nn.Parameter(x.detach().clone())
    resumed = RMSpropTFLike([y, idle], lr=LR, momentum=0.5)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    x.grad = y.grad = torch.full((2,), 0.3)
    optimizer.step()
    resumed.step()
    assert torch.equal(x, y)


def test_closure_gives_the_loss():
    x = torch.nn.Parameter(torch.ones(1))
    optimizer = RMSpropTFLike([x], lr=LR)

    def closure():
        optimizer.zero_grad()
        loss = x.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 1.0
    assert x.item() < 1.0


def test_negative_values_are_refused():
    with pytest.raises(UserError, match="alpha"):
        RMSpropTFLike([torch.nn.Parameter(torch.ones(1))], alpha=-0.1)

"""The optimisers of one vector give PyTorch's numbers, keep its state, and leave its rarer options to it."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from rlzoo.accel.flat_parameters import FLAT_OPTIMIZERS

CASES = [
    (torch.optim.Adam, {"lr": 1e-2, "eps": 1e-5}),
    (torch.optim.Adam, {"lr": 1e-2, "betas": (0.5, 0.9)}),
    (torch.optim.Adam, {"lr": 1e-2, "weight_decay": 0.1}),
    (torch.optim.Adam, {"lr": 1e-2, "amsgrad": True}),
    (torch.optim.Adam, {"lr": 1e-2, "maximize": True}),
    (torch.optim.RMSprop, {"lr": 1e-2, "alpha": 0.9, "eps": 1e-5}),
    (torch.optim.RMSprop, {"lr": 1e-2, "momentum": 0.9}),
    (torch.optim.RMSprop, {"lr": 1e-2, "centered": True}),
    (torch.optim.RMSprop, {"lr": 1e-2, "weight_decay": 0.1}),
]


def run(optimizer_class, kwargs, n_steps=20, state=None):
    torch.manual_seed(0)
    vector = torch.nn.Parameter(torch.randn(50))
    optimizer = optimizer_class([vector], **kwargs)
    if state is not None:
        optimizer.load_state_dict(copy.deepcopy(state))  # tensors may be taken over as they are
    for step in range(n_steps):
        vector.grad = torch.randn(50)
        optimizer.param_groups[0]["lr"] = kwargs["lr"] / (step + 1)
        optimizer.step()
    return vector.detach(), optimizer


@pytest.mark.parametrize(("optimizer_class", "kwargs"), CASES)
def test_the_numbers_and_the_state_are_those_of_pytorch(optimizer_class, kwargs):
    theirs, their_optimizer = run(optimizer_class, kwargs)
    ours, our_optimizer = run(FLAT_OPTIMIZERS[optimizer_class], kwargs)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    our_state, their_state = our_optimizer.state_dict(), their_optimizer.state_dict()
    assert our_state["state"][0].keys() == their_state["state"][0].keys()
    for name, value in their_state["state"][0].items():
        if value is not None:
            torch.testing.assert_close(our_state["state"][0][name], value, rtol=1e-5, atol=1e-6)
    assert our_state["param_groups"][0].keys() == their_state["param_groups"][0].keys()


@pytest.mark.parametrize("optimizer_class", FLAT_OPTIMIZERS)
def test_it_goes_on_from_a_state_of_pytorch(optimizer_class):
    _, before = run(optimizer_class, {"lr": 1e-2})
    state = before.state_dict()
    ours, _ = run(FLAT_OPTIMIZERS[optimizer_class], {"lr": 1e-2}, state=state)
    theirs, _ = run(optimizer_class, {"lr": 1e-2}, state=state)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimizer_class", FLAT_OPTIMIZERS)
def test_copies_and_closures(optimizer_class):
    _, optimizer = run(FLAT_OPTIMIZERS[optimizer_class], {"lr": 1e-2})
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert type(twin) is type(optimizer) and isinstance(twin, optimizer_class)
        vector = twin.param_groups[0]["params"][0]
        before = vector.detach().clone()
        assert twin.step(lambda vector=vector: vector.square().sum().item()) == before.square().sum().item()

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest
import torch

from rlzoo.accel.flat_parameters import without_dynamo
from rlzoo.optim.rmsprop_tf import RMSpropTFLike

CLASSES = [
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.RMSprop,
    torch.optim.SGD,
    torch.optim.NAdam,
    RMSpropTFLike,
]


def train(make, n_steps=5):
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    optimizer = make([parameter], lr=0.1)
    for _ in range(n_steps):
        optimizer.zero_grad()
        (parameter**4).sum().backward()
        optimizer.step()
    return parameter.detach(), optimizer


@pytest.mark.parametrize("optimizer_class", CLASSES)
def test_it_takes_the_same_steps(optimizer_class):
    expected, theirs = train(optimizer_class)
    actual, ours = train(without_dynamo(optimizer_class))
    assert torch.equal(actual, expected)
    assert isinstance(ours, optimizer_class)
    assert type(ours).__name__ == optimizer_class.__name__
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    ours.load_state_dict(theirs.state_dict())


def test_a_closure_is_evaluated_with_gradients():
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = without_dynamo(torch.optim.LBFGS)([parameter])

    def closure():
        optimizer.zero_grad()
        loss = (parameter**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure) == 2
    assert parameter.abs().max() < 1e-3


def test_hooks_run():
    _, optimizer = train(without_dynamo(torch.optim.Adam), n_steps=0)
    calls = []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    optimizer.param_groups[0]["params"][0].grad = torch.ones(3)
    optimizer.step()
    assert calls == [1]


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda optimizer: pickle.loads(pickle.dumps(optimizer))]
)
def test_a_copy_goes_on_by_itself(duplicate):
    parameter, optimizer = train(without_dynamo(torch.optim.Adam))
    other = duplicate(optimizer)
    assert type(other) is type(optimizer)
    (copied,) = other.param_groups[0]["params"]
    copied.grad = torch.ones(3)
    other.step()
    assert not torch.equal(copied, parameter)
    assert torch.equal(optimizer.param_groups[0]["params"][0], parameter)


def test_the_compiler_is_not_imported():
    code = (
        "import sys, torch; from rlzoo.accel.flat_parameters import without_dynamo\n"
        "p = torch.nn.Parameter(torch.ones(3)); o = without_dynamo(torch.optim.Adam)([p], fused=True)\n"
        "p.sum().backward(); o.step(); o.zero_grad(); o.load_state_dict(o.state_dict())\n"
        "print('torch._dynamo' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "False", result.stderr

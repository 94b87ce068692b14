"""Products of several trainings at once."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from rlzoo.accel.flat_parameters import FlatParameters
from rlzoo.stacked.stacked_agents import stacked_parameters
from rlzoo.stacked.stacked_mlp import linear, product


@pytest.mark.parametrize("n_outputs", [1, 2, 16, 64])
@pytest.mark.parametrize("n_inputs", [4, 64])
@pytest.mark.parametrize("n_rows", [8, 256])
def test_products_have_the_bits_of_each_training_alone(n_rows: int, n_inputs: int, n_outputs: int) -> None:
    generator = torch.Generator().manual_seed(1)
    n = 3
    x = torch.randn(n, n_rows, n_inputs, generator=generator)
    weight = torch.randn(n, n_outputs, n_inputs, generator=generator)
    bias = torch.randn(n, n_outputs, generator=generator)
    gradient = torch.randn(n, n_rows, n_outputs, generator=generator)
    outputs = linear(x, weight, bias)
    of_weight, of_input = product(gradient.mT, x), product(gradient, weight)
    for k in range(n):
        assert torch.equal(outputs[k], F.linear(x[k], weight[k], bias[k]))
        assert torch.equal(of_weight[k], gradient[k].t() @ x[k])
        assert torch.equal(of_input[k], gradient[k] @ weight[k])


def test_parameters_that_somebody_changes_are_copied_again() -> None:
    layers = [nn.Linear(3, 2) for _ in range(2)]
    groups = [FlatParameters(layer.parameters()) for layer in layers]
    stacked = stacked_parameters(groups)
    stacked.watch()
    before = stacked.leaves
    stacked.watch()
    assert stacked.leaves is before
    layers[1].load_state_dict(nn.Linear(3, 2).state_dict())
    stacked.watch()
    assert torch.equal(stacked.leaves[0], torch.stack([layer.weight for layer in layers]))
    groups[0].assign(torch.zeros(8))
    stacked.watch()
    assert not stacked.leaves[0][0].any() and not stacked.leaves[1][0].any()

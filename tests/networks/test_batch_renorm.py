"""Batch renormalisation against its definition."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rlzoo.networks.batch_renorm import BatchRenorm

EPS = 1e-3
SHAPES = [(None, (32, 4)), (3, (3, 32, 4))]


def layer(n=None, width=4, **kwargs):
    made = BatchRenorm(width, n, **kwargs).double()
    with torch.no_grad():
        made.scale.uniform_(0.5, 2)
        made.bias.uniform_(-1, 1)
    return made


def batch(shape, shift=3.0, scale=2.0):
    return (torch.randn(shape, dtype=torch.float64) * scale + shift).requires_grad_()


def moments(x):
    """Mean and unbiased variance over the batch, in the shape of a row."""
    mean = x.sum(-2, keepdim=True) / x.shape[-2]
    return mean, ((x - mean) ** 2).sum(-2, keepdim=True) / (x.shape[-2] - 1)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize(("n", "shape"), SHAPES)
def test_it_is_batch_normalisation_while_it_warms_up(n, shape):
    norm, x = layer(n, warmup_steps=2), batch(shape)
    for _ in range(3):
        y = norm(x)
        mean, var = moments(x)
        assert torch.allclose(y, norm.scale * (x - mean) / (var + EPS).sqrt() + norm.bias)
    standard = (y - norm.bias) / norm.scale
    assert torch.allclose(standard.mean(-2), torch.zeros(()).double(), atol=1e-12)
    assert torch.allclose(standard.var(-2), torch.ones(()).double(), atol=EPS)


@pytest.mark.parametrize(("n", "shape"), SHAPES)
def test_afterwards_it_agrees_with_what_it_does_in_evaluation(n, shape):
    norm = layer(n, warmup_steps=0, momentum=0.5)
    for _ in range(8):
        norm(batch(shape))
    x = batch(shape, shift=2.0, scale=1.5)
    as_acting = norm.eval()(x)
    assert torch.allclose(norm.train()(x), as_acting)
    mean, var = moments(x)
    batch_norm = norm.scale * (x - mean) / (var + EPS).sqrt() + norm.bias
    assert not torch.allclose(as_acting, batch_norm, atol=1e-2)


def test_the_correction_is_clipped():
    norm = layer(warmup_steps=0)
    norm(batch((6, 4)))
    with torch.no_grad():
        norm.ra_mean.zero_()
        norm.ra_var.copy_(torch.tensor([1.0, 1e6, 1.0, 1.0]))
    x = batch((6, 4), shift=100.0, scale=50.0)
    y = (norm(x) - norm.bias) / norm.scale
    mean, var = moments(x)
    z = (x - mean) / (var + EPS).sqrt()
    assert torch.allclose(y[:, 0], 3 * z[:, 0] + 5)  # r at most 3, d at most 5
    d = mean[0, 1] / 1e3
    assert torch.allclose(y[:, 1], z[:, 1] / 3 + d, rtol=1e-6)  # r at least 1/3


@pytest.mark.parametrize(("n", "shape"), SHAPES)
def test_statistics_move_by_the_momentum_in_training_alone(n, shape):
    norm, x = layer(n, momentum=0.1), batch(shape)
    norm(x)
    mean, var = moments(x)
    assert torch.allclose(norm.ra_mean, (0.1 * mean).reshape(norm.ra_mean.shape))
    assert torch.allclose(norm.ra_var, (0.9 + 0.1 * var).reshape(norm.ra_var.shape))
    assert norm.steps == 1
    before = {name: tensor.clone() for name, tensor in norm.state_dict().items()}
    y = norm.eval()(x)
    assert all(torch.equal(before[name], tensor) for name, tensor in norm.state_dict().items())
    by_hand = norm.scale * (x - norm.ra_mean) / (norm.ra_var + EPS).sqrt() + norm.bias
    assert torch.allclose(y, by_hand)


def test_a_row_is_treated_alike_in_every_batch_in_evaluation():
    norm = layer()
    norm(batch((6, 4)))
    x = batch((6, 4))
    assert torch.allclose(norm.eval()(x)[2:3], norm(x[2:3]))


@pytest.mark.parametrize(("n", "shape"), SHAPES)
def test_gradients_are_finite_differences(n, shape):
    norm, x = layer(n), batch(shape)
    assert torch.autograd.gradcheck(lambda x, *_: norm(x), (x, norm.scale, norm.bias))


@pytest.mark.parametrize(("n", "shape"), SHAPES)
def test_r_and_d_are_constants_to_the_gradient(n, shape):
    norm = layer(n, warmup_steps=0, momentum=0.5)
    for _ in range(5):
        norm(batch(shape))
    x = batch(shape)
    ra_mean, ra_std = norm.ra_mean.clone(), (norm.ra_var + EPS).sqrt()
    weights = torch.randn(shape, dtype=torch.float64)
    inputs = (x, norm.scale, norm.bias)
    found = torch.autograd.grad((norm(x) * weights).sum(), inputs)
    mean, var = moments(x)
    std = (var + EPS).sqrt()
    r, d = (std / ra_std).detach().clamp(1 / 3, 3), ((mean - ra_mean) / ra_std).detach().clamp(-5, 5)
    y = norm.scale * ((x - mean) / std * r + d) + norm.bias
    for mine, expected in zip(found, torch.autograd.grad((y * weights).sum(), inputs), strict=True):
        assert torch.allclose(mine, expected)


def test_an_ensemble_is_its_networks_and_takes_one_input_for_all():
    together, x = layer(3, warmup_steps=1, momentum=0.3), batch((6, 4))
    singles = []
    for i in range(3):
        single = BatchRenorm(4, warmup_steps=1, momentum=0.3).double()
        single.scale.data, single.bias.data = together.scale[i, 0].detach(), together.bias[i, 0].detach()
        singles.append(single)
    for _ in range(4):
        y, expected = together(x), torch.stack([single(x) for single in singles])
        assert y.shape == (3, 6, 4) and torch.allclose(y, expected)
    gradient = torch.autograd.grad(y.square().sum(), x, retain_graph=True)[0]
    assert torch.allclose(gradient, torch.autograd.grad(expected.square().sum(), x)[0])


def test_state_dict_names_and_shapes():
    shapes = {name: tuple(tensor.shape) for name, tensor in BatchRenorm(4).state_dict().items()}
    assert shapes == {"scale": (4,), "bias": (4,), "ra_mean": (4,), "ra_var": (4,), "steps": ()}
    assert isinstance(BatchRenorm(4, 2).scale, nn.Parameter) and BatchRenorm(4, 2).ra_var.shape == (2, 1, 4)

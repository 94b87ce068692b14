"""The quantile Huber loss against its definition, written as a loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlzoo import quantile_huber_loss
from rlzoo.algorithms.off_policy.quantile_regression import midpoints, quantile_huber_losses


def rho(tau, delta):
    huber = delta**2 / 2 if abs(delta) <= 1 else abs(delta) - 0.5
    return abs(tau - (delta < 0)) * huber


def by_definition(current, target, tau, sum_over_quantiles=True):
    """[B, C, N], [B, C, T], [B, C, N] -> [B]."""
    rows = []
    for b in range(len(current)):
        critics = []
        for c in range(current.shape[1]):
            terms = [
                np.mean([rho(tau[b, c, i], z - theta) for z in target[b, c]])
                for i, theta in enumerate(current[b, c])
            ]
            critics.append(np.sum(terms) if sum_over_quantiles else np.mean(terms))
        rows.append(np.mean(critics))
    return np.array(rows)


@pytest.mark.parametrize("sum_over_quantiles", [True, False])
@pytest.mark.parametrize("given", [None, "shared", "own"])
@pytest.mark.parametrize(
    ("current_shape", "target_shape"),
    [((3, 4), (3, 5)), ((3, 2, 4), (3, 1, 5)), ((3, 2, 4), (3, 2, 5)), ((3, 1, 4), (3, 1, 1))],
)
def test_the_loss_is_its_definition(current_shape, target_shape, given, sum_over_quantiles):
    generator = torch.Generator().manual_seed(0)
    current = (2 * torch.randn(current_shape, generator=generator, dtype=torch.float64)).requires_grad_()
    target = 2 * torch.randn(target_shape, generator=generator, dtype=torch.float64)
    cum_prob = {
        None: None,
        "shared": torch.rand(3, 4, generator=generator, dtype=torch.float64),
        "own": torch.rand(current_shape, generator=generator, dtype=torch.float64),
    }[given]

    n_critics = current_shape[1] if len(current_shape) == 3 else 1
    tau = midpoints(4).expand(3, 4) if cum_prob is None else cum_prob
    expected = by_definition(
        *(
            values.detach().reshape(3, -1, values.shape[-1]).expand(3, n_critics, -1).numpy()
            for values in (current, target, tau)
        ),
        sum_over_quantiles,
    )

    losses = quantile_huber_losses(current, target, cum_prob, sum_over_quantiles)
    assert losses.detach().numpy() == pytest.approx(expected)
    loss = quantile_huber_loss(current, target, cum_prob, sum_over_quantiles)
    assert loss.item() == pytest.approx(expected.mean())


@pytest.mark.parametrize("shape", [(6, 5), (6, 2, 5)])
def test_the_gradient_is_that_of_the_loss(shape):
    generator = torch.Generator().manual_seed(1)
    current = (2 * torch.randn(shape, generator=generator, dtype=torch.float64)).requires_grad_()
    target = 2 * torch.randn((*shape[:-1], 7), generator=generator, dtype=torch.float64)
    weights = torch.rand(6, generator=generator, dtype=torch.float64)

    def weighted(current):
        return (quantile_huber_losses(current, target) * weights).sum()

    assert torch.autograd.gradcheck(weighted, current)


@pytest.mark.parametrize("sum_over_quantiles", [True, False])
@pytest.mark.parametrize(
    ("shape", "target_shape"),
    [
        ((6, 5), (6, 7)),
        ((6, 2, 5), (6, 2, 7)),
        ((6, 1, 5), (6, 3, 7)),
        ((6, 3, 5), (6, 1, 7)),
        ((300, 2, 25), (300, 2, 25)),
    ],
)
def test_the_gradient_of_the_mean_is_that_of_its_parts(shape, target_shape, sum_over_quantiles):
    current, target = torch.randn(shape, requires_grad=True), torch.randn(target_shape)
    loss = quantile_huber_loss(current, target, None, sum_over_quantiles)
    rows = quantile_huber_losses(current, target, None, sum_over_quantiles)
    assert loss.item() == pytest.approx(rows.mean().item(), rel=1e-5)
    (gradient,), (expected,) = (torch.autograd.grad(value, current) for value in (3 * loss, 3 * rows.mean()))
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_mean_of_half_precision_quantiles(dtype):
    current, target = torch.randn(6, 5), torch.randn(6, 5)
    loss = quantile_huber_loss(current.to(dtype), target.to(dtype))
    assert loss.item() == pytest.approx(quantile_huber_loss(current, target).item(), rel=0.05)


def test_the_mean_over_no_rows_is_not_a_number():
    assert torch.isnan(quantile_huber_loss(torch.zeros(0, 5), torch.zeros(0, 5)))


def test_no_gradient_goes_into_the_targets():
    current, target = torch.randn(3, 4, requires_grad=True), torch.randn(3, 5, requires_grad=True)
    quantile_huber_loss(current, target).backward()
    assert current.grad.any() and target.grad is None


def test_its_minimum_is_at_the_quantiles():
    """Descending it on samples of a wide distribution finds their quantiles."""
    samples = torch.linspace(0, 1000, 2001)[None]
    theta = torch.full((1, 4), 500.0, requires_grad=True)
    optimizer = torch.optim.SGD([theta], lr=500.0)
    for _ in range(200):
        optimizer.zero_grad()
        quantile_huber_loss(theta, samples).backward()
        optimizer.step()
    assert theta.detach()[0].numpy() == pytest.approx(1000 * midpoints(4).numpy(), abs=2)


@pytest.mark.parametrize("shapes", [((3, 2, 4), (3, 5)), ((3, 4), (3, 1, 5)), ((4,), (5,))])
def test_shapes_that_do_not_fit(shapes):
    with pytest.raises(ValueError, match="must both be"):
        quantile_huber_loss(*(torch.zeros(shape) for shape in shapes))


def test_rows_of_different_batches_are_refused():
    with pytest.raises(ValueError, match="one batch, not of 4 and 3 rows"):
        quantile_huber_loss(torch.zeros(4, 5), torch.zeros(3, 5))

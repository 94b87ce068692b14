"""Densities, gradients and entropies of squashed actions far from 0, against float64."""

from __future__ import annotations

import math

import pytest
import torch

from rlzoo.distributions import SquashedDiagGaussian, StateDependentNoise
from rlzoo.distributions.distribution import log_tanh_derivative

ROWS = 20_000
CASES = [(0.0, 1.0), (2.0, 1.0), (2.0, 3.0), (2.0, 5.0), (9.0, 0.5), (9.0, 0.1)]


def squashed_noise(mean, log_std, noise):
    """gSDE with one feature of 1, so that its noise is std * noise."""
    dist = StateDependentNoise(1, squash_output=True, learn_features=True)
    dist.proba_distribution_net(1)
    dist.exploration_matrices = (log_std.exp() * noise).unsqueeze(-1)
    return dist.proba_distribution(mean, log_std.reshape(1, 1), torch.ones(len(noise), 1))


@pytest.mark.parametrize("mean, std", CASES)
def test_gsde_log_prob_and_gradients_are_exact(mean, std):
    torch.manual_seed(0)
    noise = torch.randn(ROWS, 1)
    mean = torch.full((ROWS, 1), mean, requires_grad=True)
    log_std = torch.tensor(math.log(std), requires_grad=True)
    dist = squashed_noise(mean, log_std, noise)
    log_prob = dist.log_prob(dist.sample())
    got = [log_prob.mean(), *torch.autograd.grad(log_prob.mean(), [mean, log_std])]

    exact_mean, exact_log_std = (x.detach().double().requires_grad_() for x in (mean, log_std))
    u = exact_mean + exact_log_std.exp() * noise.double()
    exact = (-0.5 * noise.double().square() - exact_log_std - 0.5 * math.log(2 * math.pi)).sum()
    exact = (exact - log_tanh_derivative(u).sum()) / ROWS
    wanted = [exact, *torch.autograd.grad(exact, [exact_mean, exact_log_std])]
    for one, other in zip(got, wanted, strict=True):
        assert float(one.detach().sum()) == pytest.approx(float(other.detach().sum()), rel=1e-3, abs=1e-3)


def test_gaussian_log_prob_of_its_sample_needs_no_inverse():
    torch.manual_seed(0)
    dist = SquashedDiagGaussian(1).proba_distribution(torch.full((ROWS, 1), 9.0), torch.tensor([-2.3]))
    actions = dist.sample()
    exact = dist.log_prob(actions.clone(), dist.gaussian_actions)
    assert torch.equal(dist.log_prob(actions), exact)
    assert float(exact.mean()) == pytest.approx(17.5, abs=0.3)


def test_gaussian_log_prob_of_other_actions_inverts():
    dist = SquashedDiagGaussian(1).proba_distribution(torch.zeros(1, 1), torch.zeros(1))
    dist.sample()
    other = torch.tensor([[0.5]])
    assert torch.allclose(dist.log_prob(other), dist.log_prob(other, torch.atanh(other)))


@pytest.mark.parametrize("u", [7.0, 7.35, 8.0, 8.3])
def test_inverse_is_as_exact_as_single_precision_allows(u):
    """One step of single precision in the action is 0.13 in u at 8; rounding is half of it."""
    mean, taken = torch.full((1, 1), u - 0.1, requires_grad=True), torch.tensor([[u]])
    gaussian = SquashedDiagGaussian(1).proba_distribution(mean, torch.full((1,), -0.7))
    gsde = squashed_noise(mean, torch.tensor(-0.7), torch.zeros(1, 1))
    step = 2.0**-25 / (1 - math.tanh(u) ** 2)  # of u, for half a step of the action
    for dist in (gaussian, gsde):
        known, inverted = dist.log_prob(torch.tanh(taken), taken), dist.log_prob(torch.tanh(taken))
        assert inverted.item() == pytest.approx(known.item(), abs=3 * step + 1e-3)
        (gradient,) = torch.autograd.grad(inverted.sum(), mean)
        assert float(gradient) == pytest.approx(0.1 * math.exp(1.4), abs=1.1 * step * math.exp(1.4) + 1e-2)


@pytest.mark.parametrize("mean, std", [(0.0, 0.2), (2.0, 1.0), (0.5, 3.0), (6.0, 2.0)])
def test_gsde_entropy_and_gradients_agree_with_integration(mean, std):
    nodes = torch.linspace(-10, 10, 200_001, dtype=torch.float64)
    weights = torch.softmax(-0.5 * nodes.square(), 0)
    exact_mean, exact_log_std = (
        torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (mean, math.log(std))
    )
    slopes = log_tanh_derivative(exact_mean + exact_log_std.exp() * nodes)
    exact = exact_log_std + 0.5 * math.log(2 * math.pi * math.e) + (weights * slopes).sum()
    mean, log_std = (
        torch.full((1, 1), mean, requires_grad=True),
        torch.tensor(math.log(std), requires_grad=True),
    )
    entropy = squashed_noise(mean, log_std, torch.randn(1, 1)).entropy().sum()
    wanted = [exact, *torch.autograd.grad(exact, [exact_mean, exact_log_std])]
    for one, other in zip([entropy, *torch.autograd.grad(entropy, [mean, log_std])], wanted, strict=True):
        assert float(one.detach()) == pytest.approx(float(other.detach()), abs=2e-3)

"""Conjugate gradients against exact solutions, Fisher products against the Fisher matrix."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
import torch
from torch import nn

from rlzoo import conjugate_gradient_solver, flat_grad
from rlzoo.distributions import Bernoulli, Categorical, DiagGaussian, MultiCategorical, StateDependentNoise
from rlzoo.optim.conjugate_gradient import fisher_vector_product

N_ROWS, N_INPUTS, N_HIDDEN = 7, 3, 4


def positive_definite(size: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(size, size, generator=generator, dtype=torch.float64)
    return root @ root.T + torch.eye(size, dtype=torch.float64), torch.randn(
        size, generator=generator, dtype=torch.float64
    )


@pytest.mark.parametrize("size", [1, 2, 10])
def test_as_many_steps_as_unknowns_give_the_solution(size: int) -> None:
    matrix, b = positive_definite(size)
    x = conjugate_gradient_solver(lambda v: matrix @ v, b, max_iter=size)
    torch.testing.assert_close(x, torch.linalg.solve(matrix, b), rtol=1e-7, atol=1e-9)


def test_each_step_gives_the_best_of_its_krylov_space() -> None:
    """In the norm of A, k steps leave the least error that b, A b, ..., A^(k-1) b can."""
    matrix, b = positive_definite(8)
    solution = torch.linalg.solve(matrix, b)
    for k in range(1, 8):
        span = torch.stack([torch.linalg.matrix_power(matrix, power) @ b for power in range(k)], dim=1)
        basis, _ = torch.linalg.qr(span)
        best = basis @ torch.linalg.solve(basis.T @ matrix @ basis, basis.T @ b)
        x = conjugate_gradient_solver(lambda v: matrix @ v, b, max_iter=k)
        torch.testing.assert_close(x, best, rtol=1e-6, atol=1e-8)
        assert (x @ (b - matrix @ x)).abs() < 1e-8
        assert k == 7 or not torch.allclose(x, solution, rtol=1e-3)


def test_it_stops_at_the_tolerance() -> None:
    calls: list[int] = []

    def double(vector: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return 2 * vector

    b = torch.tensor([3.0, -1.0])
    torch.testing.assert_close(conjugate_gradient_solver(double, b, max_iter=50), b / 2)
    assert len(calls) == 1
    assert torch.equal(conjugate_gradient_solver(double, torch.zeros(2)), torch.zeros(2)) and len(calls) == 1
    assert torch.equal(conjugate_gradient_solver(double, b, residual_tol=100), torch.zeros(2))


def test_flat_gradient_follows_parameter_order() -> None:
    first, second, unused = torch.tensor([[1.0, 2.0]]), torch.tensor(3.0), torch.zeros(2)
    parameters = [nn.Parameter(value) for value in (first, second, unused)]
    output = (parameters[0] ** 2).sum() * parameters[1]
    gradient = flat_grad(output, parameters, create_graph=True)
    assert gradient.tolist() == [6.0, 12.0, 5.0, 0.0, 0.0]
    assert flat_grad(gradient.sum(), parameters).tolist() == [8.0, 10.0, 6.0, 0.0, 0.0]


class Network(nn.Module):
    """A network of two layers below a distribution, in double precision."""

    def __init__(self, distribution: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.distribution = distribution
        self.hidden = nn.Linear(N_INPUTS, N_HIDDEN)
        head = distribution.proba_distribution_net(N_HIDDEN)
        self.head, self.log_std = head if isinstance(head, tuple) else (head, None)
        self.double()

    def forward(self, obs: torch.Tensor) -> Any:
        latent = torch.tanh(self.hidden(obs))
        arguments = [self.head(latent)]
        if self.log_std is not None:
            arguments.append(self.log_std)
        if isinstance(self.distribution, StateDependentNoise):
            arguments.append(latent)
        fresh = type(self.distribution)(*self.sizes())
        return fresh.proba_distribution(*arguments)

    def sizes(self) -> tuple[Any, ...]:
        known = self.distribution
        return (getattr(known, "action_dims", None) or known.action_dim,)


DISCRETE = {
    "Categorical": (Categorical(3), [torch.tensor(a) for a in range(3)]),
    "MultiCategorical": (
        MultiCategorical([2, 3]),
        [torch.tensor(a) for a in itertools.product(range(2), range(3))],
    ),
    "Bernoulli": (
        Bernoulli(2),
        [torch.tensor(a, dtype=torch.float64) for a in itertools.product((0, 1), (0, 1))],
    ),
}
CONTINUOUS = {"DiagGaussian": DiagGaussian(2), "StateDependentNoise": StateDependentNoise(2)}


def observations() -> torch.Tensor:
    return torch.randn(N_ROWS, N_INPUTS, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def fisher_matrix(network: Network) -> torch.Tensor:
    """Column by column, from the products."""
    parameters = list(network.parameters())
    with torch.no_grad():
        old = copy.deepcopy(network(observations()))
    distribution = network(observations())
    product = fisher_vector_product(old.kl(distribution).mean(), distribution.params, parameters)
    size = sum(parameter.numel() for parameter in parameters)
    return torch.stack([product(unit) for unit in torch.eye(size, dtype=torch.float64)], dim=1)


@pytest.mark.parametrize("name", DISCRETE)
def test_fisher_products_are_the_mean_square_of_the_scores(name: str) -> None:
    """F = E[ grad log pi (grad log pi)' ] over every action of every row."""
    distribution, actions = DISCRETE[name]
    network = Network(distribution)
    expected = torch.zeros(())
    for row in observations():
        for action in actions:
            log_prob = network(row[None]).log_prob(action[None])
            score = flat_grad(log_prob.sum(), list(network.parameters()))
            expected = expected + log_prob.exp().detach() * torch.outer(score, score) / N_ROWS
    torch.testing.assert_close(fisher_matrix(network), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_fisher_products_are_the_curvature_of_the_divergence(name: str) -> None:
    """F is the Hessian of KL(pi_old || pi) with respect to all parameters, found by differentiating twice."""
    network = Network(CONTINUOUS[name])
    parameters = list(network.parameters())
    with torch.no_grad():
        old = copy.deepcopy(network(observations()))
    gradient = flat_grad(old.kl(network(observations())).mean(), parameters, create_graph=True)
    rows = [flat_grad(entry, parameters, retain_graph=True) for entry in gradient]
    matrix = fisher_matrix(network)
    torch.testing.assert_close(matrix, torch.stack(rows), rtol=1e-9, atol=1e-12)
    assert torch.linalg.eigvalsh(matrix).min() > -1e-12


def test_the_fisher_matrix_of_a_gaussian_head_is_known() -> None:
    """x'x / std^2 for the weights of the mean, 2 for each log standard deviation."""
    torch.manual_seed(0)
    x = torch.randn(5, 3, dtype=torch.float64)
    weight, log_std = (
        nn.Parameter(torch.zeros(3, dtype=torch.float64)),
        nn.Parameter(torch.tensor([0.5]).double()),
    )

    def distribution() -> DiagGaussian:
        return DiagGaussian(1).proba_distribution((x @ weight)[:, None], log_std)

    new = distribution()
    with torch.no_grad():
        old = copy.deepcopy(distribution())
    product = fisher_vector_product(old.kl(new).mean(), new.params, [weight, log_std])
    v = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    expected = torch.cat([x.T @ x @ v[:3] / 5 / torch.exp(torch.tensor(1.0)), 2 * v[3:]])
    torch.testing.assert_close(product(v), expected.double())

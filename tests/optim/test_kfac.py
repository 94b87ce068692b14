"""K-FAC against the exact Fisher matrix of small networks, computed row by row."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from rlzoo.accel.flat_parameters import FlatParameters, without_dynamo
from rlzoo.core.errors import UserError
from rlzoo.optim.kfac import KFAC
from rlzoo.optim.kfac_factors import KroneckerFactors


@pytest.fixture(autouse=True)
def _in_double_precision():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def block_of(layer):
    return [layer.weight] if layer.bias is None else [layer.weight, layer.bias]


def exact_fisher(log_likelihood, weights, parameters):
    """Sum over rows of weight * score score^T, [n, n], in the order of weight matrices with a bias column."""
    fisher = 0.0
    for row, weight in zip(log_likelihood, weights, strict=True):
        score = as_vector(torch.autograd.grad(row, parameters, retain_graph=True))
        fisher = fisher + weight * torch.outer(score, score)
    return fisher


def as_vector(gradients):
    weight, *bias = gradients
    return torch.cat([weight.flatten(1), *(b.unsqueeze(1) for b in bias)], dim=1).flatten()


def gradients_of(layer):
    return as_vector([parameter.grad for parameter in block_of(layer)])


def with_random_gradients(network):
    for parameter in network.parameters():
        parameter.grad = torch.randn_like(parameter)


def recorded(factors, network, x):
    with factors.recording():
        return network(x)


def check_blocks(network, factors, fishers, damping=0.05):
    """Each layer's gradient becomes (its block of the Fisher matrix + damping)^-1 times it."""
    with_random_gradients(network)
    before = {layer: gradients_of(layer) for layer in fishers}
    factors.precondition(damping)
    for layer, fisher in fishers.items():
        natural = torch.linalg.solve(fisher + damping * torch.eye(len(fisher)), before[layer])
        torch.testing.assert_close(gradients_of(layer), natural, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("bias", [True, False])
def test_every_block_is_exact_for_one_input_of_a_softmax_network(bias):
    """With one input, E[a a^T] x E[g g^T] is no approximation; each outcome has a row of its probability."""
    network = nn.Sequential(nn.Linear(3, 4, bias=bias), nn.Tanh(), nn.Linear(4, 3, bias=bias))
    factors = KroneckerFactors(network)
    logits = recorded(factors, network, torch.randn(3).expand(3, 3))
    log_probs = logits.log_softmax(-1).diagonal()  # row i has outcome i
    probs = log_probs.detach().exp()
    fishers = {
        layer: exact_fisher(log_probs, probs, block_of(layer))
        for layer in network
        if isinstance(layer, nn.Linear)
    }
    factors.update((len(probs) * probs).sqrt() * log_probs)  # scores are squared, and averaged over rows
    check_blocks(network, factors, fishers)


def test_a_linear_gaussian_model_is_exact_for_any_inputs():
    layer = nn.Linear(4, 2)
    factors = KroneckerFactors(layer)
    x = torch.randn(5, 4).repeat_interleave(2, dim=0)
    noise = math.sqrt(2) * torch.eye(2).repeat(5, 1)  # of covariance one, whatever the input
    mean = recorded(factors, layer, x)
    log_likelihood = -0.5 * (mean - (mean + noise).detach()).square().sum(1)
    fisher = exact_fisher(log_likelihood, [1 / 10] * 10, block_of(layer))
    factors.update(log_likelihood)
    check_blocks(layer, factors, {layer: fisher})


@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "bias": False}])
def test_factors_of_a_convolution_are_those_of_its_patches(options, monkeypatch):
    monkeypatch.setattr("rlzoo.optim.kfac_factors.MAX_PATCHES", 500)  # several portions
    conv = nn.Conv2d(2, 3, 3, **options)
    factors = KroneckerFactors(conv)
    x = torch.randn(4, 2, 7, 6)
    out = recorded(factors, conv, x)
    score = torch.randn_like(out)
    factors.update((out * score).sum((1, 2, 3)))
    padding, stride, dilation = (conv.padding[0], conv.stride[0], conv.dilation[0])
    padded = F.pad(x, [padding] * 4)
    a_sum, g_sum = 0.0, 0.0
    for n in range(4):
        for i in range(out.shape[2]):
            for j in range(out.shape[3]):
                rows = slice(i * stride, i * stride + 2 * dilation + 1, dilation)
                columns = slice(j * stride, j * stride + 2 * dilation + 1, dilation)
                patch = padded[n, :, rows, columns].flatten()
                patch = patch if conv.bias is None else torch.cat([patch, torch.ones(1)])
                a_sum = a_sum + torch.outer(patch, patch)
                g_sum = g_sum + torch.outer(score[n, :, i, j], score[n, :, i, j])
    torch.testing.assert_close(factors.averages[".A"], a_sum / 4)
    torch.testing.assert_close(factors.averages[".G"], g_sum / (4 * out.shape[2] * out.shape[3]))


def test_a_convolution_over_the_whole_image_is_a_linear_layer():
    conv, linear = nn.Conv2d(2, 3, 4), nn.Linear(32, 3)
    linear.load_state_dict({"weight": conv.weight.detach().flatten(1), "bias": conv.bias.detach()})
    x, score = torch.randn(6, 2, 4, 4), torch.randn(6, 3)
    natural = []
    for layer, rows in ((conv, x), (linear, x.flatten(1))):
        factors = KroneckerFactors(layer)
        factors.update((recorded(factors, layer, rows).flatten(1) * score).sum(1))
        for parameter in layer.parameters():
            parameter.grad = torch.linspace(-1, 1, parameter.numel()).view(parameter.shape)
        factors.precondition(0.1)
        natural.append(gradients_of(layer))
    torch.testing.assert_close(*natural)


def test_layer_called_twice_sums_the_fisher_of_both_calls():
    """Exact where both calls have the same input, and scores are +1 and -1 in all combinations."""
    layer, x = nn.Linear(2, 1), torch.randn(2).expand(4, 2)
    factors = KroneckerFactors(layer)
    first, second = torch.tensor([1.0, 1.0, -1.0, -1.0]), torch.tensor([1.0, -1.0, 1.0, -1.0])
    with factors.recording():
        log_likelihood = layer(x).squeeze(1) * first + layer(x).squeeze(1) * second
    fisher = exact_fisher(log_likelihood, [1 / 4] * 4, block_of(layer))
    factors.update(log_likelihood)
    check_blocks(layer, factors, {layer: fisher})


class Gaussian(nn.Module):
    """Means that a layer-normalised network gives, and a log standard deviation of their own."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
        self.log_std = nn.Parameter(torch.tensor([0.3, -0.2]))

    def forward(self, x):
        return self.net(x)


def test_unfactored_parameters_get_the_fisher_diagonal():
    network, x = Gaussian(), torch.randn(200, 3)
    factors = KroneckerFactors(network)
    for _ in range(400):
        mean = recorded(factors, network, x)
        sampled = (mean + torch.randn_like(mean) * network.log_std.exp()).detach()
        z = (sampled - mean) / network.log_std.exp()
        factors.update(-(0.5 * z.square() + network.log_std).sum(1), stats_decay=0.9999)
    torch.testing.assert_close(factors.averages["log_std"], torch.full((2,), 2.0), rtol=0.15, atol=0.0)
    # d mean / d (bias of the normalisation) is the weight of the last layer
    expected = (network.net[2].weight / network.log_std.exp().unsqueeze(1)).square().sum(0)
    torch.testing.assert_close(factors.averages["net.1.bias"], expected, rtol=0.2, atol=0.0)
    with_random_gradients(network)
    before = network.log_std.grad.clone()
    factors.precondition(0.5)
    torch.testing.assert_close(network.log_std.grad, before / (factors.averages["log_std"] + 0.5))


def update(factors, network, x):
    out = recorded(factors, network, x)
    factors.update(out.log_softmax(-1)[:, 0], stats_decay=0.9)


def test_averages_begin_as_means_and_then_decay():
    network = nn.Linear(2, 2, bias=False)
    factors = KroneckerFactors(network)
    batches = torch.randn(30, 5, 2)
    for x in batches:
        update(factors, network, x)
    moments = [x.T @ x / 5 for x in batches]
    expected = torch.stack(moments[:10]).mean(0)
    for moment in moments[10:]:
        expected = 0.9 * expected + 0.1 * moment
    torch.testing.assert_close(factors.averages[".A"], expected)


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("aside", [False, True])
def test_eigendecompositions_are_as_rare_and_as_late_as_asked(every, aside):
    network = nn.Linear(2, 3)
    factors = KroneckerFactors(network, async_eigen_decomp=aside)
    seen, due = [], []
    for step in range(9):
        out = recorded(factors, network, torch.randn(5, 2))
        factors.update(out.log_softmax(-1)[:, 0], kfac_update=every)
        if step % every == 0:
            due.append(torch.linalg.eigvalsh(factors.averages[".A"]))
        seen.append(factors.bases[""][0])
    for step, values in enumerate(seen):
        late = 1 if aside else 0
        torch.testing.assert_close(values, due[max(0, step // every - late)])


@pytest.mark.parametrize("aside", [False, True])
def test_wide_layers_are_decomposed_more_rarely(aside, monkeypatch):
    monkeypatch.setattr("rlzoo.optim.kfac_factors.WIDE", 4)
    network = nn.Sequential(nn.Linear(9, 2), nn.Linear(2, 3))  # every sixth time, and every time
    factors = KroneckerFactors(network, async_eigen_decomp=aside)
    changed = {"0": [], "1": []}
    for step in range(28):
        before = {name: basis[0] for name, basis in factors.bases.items()}
        out = recorded(factors, network, torch.randn(5, 9))
        factors.update(out.log_softmax(-1)[:, 0], kfac_update=2)
        for name, steps in changed.items():
            if name not in before or not torch.equal(before[name], factors.bases[name][0]):
                steps.append(step)
    late = 2 if aside else 0
    assert changed["0"] == [0, *(step + late for step in (2, 4, 8, 12, 24))]
    assert changed["1"] == [0, *range(2 + late, 28, 2)]


@pytest.mark.parametrize("aside", [False, True])
def test_a_state_taken_up_goes_on_to_the_bit(aside):
    network = nn.Linear(2, 3)
    first, second = (KroneckerFactors(network, async_eigen_decomp=aside) for _ in range(2))
    for _ in range(3):
        update(first, network, torch.randn(4, 2))
    second.load_state_dict(
        {**first.state_dict(), "averages": {k: v.clone() for k, v in first.averages.items()}}
    )
    for _ in range(2):
        x = torch.randn(4, 2)
        naturals = []
        for factors in (first, second):
            update(factors, network, x)
            network.weight.grad, network.bias.grad = torch.ones(3, 2), torch.ones(3)
            factors.precondition(0.1)
            naturals.append(network.weight.grad)
        assert torch.equal(*naturals)
    with pytest.raises((ValueError, LookupError)):
        KroneckerFactors(nn.Linear(3, 3)).load_state_dict(first.state_dict())


def optimizer_of(network, **options):
    flat, factors = FlatParameters(network.parameters()), KroneckerFactors(network)
    return flat, factors, without_dynamo(KFAC)(flat, factors, **options)


@pytest.mark.parametrize(("lr", "kfac_clip"), [(0.5, 1e9), (1e9, 0.001)])
def test_a_step_is_the_natural_gradient_within_the_trust_region(lr, kfac_clip):
    network = nn.Linear(3, 2)
    flat, factors, optimizer = optimizer_of(network, lr=lr, kfac_clip=kfac_clip, momentum=0.0, damping=0.1)
    x = torch.randn(7, 3)
    mean = recorded(factors, network, x)
    factors.update(-0.5 * (mean - (mean + torch.randn_like(mean)).detach()).square().sum(1))
    flat.zero_grad()
    (network(x) - 1).square().mean().backward()
    gradient, before = flat.vector.grad.clone(), flat.vector.detach().clone()
    optimizer.step()
    step, natural = before - flat.vector.detach(), flat.vector.grad
    if lr < 1:
        torch.testing.assert_close(step, 0.5 * natural)
    else:
        # for a step eta (F + damping)^-1 g the quadratic form is eta g . step
        eta = (step @ gradient) / (natural @ gradient)
        assert float(0.5 * eta * (step @ gradient)) == pytest.approx(0.001)


def test_momentum_averages_steps():
    network = nn.Linear(1, 1, bias=False)
    flat, _, optimizer = optimizer_of(network, lr=1.0, kfac_clip=1e9, momentum=0.75, damping=1.0)
    positions = [float(flat.vector.detach())]
    for gradient in (2.0, 2.0, -4.0):  # without factors, the gradient is the natural one
        flat.zero_grad()
        network.weight.grad.fill_(gradient)
        optimizer.step()
        positions.append(float(flat.vector.detach()))
    steps = [before - after for before, after in pairwise(positions)]
    assert steps == pytest.approx([0.5, 0.875, -0.34375])


def test_the_norm_of_a_step_is_bounded():
    network = nn.Linear(1, 1, bias=False)
    flat, _, optimizer = optimizer_of(network, lr=1.0, kfac_clip=1e9, momentum=0.0, max_grad_norm=0.5)
    before = float(flat.vector.detach())
    flat.zero_grad()
    network.weight.grad.fill_(-100.0)
    optimizer.step()
    assert float(flat.vector.detach()) - before == pytest.approx(0.5)


def test_nothing_moves_without_a_gradient():
    network = nn.Linear(2, 2)
    flat, _, optimizer = optimizer_of(network)
    before = flat.vector.detach().clone()
    flat.zero_grad()
    optimizer.step()
    assert torch.equal(flat.vector.detach(), before)


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (nn.BatchNorm1d(3), "1 .BatchNorm1d."),
        (nn.Conv2d(4, 4, 3, groups=2), "1 .Conv2d with 2 groups."),
        (nn.Embedding(3, 4), "1 .Embedding."),
        (nn.Conv1d(3, 4, 2), "use Linear, Conv2d.*A2C"),
    ],
)
def test_unfactorable_layer_error_names_the_alternative(layer, text):
    with pytest.raises(UserError, match=text) as error:
        KroneckerFactors(nn.Sequential(nn.Linear(3, 3), layer))
    assert "\n" not in str(error.value)


def test_frozen_layers_are_left_alone():
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).requires_grad_(False)
    network[1].requires_grad_(True)
    assert list(KroneckerFactors(network).layers) == ["1"]

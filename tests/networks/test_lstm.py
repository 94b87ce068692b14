"""LSTMs against their formulas; many steps at once against one step after the other."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlzoo.buffers.sequences import Sequences
from rlzoo.networks.lstm import (
    LSTM,
    LayerNormLSTM,
    LayerNormLSTMCell,
    OneStep,
    OverSequences,
    reset_state,
    zero_state,
)

CPU = torch.device("cpu")
KINDS = (LSTM, LayerNormLSTM)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def layer_norm(x, norm):
    """Of a vector, with the gain and bias of a module."""
    gain, bias = norm.weight.detach().numpy(), 0.0 if norm.bias is None else norm.bias.detach().numpy()
    return gain * (x - x.mean()) / np.sqrt(x.var() + 1e-5) + bias


def shaken(module):
    """Gains and biases other than one and zero."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module.double()


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_normalised_cell_is_its_formula(bias):
    torch.manual_seed(0)
    cell = shaken(LayerNormLSTMCell(3, 5, bias))
    x, h, c = torch.randn(2, 3).double(), torch.randn(2, 5).double(), torch.randn(2, 5).double()
    new_h, new_c = cell(cell.of_input(x), h, c)
    w_x, w_h = cell.weight_ih.detach().numpy(), cell.weight_hh.detach().numpy()
    for row in range(2):
        gates = layer_norm(w_x @ x[row].numpy(), cell.norm_ih) + layer_norm(
            w_h @ h[row].numpy(), cell.norm_hh
        )
        i, f, g, o = gates.reshape(4, 5)
        c_expected = sigmoid(f) * c[row].numpy() + sigmoid(i) * np.tanh(g)
        h_expected = sigmoid(o) * np.tanh(layer_norm(c_expected, cell.norm_c))
        np.testing.assert_allclose(new_c[row].detach(), c_expected, rtol=1e-10)
        np.testing.assert_allclose(new_h[row].detach(), h_expected, rtol=1e-10)


def test_biases_of_layer_normalised_gates_can_be_left_out():
    assert [name for name, _ in LayerNormLSTMCell(3, 5, bias=False).named_parameters() if "bias" in name] == [
        "norm_c.bias"
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"bias": False, "num_layers": 3}])
def test_single_steps_add_up_to_a_sequence(kind, options):
    torch.manual_seed(0)
    lstm = kind(3, 4, **options)
    layers = options.get("num_layers", 1)
    x, h, c = torch.randn(6, 2, 3), torch.randn(layers, 2, 4), torch.randn(layers, 2, 4)
    output, (last_h, last_c) = lstm(x, (h, c))
    assert output.shape == (6, 2, 4)
    h, c = h.transpose(0, 1), c.transpose(0, 1)
    for t in range(6):
        y, h, c = lstm.step(x[t], h, c)
        torch.testing.assert_close(y, output[t], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(h, last_h.transpose(0, 1), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(c, last_c.transpose(0, 1), atol=1e-6, rtol=1e-5)


def test_plain_parameters_are_those_of_pytorch():
    theirs = torch.nn.LSTM(3, 4, 2)
    ours = LSTM(3, 4, 2)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(5, 2, 3)
    zeros = torch.zeros(2, 2, 4)
    torch.testing.assert_close(ours(x, (zeros, zeros))[0], theirs(x)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_between_layers_is_for_training(kind):
    torch.manual_seed(0)
    lstm = kind(3, 8, 2, dropout=0.5)
    x, zeros = torch.randn(1, 2, 3), torch.zeros(2, 2, 8)
    memory = zeros.transpose(0, 1)

    def outputs():
        return lstm(x, (zeros, zeros))[0], lstm.step(x[0], memory, memory)[0]

    assert all((first != second).any() for first, second in zip(outputs(), outputs(), strict=True))
    lstm.eval()
    assert all(torch.equal(first, second) for first, second in zip(outputs(), outputs(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_padding_gives_exactly_what_a_loop_gives(kind):
    """Outputs and gradients of rows in any order, against each sequence run alone, step by step."""
    torch.manual_seed(0)
    lstm = kind(3, 4, 2)
    lengths, order = [3, 1, 5, 2], torch.randperm(11).numpy()
    starts = np.zeros(11, bool)
    starts[np.cumsum([0, *lengths[:-1]])] = True
    memory = {name: torch.randn(4, 2, 4) for name in ("m_h", "m_c")}
    x = torch.randn(11, 3, requires_grad=True)
    weight = torch.randn(11, 4)
    inputs = [x, *lstm.parameters()]

    output = OverSequences(Sequences(starts, order, memory, CPU))("m", lstm, x)
    gradients = torch.autograd.grad((output * weight).sum(), inputs)

    rows = [None] * 11
    place = 0
    for sequence, length in enumerate(lengths):
        run = OneStep({name: value[sequence : sequence + 1] for name, value in memory.items()})
        for _ in range(length):
            row = order[place]
            rows[row] = run("m", lstm, x[row : row + 1])
            run = OneStep(run.after)
            place += 1
    expected = torch.cat(rows)
    torch.testing.assert_close(output, expected, atol=1e-6, rtol=1e-5)
    for gradient, other in zip(
        gradients, torch.autograd.grad((expected * weight).sum(), inputs), strict=True
    ):
        torch.testing.assert_close(gradient, other, atol=1e-5, rtol=1e-4)


def test_memory_is_forgotten_where_an_episode_starts():
    memory = {"h": torch.randn(3, 2, 4), "c": torch.randn(3, 2, 4)}
    after = reset_state(memory, torch.tensor([False, True, False]))
    for name, value in after.items():
        assert (value[1] == 0).all() and torch.equal(value[[0, 2]], memory[name][[0, 2]])
    assert (memory["h"][1] != 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_zero_state_is_zero(kind):
    memory = zero_state("m", kind(3, 4, 2), 5, CPU)
    assert list(memory) == ["m_h", "m_c"]
    assert all(value.shape == (5, 2, 4) and (value == 0).all() for value in memory.values())

"""LSTMs, and the two ways to run them: over padded sequences to learn, one step at a time to act."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlzoo.buffers.sequences import RNNState, Sequences

State = tuple[Tensor, Tensor]
"""h and c as PyTorch has them, each [n_layers, n_sequences, hidden_size]."""


class LSTM(nn.LSTM):
    """PyTorch's (Hochreiter and Schmidhuber 1997, with forget gates), which can also take a single step at
    the cost of its arithmetic.

    :param input_size: width of the input
    :param hidden_size: units of each layer, and width of the output
    :param num_layers: layers above each other
    :param bias: whether gates have one
    :param dropout: share of units that a layer does not see of the one below it, in training
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias=bias, dropout=dropout)
        weights = ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if bias else ()))
        self._names = [[f"{name}_l{layer}" for name in weights] for layer in range(num_layers)]

    def step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute `forward` on sequences of one row each.

        :param x: [n, input_size]
        :param h: with `c` the recurrent state, [n, num_layers, hidden_size]
        :return: the output [n, hidden_size], and h and c afterwards
        """
        hs, cs = [], []
        for layer, names in enumerate(self._names):
            if layer > 0 and self.dropout > 0:
                x = F.dropout(x, self.dropout, self.training)
            weights = [self._parameters[name] for name in names]
            x, cell = torch.lstm_cell(x, (h[:, layer], c[:, layer]), *weights)  # type: ignore[arg-type]
            hs.append(x)
            cs.append(cell)
        return x, torch.stack(hs, dim=1), torch.stack(cs, dim=1)


class LayerNormLSTMCell(nn.Module):
    """One layer of a layer-normalised LSTM (Ba et al. 2016, https://arxiv.org/abs/1607.06450, supplement).

        i, f, g, o = LN(W_ih x) + LN(W_hh h)
        c' = sigmoid(f) c + sigmoid(i) tanh(g)
        h' = sigmoid(o) tanh(LN(c'))

    Each LN has its own gain and bias and normalises over its whole vector, the first two over all four
    gates at once; their biases take the place of the paper's b.

    :param bias: whether the normalised gates have one
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden_size, input_size))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden_size, hidden_size))
        for weight in (self.weight_ih, self.weight_hh):
            nn.init.orthogonal_(weight)
        self.norm_ih = nn.LayerNorm(4 * hidden_size, bias=bias)
        self.norm_hh = nn.LayerNorm(4 * hidden_size, bias=bias)
        self.norm_c = nn.LayerNorm(hidden_size)

    def of_input(self, x: Tensor) -> Tensor:
        """Compute what the input adds to the gates, [..., input_size] -> [..., 4 * hidden_size]."""
        return cast(Tensor, self.norm_ih(F.linear(x, self.weight_ih)))

    def forward(self, from_input: Tensor, h: Tensor, c: Tensor) -> State:
        """Take one step; return h and c.

        :param from_input: see `of_input`, [n, 4 * hidden_size]
        :param h, c: [n, hidden_size]
        """
        i, f, g, o = (from_input + self.norm_hh(F.linear(h, self.weight_hh))).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(self.norm_c(c)), c


class LayerNormLSTM(nn.Module):
    """Layers of `LayerNormLSTMCell`, with the interface of `LSTM`."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.num_layers, self.hidden_size, self.dropout = num_layers, hidden_size, dropout
        sizes = [input_size, *[hidden_size] * (num_layers - 1)]
        self.cells = nn.ModuleList(LayerNormLSTMCell(size, hidden_size, bias) for size in sizes)

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """Map [max_length, n, input_size] to [max_length, n, hidden_size], and return the last state."""
        hs, cs = [], []
        for layer, module in enumerate(self.cells):
            cell = cast(LayerNormLSTMCell, module)
            h, c = state[0][layer], state[1][layer]
            outputs = []
            for from_input in cell.of_input(self._dropped(x, layer)).unbind(0):
                h, c = cell(from_input, h, c)
                outputs.append(h)
            x = torch.stack(outputs)
            hs.append(h)
            cs.append(c)
        return x, (torch.stack(hs), torch.stack(cs))

    def step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See `LSTM.step`."""
        output, (h, c) = self(x.unsqueeze(0), (h.transpose(0, 1), c.transpose(0, 1)))
        return output.squeeze(0), h.transpose(0, 1), c.transpose(0, 1)

    def _dropped(self, x: Tensor, layer: int) -> Tensor:
        return F.dropout(x, self.dropout, self.training) if layer > 0 and self.dropout > 0 else x


AnyLSTM = LSTM | LayerNormLSTM


def zero_state(name: str, lstm: AnyLSTM, n: int, device: torch.device) -> RNNState:
    """Return the zero state of the LSTM called `name` for `n` episodes."""
    shape = (n, lstm.num_layers, lstm.hidden_size)
    return {f"{name}_{part}": torch.zeros(shape, device=device) for part in "hc"}


class RNNStates(NamedTuple):
    """The states of the LSTMs of actor and critic, as sb3-contrib has them."""

    pi: State
    vf: State


def rnn_states(rnn_state: RNNState) -> RNNStates:
    """Return a recurrent state by actor and critic; both have the actor's where the critic has no LSTM.

    :param rnn_state: h and c of `lstm_actor`, and of `lstm_critic`, [n, num_layers, hidden_size]
    """
    pairs = [
        (rnn_state[f"{name}_h"].transpose(0, 1), rnn_state[f"{name}_c"].transpose(0, 1))
        for name in ("lstm_actor", "lstm_critic")
        if f"{name}_h" in rnn_state
    ]
    return RNNStates(pairs[0], pairs[-1])


def reset_state(rnn_state: RNNState, starts: Tensor) -> RNNState:
    """Return the recurrent state with the rows of episodes that start ([n], bool) set to zero."""
    return {
        name: value.masked_fill(starts.view(-1, *[1] * (value.dim() - 1)), 0.0)
        for name, value in rnn_state.items()
    }


class OneStep:
    """Runner of LSTMs for one step from a recurrent state, each row by itself.

    :ivar after: the next state of the LSTMs that ran
    """

    def __init__(self, rnn_state: RNNState) -> None:
        self.rnn_state = rnn_state
        self.after: RNNState = {}

    def __call__(self, name: str, lstm: AnyLSTM, rows: Tensor) -> Tensor:
        """Map [n, input_size] to [n, hidden_size]."""
        output, h, c = lstm.step(rows, self.rnn_state[f"{name}_h"], self.rnn_state[f"{name}_c"])
        self.after[f"{name}_h"], self.after[f"{name}_c"] = h, c
        return output


class OverSequences:
    """Runner of LSTMs over the sequences that the rows of a batch form; no padding comes in or out."""

    def __init__(self, sequences: Sequences) -> None:
        self.sequences = sequences

    def __call__(self, name: str, lstm: AnyLSTM, rows: Tensor) -> Tensor:
        """Map [n_rows, input_size] to [n_rows, hidden_size]."""
        rnn_state = self.sequences.rnn_state
        h, c = (rnn_state[f"{name}_{part}"].transpose(0, 1).contiguous() for part in "hc")
        padded, _ = lstm(self.sequences.pad(rows), (h, c))
        return self.sequences.unpad(padded)

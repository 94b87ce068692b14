"""Forward and backward passes of plain networks, one or several of one shape, without autograd."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlzoo.accel.fast_mlp import BACKWARD, IN_PLACE


@dataclass(slots=True)
class LinearLayer:
    """A linear layer and the activation behind it; of n networks, a layer of each.

    :param weight: [out, in] of an `nn.Linear`; [n, in, out] of an `EnsembleLinear`, [in, out] of its first
    :param bias: [out], or [n, 1, out]
    :param is_transposed: whether the weight is [out, in]
    """

    weight: Tensor
    bias: Tensor
    is_transposed: bool
    activation: type[nn.Module] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return the output [..., B, out] for an input [..., B, in]."""
        if self.is_transposed:
            y = F.linear(x, self.weight, self.bias)
        elif self.weight.dim() == 2:
            y = torch.addmm(self.bias, x, self.weight)
        elif self.weight.shape[2] == 1:  # as a batched product it takes several times as long
            y = (x * self.weight.mT).sum(2, keepdim=True).add_(self.bias)
        else:
            y = torch.baddbmm(self.bias, x.expand(len(self.weight), *x.shape[-2:]), self.weight)
        return y if self.activation is None else IN_PLACE[self.activation](y)

    def put_gradients(self, x: Tensor, gradient: Tensor) -> None:
        """Replace the gradients of weight and bias.

        :param gradient: of the output before the activation
        """
        grad_weight, grad_bias = self.weight.grad, self.bias.grad
        assert grad_weight is not None
        if self.is_transposed:
            torch.mm(gradient.t(), x, out=grad_weight)
        elif self.weight.shape[2] == 1:
            torch.sum(x * gradient, 1, keepdim=True, out=grad_weight.mT)
        else:
            torch.bmm(x.mT.expand(len(self.weight), -1, -1), gradient, out=grad_weight)
        torch.sum(gradient, -2, keepdim=not self.is_transposed, out=grad_bias)

    def gradient_of_inputs(self, gradient: Tensor, start: int = 0) -> Tensor:
        """Return the gradient of the inputs from `start` on; `gradient` is as in `put_gradients`."""
        weight = self.weight[:, start:] if self.is_transposed else self.weight[..., start:, :].mT
        if weight.shape[-2] == 1:
            return gradient * weight
        return torch.mm(gradient, weight) if weight.dim() == 2 else torch.bmm(gradient, weight)


class ManualNetwork:
    """Linear layers, of one network or of n, with activations behind them.

    Example:
        >>> layers = [nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)]
        >>> for parameter in nn.Sequential(*layers).parameters():
        ...     parameter.grad = torch.empty_like(parameter)
        >>> network = ManualNetwork(layers)
        >>> with torch.no_grad():
        ...     values = network.forward(torch.randn(16, 4))
        ...     gradient = network.backward(values, torch.full((16, 1), 1 / 16))  # of the mean output

    :param layers: `nn.Linear` or `EnsembleLinear`, each with at most one tanh or ReLU behind it
    :param first: of n networks, evaluate the first one alone
    """

    def __init__(self, layers: Iterable[nn.Module], first: bool = False) -> None:
        self.layers: list[LinearLayer] = []
        for layer in layers:
            if type(layer) in BACKWARD:
                self.layers[-1].activation = type(layer)
                continue
            weight, bias = layer.get_parameter("weight"), layer.get_parameter("bias")
            pair = (weight[0].detach(), bias[0, 0].detach()) if first else (weight, bias)
            self.layers.append(LinearLayer(*pair, is_transposed=type(layer) is nn.Linear))

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return the input [B, in], and the output [..., B, out] of each layer."""
        values = [x]
        for layer in self.layers:
            values.append(layer.forward(values[-1]))
        return values

    def backward(
        self, values: Sequence[Tensor], gradient: Tensor, n_inputs: int = 0, learn: bool = True
    ) -> Tensor:
        """Replace the gradients of the parameters, and return that of the last `n_inputs` inputs.

        :param values: what `forward` has returned
        :param gradient: of the loss with respect to the output, in its shape
        :param n_inputs: 0 where no gradient of the inputs is needed
        :param learn: False leaves the gradients of the parameters as they are
        """
        for i in range(len(self.layers) - 1, -1, -1):
            layer = self.layers[i]
            if layer.activation is not None:
                gradient = BACKWARD[layer.activation](gradient, values[i + 1])
            if learn:
                layer.put_gradients(values[i], gradient)
            if i > 0 or n_inputs:
                gradient = layer.gradient_of_inputs(gradient, 0 if i else -n_inputs)
        return gradient


class JoinedLinear:
    """Linear layers with one input, whose outputs are computed side by side by one product."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        self.layers = layers
        self.sizes = [layer.out_features for layer in layers]

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs [B, out] for an input [B, in]."""
        bias = torch.cat([layer.bias for layer in self.layers])
        return F.linear(x, torch.cat([layer.weight for layer in self.layers]), bias)

    def backward(self, x: Tensor, gradient: Tensor) -> Tensor:
        """Replace the gradients of the parameters; return that of the input, [B, in]."""
        grad_weights, grad_biases = (gradient.t() @ x).split(self.sizes), gradient.sum(0).split(self.sizes)
        for layer, grad_weight, grad_bias in zip(self.layers, grad_weights, grad_biases, strict=True):
            assert layer.weight.grad is not None and layer.bias.grad is not None
            layer.weight.grad.copy_(grad_weight)
            layer.bias.grad.copy_(grad_bias)
        return gradient @ torch.cat([layer.weight for layer in self.layers])

"""A network of plain layers, evaluated without the machinery of modules.

An agent that acts evaluates networks of 64 units on a few rows at a time. There, finding out what a module is
and whether anyone listens to it costs about as much as its arithmetic, so `fast_forward` does the arithmetic
directly. It is for acting and for values, where no gradient is wanted; learning calls the modules, or, where
an algorithm has the derivative of its loss in closed form, `chain_with_backward`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PLAIN: dict[type[nn.Module], Callable[[Any, Tensor], Tensor]] = {
    nn.Linear: lambda layer, x: F.linear(x, layer._parameters["weight"], layer._parameters["bias"]),
    nn.Tanh: lambda layer, x: torch.tanh(x),
    nn.ReLU: lambda layer, x: torch.relu(x),
}
BACKWARD: dict[type[nn.Module], Callable[[Tensor, Tensor], Tensor]] = {
    nn.Tanh: lambda gradient, y: torch.ops.aten.tanh_backward.default(gradient, y),
    nn.ReLU: lambda gradient, y: torch.ops.aten.threshold_backward.default(gradient, y, 0),
}
"""From the gradient with respect to the output y of an activation to that of its input."""


def fast_forward(network: nn.Module, x: Tensor) -> Tensor:
    """`network(x)`; where gradients are off, its linear, tanh and ReLU layers without calling the modules.

    A layer of another kind, or with hooks, is called as the module it is. So are all under `torch.jit.trace`,
    which records a graph with gradients and one without, and compares the two.
    """
    if torch.is_grad_enabled() or is_hooked(network) or torch.jit.is_tracing():
        return cast(Tensor, network(x))
    for layer in network._modules.values() if type(network) is nn.Sequential else (network,):
        plain = PLAIN.get(type(layer))
        x = layer(x) if plain is None or is_hooked(layer) else plain(layer, x)
    return x


@torch.no_grad()
def chain_with_backward(network: nn.Module, x: Tensor) -> tuple[Tensor, Callable[[Tensor], None]] | None:
    """`network(x)` without a graph, and what carries a gradient with respect to it into the parameters.

    That function adds to the `.grad` of each parameter, as `backward` of a tensor does; autograd's records
    and queues would take a third of the time of a small network. None where something other than linear,
    tanh and ReLU layers is found, or hooks, or parameters without a `.grad` to add to.

    :param x: [batch, features], without a gradient
    """
    layers = list(network._modules.values()) if type(network) is nn.Sequential else [network]
    if not all(layer is not None and type(layer) in PLAIN and _adds_gradients(layer) for layer in layers):
        return None
    values = [x]
    for layer in layers:
        values.append(PLAIN[type(layer)](layer, values[-1]))

    @torch.no_grad()
    def backward(gradient: Tensor) -> None:
        for i in reversed(range(len(layers))):
            layer = layers[i]
            if not isinstance(layer, nn.Linear):
                gradient = BACKWARD[type(layer)](gradient, values[i + 1])
                continue
            layer.weight.grad.addmm_(gradient.t(), values[i])  # type: ignore[union-attr]
            if layer.bias is not None:
                layer.bias.grad.add_(gradient.sum(0))  # type: ignore[union-attr]
            if i > 0:
                gradient = gradient @ layer.weight

    return values[-1], backward


def _adds_gradients(layer: nn.Module) -> bool:
    listens = layer._backward_hooks or layer._backward_pre_hooks or is_hooked(layer)
    return not listens and all(p.grad is not None for p in layer._parameters.values() if p is not None)


def is_hooked(module: nn.Module) -> bool:
    """Whether calling the module without gradients does more than its `forward`."""
    return bool(module._forward_hooks or module._forward_pre_hooks)

"""A network of plain layers, evaluated without the machinery of modules.

An agent that acts evaluates networks of 64 units on a few rows at a time. There, finding out what a module is
and whether anyone listens to it costs about as much as its arithmetic, so `forward_chain` does the arithmetic
directly. It is for acting and for values, where no gradient is wanted; learning calls the modules.
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


def forward_chain(network: nn.Module, x: Tensor) -> Tensor:
    """`network(x)`; where gradients are off, its linear, tanh and ReLU layers without calling the modules.

    A layer of another kind, or with hooks, is called as the module it is.
    """
    if torch.is_grad_enabled() or is_hooked(network):
        return cast(Tensor, network(x))
    for layer in network._modules.values() if type(network) is nn.Sequential else (network,):
        plain = PLAIN.get(type(layer))
        x = layer(x) if plain is None or is_hooked(layer) else plain(layer, x)
    return x


def is_hooked(module: nn.Module) -> bool:
    """Whether calling the module without gradients does more than its `forward`."""
    return bool(module._forward_hooks or module._forward_pre_hooks)

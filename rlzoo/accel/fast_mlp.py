"""Multi-layer perceptrons of linear, tanh and ReLU layers without the overhead of modules and of autograd.

On networks of 64 units and a few rows, calling modules costs about as much as their arithmetic, and a
backward pass spends more time in autograd's engine than in matrix products.

    fast_forward    the arithmetic of the layers, without calling the modules
    Tape            for gradients: keeps what `fast_forward` computes, and passes gradients back through it

Layers of other kinds, hooks of a module, a parameter or an output, and `torch.jit.trace` fall back to
PyTorch, as everything does with `RLZOO_PLAIN=1`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlzoo.accel.switch import enabled

is_compiled = torch.compiler.is_dynamo_compiling
"""Whether `torch.compile` follows the code at present: it needs the plain modules."""
FAST = enabled("fast_mlp")

FORWARD: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {nn.Tanh: torch.tanh, nn.ReLU: torch.relu}
"""Output of an activation from its input."""

IN_PLACE: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {nn.Tanh: torch.tanh_, nn.ReLU: torch.relu_}
"""The same, in the memory of the input, so that what follows finds more of its data in the cache.

For an input that nobody else holds and no derivative needs: the output of a linear layer.
"""

BACKWARD: dict[type[nn.Module], Callable[[Tensor, Tensor], Tensor]] = {
    nn.Tanh: torch.ops.aten.tanh_backward.default,
    nn.ReLU: lambda gradient, output: torch.ops.aten.threshold_backward.default(gradient, output, 0),
}
"""Gradient of an activation's input from that of its output, and its output."""

CHAIN = frozenset(
    {
        "GatherBackward0",
        "MeanBackward0",
        "MeanBackward1",
        "MulBackward0",
        "QuantileHuberBackward",
        "SmoothL1LossBackward0",
        "SqueezeBackward1",
        "SumBackward1",
        "ViewBackward0",
    }
)
"""Operations between a network and a loss that `Tape` knows how to call."""


class _Recording(threading.local):
    tape: Tape | None = None


_recording = _Recording()


def fast_forward(network: nn.Module, x: Tensor) -> Tensor:
    """Return `network(x)`; plain layers are evaluated without calling the modules.

    With gradients, only while a `Tape` is recording; otherwise the modules are called. They are, too, under
    `torch.jit.trace`, which compares a graph with gradients and one without.
    """
    with_gradients = torch.is_grad_enabled()
    if not FAST or (with_gradients and _recording.tape is None):
        return cast(Tensor, network(x))
    if is_hooked(network) or torch.jit.is_tracing() or is_compiled():
        return cast(Tensor, network(x))
    if with_gradients:
        return cast(Tape, _recording.tape).evaluate(network, x)
    is_ours = False
    for layer in layers_of(network):
        kind = type(layer)
        if is_hooked(layer):
            x, is_ours = layer(x), False
        elif kind is nn.Linear:
            weights = parameters_of(layer)
            x, is_ours = F.linear(x, cast(Tensor, weights["weight"]), weights["bias"]), True
        elif kind in FORWARD:
            x = (IN_PLACE if is_ours else FORWARD)[kind](x)
        else:
            x, is_ours = layer(x), False
    return x


class Tape:
    """The networks that a loss depends on, and the values of their layers: a tape of reverse-mode
    differentiation (Griewank and Walther 2008, chapter 3) whose entries are whole networks.

    To autograd the output of a recorded network is a leaf, as a parameter is. `backward` lets autograd
    compute its gradient, and passes that on through the layers to the parameters. Nothing else may ask for
    gradients of what was computed while a tape was recording: `loss.backward()` would stop at the networks.

    Example:
        >>> tape, network, x = Tape(), nn.Linear(4, 2), torch.randn(8, 4)
        >>> for parameter in network.parameters():
        ...     parameter.grad = torch.zeros_like(parameter)
        >>> with tape:
        ...     loss = fast_forward(network, x).square().mean()
        >>> tape.backward(loss)
    """

    def __init__(self) -> None:
        self.networks: list[tuple[Sequence[nn.Module], list[Tensor]]] = []
        """Layers of each network, and the input and output of each; a linear layer's output is overwritten by
        the activation behind it."""

    def __enter__(self) -> None:
        self.networks.clear()
        _recording.tape = self

    def __exit__(self, *_: object) -> None:
        _recording.tape = None

    def evaluate(self, network: nn.Module, x: Tensor) -> Tensor:
        """Return `network(x)`; record it where its layers are plain, and its input needs no gradient or is
        the output of another recorded network.

        :param x: [batch, features]
        """
        layers = list(layers_of(network))
        if not self._can_record(network, layers, x):
            return cast(Tensor, network(x))
        values = [x]
        with torch.no_grad():
            before: type[nn.Module] | None = None
            for layer in layers:
                kind = type(layer)
                if kind is nn.Linear:
                    weights = parameters_of(layer)
                    x = F.linear(x, cast(Tensor, weights["weight"]), weights["bias"])
                else:
                    x = (IN_PLACE if before is nn.Linear else FORWARD)[kind](x)
                values.append(x)
                before = kind
        self.networks.append((layers, values))
        return x.requires_grad_()

    def _can_record(self, network: nn.Module, layers: list[nn.Module], x: Tensor) -> bool:
        if x.dim() != 2 or has_hooks(network):
            return False
        is_output = x.requires_grad and any(x is values[-1] for _, values in self.networks)
        if x.requires_grad and (not is_output or has_tensor_hooks(x)):
            return False
        learns = x.requires_grad
        for layer in layers:
            kind = type(layer)
            if has_hooks(layer) or (kind is not nn.Linear and kind not in FORWARD):
                return False
            for parameter in parameters_of(layer).values():
                if parameter is not None and parameter.requires_grad:
                    if parameter.grad is None or has_tensor_hooks(parameter):
                        return False
                    learns = True
        return learns and bool(layers)

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a scalar loss to the `.grad` of the parameters, and empty the tape."""
        chain = self._chain(loss)
        if chain is None:
            loss.backward()
        with torch.no_grad():
            if chain is not None:
                gradient: Any = torch.ones_like(loss)
                for node, index in chain:
                    gradient = getattr(node, "apply", node)(gradient)
                    if isinstance(gradient, tuple):
                        gradient = gradient[index]
                self.networks[0][1][-1].grad = gradient
            for layers, values in reversed(self.networks):
                if values[-1].grad is not None:
                    _propagate(layers, values, values[-1].grad)
        self.networks.clear()

    def _chain(self, loss: Tensor) -> list[tuple[Any, int]] | None:
        """Return the operations from the only network to a loss, the last one first.

        Each operation comes with the index of the input that the gradient is passed to.

        :return: None where they are no chain of `CHAIN`: such a loss takes autograd's engine, whose start
            costs more than these operations
        """
        if len(self.networks) != 1 or has_tensor_hooks(output := self.networks[0][1][-1]):
            return None
        chain: list[tuple[Any, int]] = []
        node: Any = loss.grad_fn
        while node is not None:
            name = type(node).__name__
            if name == "AccumulateGrad" and node.variable is output:
                return chain
            if name not in CHAIN:
                return None
            inputs = [
                (i, function) for i, (function, _) in enumerate(node.next_functions) if function is not None
            ]
            if len(inputs) != 1:
                return None
            index, following = inputs[0]
            chain.append((node, index))
            node = following
        return None


def _propagate(layers: Sequence[nn.Module], values: list[Tensor], gradient: Tensor) -> None:
    """Carry the gradient of an output back to the parameters of the layers, and to an input that needs it."""
    x = values[0]
    for i in range(len(layers) - 1, -1, -1):
        layer = layers[i]
        if type(layer) is not nn.Linear:
            gradient = BACKWARD[type(layer)](gradient, values[i + 1])
            continue
        weights = parameters_of(layer)
        weight, bias = cast(Tensor, weights["weight"]), weights["bias"]
        if weight.requires_grad:
            cast(Tensor, weight.grad).addmm_(gradient.t(), values[i])
        if bias is not None and bias.requires_grad:
            cast(Tensor, bias.grad).add_(gradient.sum(0))
        if i > 0 or x.requires_grad:
            gradient = gradient @ weight
    if x.requires_grad:
        x.grad = gradient if x.grad is None else x.grad + gradient


def layers_of(network: nn.Module) -> Iterable[nn.Module]:
    """Return the layers of an nn.Sequential; another module is a layer itself."""
    return network if type(network) is nn.Sequential else (network,)


def parameters_of(layer: nn.Module) -> dict[str, nn.Parameter | None]:
    """Return the parameters by name; as attributes of the module they take several times as long to find."""
    return layer._parameters


def has_hooks(module: nn.Module) -> bool:
    """Return whether calling the module, or its backward pass, does more than its `forward`."""
    return bool(module._backward_hooks or module._backward_pre_hooks) or is_hooked(module)


def is_hooked(module: nn.Module) -> bool:
    """Return whether calling the module without gradients does other things than its class's `forward`."""
    own = vars(module)
    return bool(own["_forward_hooks"] or own["_forward_pre_hooks"]) or "forward" in own


def has_tensor_hooks(tensor: Tensor) -> bool:
    """Return whether somebody wants to see or change the gradient of a tensor."""
    return bool(tensor._backward_hooks or tensor._post_accumulate_grad_hooks)

"""Multi-layer perceptrons of linear, tanh and ReLU layers without the overhead of modules and of autograd.

On networks of 64 units and a few rows, calling modules costs about as much as their arithmetic, and a
backward pass spends more time in autograd's engine than in matrix products.

    fast_forward    no gradients: the arithmetic of the layers, without calling the modules
    fast_mlp        with gradients: the whole network is one node of the graph (`MLPFunction`)
    fast_backward   gradients of a loss that reaches such a network through a plain chain of operations: the
                    derivative of each operation is called directly, and the network writes its gradients in
                    place

Layers of other kinds, hooks and `torch.jit.trace` fall back to PyTorch, as everything does with
`RLZOO_PLAIN=1`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlzoo.accel.switch import enabled

is_compiled = torch.compiler.is_dynamo_compiling
"""Whether `torch.compile` follows the code at present: it needs the plain modules."""
FAST = enabled("fast_mlp")
ONE = torch.ones(())

FORWARD: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {nn.Tanh: torch.tanh, nn.ReLU: torch.relu}
"""Output of an activation from its input."""

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
"""Operations between a network and a loss that `fast_backward` knows how to call."""


def fast_forward(network: nn.Module, x: Tensor) -> Tensor:
    """Return `network(x)`; without gradients, plain layers are evaluated without calling the modules.

    Under `torch.jit.trace` all modules are called: it compares a graph with gradients and one without.
    """
    if not FAST or torch.is_grad_enabled() or is_hooked(network) or torch.jit.is_tracing() or is_compiled():
        return cast(Tensor, network(x))
    for layer in network if type(network) is nn.Sequential else (network,):
        kind = type(layer)
        if is_hooked(layer):
            x = layer(x)
        elif kind is nn.Linear:
            weights = parameters_of(layer)
            x = F.linear(x, cast(Tensor, weights["weight"]), weights["bias"])
        elif kind in FORWARD:
            x = FORWARD[kind](x)
        else:
            x = layer(x)
    return x


def fast_mlp(network: nn.Module, x: Tensor) -> Tensor:
    """Return `network(x)`; with gradients, plain layers are one node of the graph.

    :param x: [batch, features]
    """
    if not FAST or not torch.is_grad_enabled() or x.requires_grad or torch.jit.is_tracing() or is_compiled():
        return fast_forward(network, x)
    if has_hooks(network):
        return cast(Tensor, network(x))
    kinds: list[type[nn.Module]] = []
    parameters: list[nn.Parameter | None] = []
    for layer in network if type(network) is nn.Sequential else (network,):
        kind = type(layer)
        if has_hooks(layer) or (kind is not nn.Linear and kind not in FORWARD):
            return cast(Tensor, network(x))
        kinds.append(kind)
        if kind is nn.Linear:
            weights = parameters_of(layer)
            parameters += (weights["weight"], weights["bias"])
    return cast(Tensor, _apply(kinds, x, *parameters))


class MLPFunction(torch.autograd.Function):
    """Linear layers and activations as one operation, with the derivative in closed form."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, kinds: Sequence[type[nn.Module]], x: Tensor, *parameters: Tensor | None
    ) -> Tensor:
        values, k = [x], 0
        for kind in kinds:
            if kind is nn.Linear:
                x = F.linear(x, cast(Tensor, parameters[k]), parameters[k + 1])
                k += 2
            else:
                x = FORWARD[kind](x)
            values.append(x)
        ctx.kinds = kinds
        ctx.save_for_backward(*values, *parameters)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        if torch.is_grad_enabled():  # create_graph=True: a derivative that can be differentiated again
            return _stock_backward(ctx, gradient)
        n_values = len(ctx.kinds) + 1
        gradients: list[Tensor | None] = [None] * (len(ctx.saved_tensors) - n_values)

        def store(k: int, gradient: Tensor, x: Tensor) -> None:
            weight, bias = 2 + k, 3 + k
            if ctx.needs_input_grad[weight]:
                gradients[k] = gradient.t() @ x
            if ctx.needs_input_grad[bias]:
                gradients[k + 1] = gradient.sum(0)

        of_input = _propagate(ctx, gradient, store, ctx.needs_input_grad[1])
        return None, of_input, *gradients


_apply: Callable[..., object] = super(torch.autograd.Function, MLPFunction).apply  # type: ignore[misc]
"""`MLPFunction.apply` without the support of torch.func, which takes a tenth of a small network's time."""


def _propagate(
    node: Any, gradient: Tensor, store: Callable[[int, Tensor, Tensor], None], to_input: bool = False
) -> Tensor | None:
    """Carry a gradient back through the layers of an `MLPFunction`.

    :param store: called for each linear layer with the index of its weight among the parameters, the
        gradient of its output and its input
    :return: the gradient of the network's input where `to_input`, else None
    """
    kinds, saved = node.kinds, node.saved_tensors
    first = k = len(kinds) + 1
    k = len(saved)
    for i in range(len(kinds) - 1, -1, -1):
        if kinds[i] is not nn.Linear:
            gradient = BACKWARD[kinds[i]](gradient, saved[i + 1])
            continue
        k -= 2
        store(k - first, gradient, saved[i])
        if i > 0 or to_input:
            gradient = gradient @ saved[k]
    return gradient if to_input else None


def _stock_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    """Compute the gradients of an `MLPFunction` with autograd, as differentiable tensors."""
    n_values = len(ctx.kinds) + 1
    x: Tensor = ctx.saved_tensors[0]
    parameters: tuple[Tensor, ...] = ctx.saved_tensors[n_values:]
    inputs = (x, *parameters)
    output, k = x, 0
    for kind in ctx.kinds:
        if kind is nn.Linear:
            output = F.linear(output, parameters[k], parameters[k + 1])
            k += 2
        else:
            output = FORWARD[kind](output)
    wanted = [i for i, needed in enumerate(ctx.needs_input_grad[1:]) if needed]
    found = torch.autograd.grad(output, [inputs[i] for i in wanted], gradient, create_graph=True)
    gradients: list[Tensor | None] = [None] * len(inputs)
    for i, value in zip(wanted, found, strict=True):
        gradients[i] = value
    return None, *gradients


def fast_backward(loss: Tensor, parameters: Sequence[nn.Parameter]) -> bool:
    """Write the gradients of a scalar loss into the `.grad` of parameters, overwriting what is there.

    :param parameters: with a `.grad` each
    :return: False, with nothing written, where the loss is not a chain of `CHAIN` from a network with just
        these parameters
    """
    if not FAST or (found := _chain(loss)) is None:
        return False
    chain, network = found
    saved = network.saved_tensors
    layer_parameters = saved[len(network.kinds) + 1 :]  # None for a bias that a layer lacks
    learned = [parameter for parameter in layer_parameters if parameter is not None]
    if len(learned) != len(parameters) or not all(
        p is q and p._backward_hooks is None for p, q in zip(learned, parameters, strict=True)
    ):
        return False

    def store(k: int, gradient: Tensor, x: Tensor) -> None:
        torch.mm(gradient.t(), x, out=layer_parameters[k].grad)
        if layer_parameters[k + 1] is not None:
            torch.sum(gradient, 0, out=layer_parameters[k + 1].grad)

    with torch.no_grad():
        gradient: Any = (
            ONE if loss.device.type == "cpu" and loss.dtype is torch.float32 else torch.ones_like(loss)
        )
        for node, index in chain:
            gradient = getattr(node, "apply", node)(gradient)
            if isinstance(gradient, tuple):
                gradient = gradient[index]
        _propagate(network, gradient, store)
    return True


def _chain(loss: Tensor) -> tuple[list[tuple[Any, int]], Any] | None:
    """Return the operations from a network to a loss, and the network; None where there is no such chain.

    Each operation comes with the index of the input that the gradient is passed to, the last one first.
    """
    chain: list[tuple[Any, int]] = []
    node: Any = loss.grad_fn
    while node is not None:
        name = type(node).__name__
        if name == "MLPFunctionBackward":
            return chain, node
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


def parameters_of(layer: nn.Module) -> dict[str, nn.Parameter | None]:
    """Return the parameters by name; as attributes of the module they take several times as long to find."""
    return layer._parameters


def has_hooks(module: nn.Module) -> bool:
    """Return whether calling the module, or its backward pass, does more than its `forward`."""
    return bool(module._backward_hooks or module._backward_pre_hooks) or is_hooked(module)


def is_hooked(module: nn.Module) -> bool:
    """Return whether calling the module without gradients does more than its `forward`."""
    return bool(module._forward_hooks or module._forward_pre_hooks)

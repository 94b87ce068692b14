"""One autograd node for the small networks of actor and critic.

On networks of 64 units the bookkeeping of autograd (a node per layer and per parameter) costs more than the
matrix products. A chain of linear layers with tanh or ReLU between them is therefore evaluated by a single
`autograd.Function`, whose backward pass is written out below and adds into the `.grad` of the parameters
itself.

It gives the gradients of the modules to rounding, for `loss.backward()` only: not for `torch.autograd.grad`
towards the parameters, nor for a second derivative (see `ActorCriticPolicy.exact_graph`). Anything but such
a chain (other activations, hooks, layers without bias) is left to the modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Activation(NamedTuple):
    """An elementwise function whose derivative can be told from its output."""

    in_place: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], Tensor]  # (gradient of the output, output) -> gradient of the input


ACTIVATIONS: dict[type[nn.Module], Activation] = {
    nn.Tanh: Activation(torch.tanh_, torch.ops.aten.tanh_backward.default),
    nn.ReLU: Activation(
        torch.relu_, lambda grad, out: torch.ops.aten.threshold_backward.default(grad, out, 0.0)
    ),
}


class Layer(NamedTuple):
    """A linear layer and the activation behind it, if any."""

    weight: nn.Parameter  # [n_out, n_in]
    bias: nn.Parameter  # [n_out]
    activation: Activation | None


Chain = list[Layer]


def linear_chain(*modules: nn.Module) -> Chain | None:
    """The modules, one after the other, as a chain of layers; None when they are more than that.

    Cheap enough (3 us) to ask on every call, so that a module exchanged, hooked or wrapped since is always
    seen.
    """
    chain: Chain = []
    for module in modules:
        if type(module) is nn.Sequential and not is_hooked(module):
            parts: Iterable[nn.Module | None] = module._modules.values()
        else:
            parts = (module,)
        for part in parts:
            if not _extend(chain, part):
                return None
    return chain or None


def is_hooked(module: nn.Module) -> bool:
    """Whether calling the module does more than its `forward`."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def _extend(chain: Chain, module: nn.Module | None) -> bool:
    """Add a linear layer or the activation behind one; False for anything else."""
    if module is None or is_hooked(module):
        return False
    if type(module) is nn.Linear:
        weight, bias = module._parameters.get("weight"), module._parameters.get("bias")
        if weight is None or bias is None:
            return False
        chain.append(Layer(weight, bias, None))
        return True
    if type(module) in ACTIVATIONS and chain and chain[-1].activation is None:
        chain[-1] = Layer(chain[-1].weight, chain[-1].bias, ACTIVATIONS[type(module)])
        return True
    return False


def forward_chain(x: Tensor, chain: Chain) -> Tensor:
    """[B, n_in] -> [B, n_out], without a graph: call it where gradients are off."""
    for weight, bias, activation in chain:
        x = F.linear(x, weight, bias)
        if activation is not None:
            activation.in_place(x)
    return x


def adds_gradients(*chains: Chain) -> bool:
    """Whether every parameter has a `.grad` to add to, and nothing that has to see its gradient pass."""
    for chain in chains:
        for layer in chain:
            for p in (layer.weight, layer.bias):
                if p.grad is None or not p.requires_grad or p._backward_hooks:
                    return False
    return True


def forward_chains(inputs: tuple[Tensor, ...], chains: tuple[Chain, ...]) -> tuple[Tensor, ...]:
    """The output of each chain for its input, as one node of the graph.

    The inputs are constants: no gradient goes to them. Ask `adds_gradients` first.
    """
    return _Chains.apply(_ANCHOR, inputs, chains)  # type: ignore[no-any-return]


# autograd runs a backward pass only towards an input that wants a gradient; this one never receives any
_ANCHOR = torch.zeros((), requires_grad=True)


class _Chains(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, inputs: tuple[Tensor, ...], chains: tuple[Chain, ...]
    ) -> tuple[Tensor, ...]:
        saved: list[Tensor] = []  # per chain: the input and then the output of each layer
        outputs: list[Tensor] = []
        for x, chain in zip(inputs, chains, strict=True):
            saved.append(x)
            for layer in chain:
                x = forward_chain(x, [layer])
                saved.append(x)
            outputs.append(x)
        ctx.chains = chains
        ctx.save_for_backward(*saved)
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[None, None, None]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "the fused networks have no second derivative: call policy.exact_graph(True) before"
            )
        saved = ctx.saved_tensors
        with torch.inference_mode():  # nothing made here outlives the call: spare the version counters
            for grad, chain in zip(grads, ctx.chains, strict=True):
                activations, saved = saved[: len(chain) + 1], saved[len(chain) + 1 :]
                if grad is not None:
                    _add_gradients(grad, chain, activations)
        return None, None, None


def _add_gradients(grad: Tensor, chain: Chain, activations: tuple[Tensor, ...]) -> None:
    """Backward through one chain. `activations`: its input and the output of each layer; `grad`: of the
    last one.
    """
    for i in reversed(range(len(chain))):
        weight, bias, activation = chain[i]
        if activation is not None:
            grad = activation.backward(grad, activations[i + 1])
        bias.grad.add_(grad.sum(dim=0))  # type: ignore[union-attr]
        weight.grad.addmm_(grad.t(), activations[i])  # type: ignore[union-attr]
        if i:
            grad = grad.mm(weight)

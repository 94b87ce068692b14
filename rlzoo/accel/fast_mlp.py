"""Multi-layer perceptrons of linear, tanh and ReLU layers without the overhead of modules and of autograd.

On networks of 64 units and a few rows, calling modules costs about as much as their arithmetic, and a
backward pass spends more time in autograd's engine than in matrix products.

    acting_mode     inference mode for the policy during training, where nothing may need gradients later
    fast_forward    the arithmetic of the layers, without calling the modules
    Tape            for gradients: keeps what `fast_forward` computes, and passes gradients back through it
    KnownGradients  a loss given by its gradients with respect to outputs of networks

Layers of other kinds, hooks of a module, a parameter or an output, and `torch.jit.trace` fall back to
PyTorch, as everything does with `RLZOO_PLAIN=1`.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch._C import _len_torch_dispatch_stack as n_dispatch_modes
from torch._C._functorch import peek_interpreter_stack as current_transform
from torch.nn import functional as F
from torch.nn.modules.module import _global_backward_hooks as backward_hooks
from torch.nn.modules.module import _global_backward_pre_hooks as backward_pre_hooks
from torch.nn.modules.module import _global_forward_hooks as forward_hooks
from torch.nn.modules.module import _global_forward_pre_hooks as forward_pre_hooks

from rlzoo.accel import matmul_precision as precision
from rlzoo.accel.switch import enabled
from rlzoo.core.returns import Floats, PolicyLoss

is_compiled = torch.compiler.is_dynamo_compiling
"""Whether `torch.compile` follows the code at present: it needs the plain modules."""
is_traced = torch._C._is_tracing
"""`torch.jit.is_tracing`, which makes two more calls: every network asks at every evaluation."""
FAST = enabled("fast_mlp")

FORWARD_HOOKS = (forward_hooks, forward_pre_hooks)
BACKWARD_HOOKS = (backward_hooks, backward_pre_hooks)
"""Hooks for all modules, of `torch.nn.modules.module.register_module_forward_hook` and the like."""

LARGEST_IN_NUMPY = 2**17
"""Numbers in a matrix up to which `tanh_` uses NumPy, which computes on one thread."""


def tanh(x: Tensor) -> Tensor:
    """Return the tanh of `x`, which has the bits of `tanh_`."""
    return tanh_(x.clone())


def tanh_(x: Tensor) -> Tensor:
    """Replace `x` by its tanh, exact to 2 units in the last place, and return it.

    NumPy's vectorised function takes 7 us for 256 x 64 numbers on an AMD EPYC, where PyTorch's, that of the
    Math Kernel Library, takes 50 to 60 us: a sixth of a training of PPO with networks of 64 units.

    :param x: [..., rows, columns] without gradients. NumPy is used for float32 on the CPU, where nothing
        follows PyTorch's operations: a dispatch mode, or a transform of torch.func such as `vmap`
    """
    if x.is_cpu and x.dtype is torch.float32 and math.prod(x.shape[-2:]) <= LARGEST_IN_NUMPY:
        if not n_dispatch_modes() and current_transform() is None:
            array = x.numpy()
            np.tanh(array, out=array)
            return x
    return torch.tanh_(x)


FORWARD: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {nn.Tanh: tanh, nn.ReLU: torch.relu}
"""Output of an activation from its input."""

IN_PLACE: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {nn.Tanh: tanh_, nn.ReLU: torch.relu_}
"""The same, in the memory of the input, so that what follows finds more of its data in the cache.

For an input that nobody else holds and no derivative needs: the output of a linear layer.
"""

BACKWARD: dict[type[nn.Module], Callable[[Tensor, Tensor], Tensor]] = {
    nn.Tanh: torch.ops.aten.tanh_backward.default,
    nn.ReLU: lambda gradient, output: torch.ops.aten.threshold_backward.default(gradient, output, 0),
}
"""Gradient of an activation's input from that of its output, and its output."""

KNOWN = frozenset(
    {
        "AminBackward0",
        "GatherBackward0",
        "MeanBackward0",
        "MeanBackward1",
        "MulBackward0",
        "PowBackward0",
        "QuantileHuberBackward",
        "SelectBackward0",
        "SmoothL1LossBackward0",
        "SqueezeBackward1",
        "SubBackward0",
        "SumBackward1",
        "ViewBackward0",
    }
)
"""Operations between a network and a loss that `leaf_gradients` knows how to call."""


def acting_mode(model: Any, callback: Any) -> Callable[[], AbstractContextManager[object]]:
    """Return what makes the context in which an algorithm acts: `torch.inference_mode` or `torch.no_grad`.

    Inference mode spares each operation the records for later gradients: 3% of a training of MaskablePPO
    in one environment, 2% of TRPO, 1% or less of five others. Its tensors cannot take part in a loss, in
    which custom code, hooks and callbacks may use what the policy has computed, as state-dependent noise
    (gSDE) does. With any of these, on a GPU, and with environments of tensors, it is `torch.no_grad`.
    """
    on_cpu = model.device.type == "cpu" and getattr(model, "tensor_actions", None) is None
    uses_noise = getattr(model.config, "use_sde", False)
    custom = uses_noise or "act" in vars(model) or holds_custom_code(model) or is_custom_callback(callback)
    return torch.inference_mode if FAST and on_cpu and not custom else torch.no_grad


def holds_custom_code(model: Any) -> bool:
    """Return whether the algorithm, its distribution or modules of its policy are custom, or have hooks."""
    policy = model.policy
    modules = list(policy.modules())
    parts = (model, getattr(policy, "action_dist", policy), *modules)
    is_ours = all(type(part).__module__.startswith(("rlzoo.", "torch.nn.")) for part in parts)
    return not is_ours or any(map(has_hooks, modules))


def is_custom_callback(callback: Any) -> bool:
    """Return whether a callback, one inside of it, or a function that one calls, is not of this package."""
    parts = (callback, getattr(callback, "callback", None))
    is_ours = all(part is None or str(part.__module__).startswith("rlzoo.") for part in parts)
    return not is_ours or any(map(is_custom_callback, callback.child_callbacks()))


NARROW = 8
"""Input features up to which the gradient of a weight is computed transposed."""


_Layer: TypeAlias = "tuple[type[nn.Module], nn.Parameter | None, nn.Parameter | None]"
"""Class of a layer, and weight and bias of a linear one."""


class Terms(Protocol):
    """Log-probabilities of actions and entropies of a distribution, with a method for their gradients."""

    @property
    def outputs(self) -> tuple[Floats, Floats]:
        """Log-probabilities of actions, and entropies."""

    def gradients(self, grad_log_prob: Floats | None, grad_entropy: Floats | None) -> Sequence[Floats]:
        """Return the gradients of the distribution's parameters from those of `outputs`."""


def as_array(gradient: Tensor | None) -> Floats | None:
    """Return a gradient as an array, if there is one."""
    return None if gradient is None else gradient.numpy()


class _Recording(threading.local):
    tape: Tape | None = None


_recording = _Recording()


def recording_tape() -> Tape | None:
    """Return the tape that is recording: what is computed now is for `NetworkOptimizer.step` alone."""
    return _recording.tape


def fast_forward(network: nn.Module, x: Tensor) -> Tensor:
    """Return `network(x)`; plain layers are evaluated without calling the modules.

    With gradients, only while a `Tape` is recording; otherwise the modules are called. They are, too, under
    `torch.jit.trace`, which compares a graph with gradients and one without.
    """
    with_gradients = torch.is_grad_enabled()
    tape = _recording.tape if with_gradients else None
    if not FAST or (with_gradients and (tape is None or not tape.may_record(x))):
        return call(network, x)
    if is_compiled() or is_hooked(network) or is_traced():  # the compiler cannot follow `is_traced`
        return call(network, x)
    if tape is not None:
        return tape.evaluate(network, x)
    is_ours = False
    for layer in layers_of(network):
        kind, own = type(layer), layer.__dict__
        if own["_forward_hooks"] or own["_forward_pre_hooks"] or "forward" in own:  # is_hooked, at less cost
            x, is_ours = layer(x), False
        elif kind is nn.Linear:
            weights = own["_parameters"]
            x, is_ours = F.linear(x, weights["weight"], weights["bias"]), True
        elif kind in FORWARD:
            x = (IN_PLACE if is_ours else FORWARD)[kind](x)
        else:
            x, is_ours = layer(x), False
    return x


def call(network: nn.Module, x: Tensor) -> Tensor:
    """Return `network(x)` by its modules, with gradients as `--matmul-precision` has them."""
    if not precision.gradients_in_bfloat16 or has_hooks(network):
        return network(x)  # type: ignore[no-any-return]
    for layer in layers_of(network):
        if type(layer) is nn.Linear and not has_hooks(layer):
            x = precision.linear(x, layer.weight, layer.bias)
        else:
            x = layer(x)
    return x


class Tape:
    """The networks and action distributions that a loss depends on: a tape of reverse-mode differentiation
    (Griewank and Walther 2008, chapter 3) whose entries are whole networks, with the values of their layers.

    To autograd the output of a recorded network is a leaf, as a parameter is. `backward` lets autograd
    compute its gradient, if the loss does not know it (`KnownGradients`), and passes that on through the
    distribution and the layers to the parameters. Nothing else may ask for gradients of what was computed
    while a tape was recording: `loss.backward()` would stop at the networks.

    Example:
        >>> tape, network, x = Tape(), nn.Linear(4, 2), torch.randn(8, 4)
        >>> for parameter in network.parameters():
        ...     parameter.grad = torch.zeros_like(parameter)
        >>> with tape:
        ...     loss = fast_forward(network, x).square().mean()
        >>> tape.backward(loss)
    """

    def __init__(self) -> None:
        self.networks: list[tuple[list[_Layer], list[Tensor]]] = []
        """Layers of each network, and the input and output of each; a linear layer's output is overwritten by
        the activation behind it."""
        self.terms: list[tuple[Sequence[Tensor], Terms, tuple[Tensor, Tensor]]] = []
        """Parameters of action distributions, what was computed from them, and that as tensors."""

    def __enter__(self) -> None:
        self.networks.clear()
        self.terms.clear()
        _recording.tape = self

    def __exit__(self, *_: object) -> None:
        _recording.tape = None

    def may_record(self, x: Tensor) -> bool:
        """Return False if no network with this input can be recorded: an LSTM or a CNN, say, computes it."""
        return bool(self.networks) or not x.requires_grad

    def evaluate(self, network: nn.Module, x: Tensor) -> Tensor:
        """Return `network(x)`; record it where its layers are plain, and its input needs no gradient or is
        the output of another recorded network.

        :param x: [batch, features]
        """
        layers = self._layers_to_record(network, x)
        if layers is None:
            return call(network, x)
        values = [x]
        with torch.no_grad():
            before: type[nn.Module] | None = None
            for kind, weight, bias in layers:
                if weight is not None:
                    x = F.linear(x, weight, bias)
                else:
                    x = (IN_PLACE if before is nn.Linear else FORWARD)[kind](x)
                values.append(x)
                before = kind
        self.networks.append((layers, values))
        return x.requires_grad_()

    def add_terms(self, params: Sequence[Tensor], terms: Terms) -> tuple[Tensor, Tensor]:
        """Record what was computed from the parameters of a distribution; return it as tensors.

        :param params: leaves: outputs of recorded networks, or learned parameters
        """
        log_prob, entropy = map(torch.from_numpy, terms.outputs)
        if any(param.requires_grad for param in params):
            self.terms.append((params, terms, (log_prob.requires_grad_(), entropy.requires_grad_())))
        return log_prob, entropy

    def _layers_to_record(self, network: nn.Module, x: Tensor) -> list[_Layer] | None:
        """Return the layers of a network that the tape can pass gradients through, else None."""
        learns = x.requires_grad
        if x.dim() != 2 or has_hooks(network):
            return None
        if learns and (has_tensor_hooks(x) or not any(x is values[-1] for _, values in self.networks)):
            return None
        layers: list[_Layer] = []
        for layer in layers_of(network):
            kind, weight, bias = type(layer), None, None
            if has_hooks(layer):
                return None
            if kind is nn.Linear:
                weights = layer.__dict__["_parameters"]
                weight, bias = weights["weight"], weights["bias"]
                for parameter in (weight, bias):
                    if parameter is not None and parameter.requires_grad:
                        if parameter.grad is None or has_tensor_hooks(parameter):
                            return None
                        learns = True
            elif kind not in FORWARD:
                return None
            layers.append((kind, weight, bias))
        return layers if learns and layers else None

    def backward(self, loss: Loss) -> None:
        """Add the gradients of a loss to the `.grad` of the parameters, and empty the tape."""
        loss.backward()
        with torch.no_grad():
            for params, terms, (log_prob, entropy) in self.terms:
                grad_params = terms.gradients(as_array(log_prob.grad), as_array(entropy.grad))
                KnownGradients(params, list(map(torch.from_numpy, grad_params))).backward()
            for layers, values in reversed(self.networks):
                if values[-1].grad is not None:
                    _propagate(layers, values, values[-1].grad)
        self.networks.clear()
        self.terms.clear()

    def overwrite(self, loss: Loss, parameters: Sequence[nn.Parameter]) -> bool:
        """Set the `.grad` of parameters to the gradients of a loss, and empty the tape; or return False.

        It is possible where the parameters are those of the only network, and a chain of known operations
        leads from that to the loss. Then gradients need not be set to zero before, nor does it take
        autograd's engine, whose start costs more than these operations.
        """
        if len(self.networks) != 1 or not isinstance(loss, Tensor):
            return False
        if has_tensor_hooks(output := self.networks[0][1][-1]):
            return False
        ((layers, values),) = self.networks
        ours = [parameter for _, *pair in layers for parameter in pair if parameter is not None]
        if len(ours) != len(parameters) or not all(map(operator.is_, ours, parameters)):
            return False
        if not all(parameter.requires_grad for parameter in ours):
            return False
        found = leaf_gradients(loss)
        if found is None or len(found) != 1 or found[0][0] is not output:
            return False
        with torch.no_grad():
            _propagate(layers, values, found[0][1], overwrite=True)
        self.networks.clear()
        return True


def leaf_gradients(loss: Tensor) -> list[tuple[Tensor, Tensor]] | None:
    """Return each leaf that a loss depends on, and the gradient of the loss with respect to it.

    It is for losses of few operations on small tensors: these take less time than the start of autograd's
    engine. A leaf to which n paths lead is listed n times; its gradient is the sum.

    :return: None where an operation is not in `KNOWN`; then the graph is as before
    """
    found: list[tuple[Tensor, Tensor]] = []
    pending: list[tuple[Any, Any]] = [(loss.grad_fn, torch.ones_like(loss))]
    with torch.no_grad():
        while pending:
            node, gradient = pending.pop()
            name = type(node).__name__
            if name == "AccumulateGrad":
                found.append((node.variable, gradient))
                continue
            if name not in KNOWN:
                return None
            gradients = getattr(node, "apply", node)(gradient)
            if not isinstance(gradients, tuple):
                gradients = (gradients,)
            for (before, _), grad_input in zip(node.next_functions, gradients, strict=False):
                if before is not None:
                    pending.append((before, grad_input))
    return found


def _propagate(layers: list[_Layer], values: list[Tensor], gradient: Tensor, overwrite: bool = False) -> None:
    """Carry the gradient of an output back to the parameters of the layers, and to an input that needs it.

    :param overwrite: put the gradients of the parameters in place of what their `.grad` holds
    """
    x = values[0]
    for i in range(len(layers) - 1, -1, -1):
        kind, weight, bias = layers[i]
        if weight is None:
            gradient = BACKWARD[kind](gradient, values[i + 1])
            continue
        rounded = precision.gradients_in_bfloat16 and precision.is_rounded(gradient, weight)
        factor = gradient.bfloat16() if rounded else gradient
        if weight.requires_grad:
            _take_product(weight.grad, factor, values[i], overwrite, rounded)  # type: ignore[arg-type]
        if bias is not None and bias.requires_grad:
            if overwrite:
                torch.sum(gradient, 0, out=bias.grad)
            else:
                bias.grad.add_(gradient.sum(0))  # type: ignore[union-attr]
        if i > 0 or x.requires_grad:
            gradient = precision.rounded_product(factor, weight) if rounded else gradient @ weight
    if x.requires_grad:
        x.grad = gradient if x.grad is None else x.grad + gradient


def _take_product(total: Tensor, gradient: Tensor, x: Tensor, overwrite: bool, rounded: bool) -> None:
    """Add the gradient of a weight, gradient^T x, to `total`, or put it there.

    For a few input features x^T gradient takes 0.4 (256 rows) to 1.1 times (40 rows) as long as gradient^T x.
    """
    if rounded or x.shape[1] <= NARROW:
        product = precision.rounded_product(gradient.t(), x) if rounded else (x.t() @ gradient).t()
        total.copy_(product) if overwrite else total.add_(product)
    elif overwrite:
        torch.mm(gradient.t(), x, out=total)
    else:
        total.addmm_(gradient.t(), x)


class KnownGradients:
    """A loss for `NetworkOptimizer.step`, given by its gradients with respect to outputs of networks.

    For the loss of PPO autograd records some ten operations on a minibatch, and goes back through them.
    NumPy computes the loss and these gradients in less time than that record takes.

    Example:
        >>> network, x = nn.Linear(4, 2), torch.randn(8, 4)
        >>> y = network(x)
        >>> KnownGradients([y], [2 * y.detach() / y.numel()]).backward()  # as y.square().mean().backward()
    """

    def __init__(self, outputs: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """
        :param outputs: those that need no gradients are left out, unless all are
        :param gradients: in the shape of the outputs
        """
        pairs = list(zip(outputs, gradients, strict=True))
        pairs = [pair for pair in pairs if pair[0].requires_grad] or pairs
        self.outputs, self.gradients = [output for output, _ in pairs], [gradient for _, gradient in pairs]

    def backward(self, inputs: Sequence[Tensor] | None = None) -> None:
        """Add the gradients to the `.grad` of parameters, as `Tensor.backward` does.

        :param inputs: only those; None: all that the outputs depend on
        :raises RuntimeError: no output depends on a parameter that needs gradients
        """
        if inputs is None and all(map(_is_plain_leaf, self.outputs)):  # spares the start of autograd's engine
            for leaf, gradient in zip(self.outputs, self.gradients, strict=True):
                if leaf.grad is None:
                    leaf.grad = gradient.clone()
                else:
                    leaf.grad.add_(gradient)
        else:
            torch.autograd.backward(self.outputs, self.gradients, inputs=inputs)

    def grad(self, inputs: Sequence[Tensor], allow_unused: bool = False) -> tuple[Tensor, ...]:
        """Return the gradients with respect to `inputs`, as `torch.autograd.grad` does."""
        return torch.autograd.grad(self.outputs, inputs, self.gradients, allow_unused=allow_unused)


def _is_plain_leaf(tensor: Tensor) -> bool:
    """Return whether the gradient of a tensor is only added to its `.grad`."""
    return tensor.is_leaf and tensor.requires_grad and not has_tensor_hooks(tensor)


Loss: TypeAlias = Tensor | KnownGradients
"""A scalar tensor, or the gradients of one."""


def takes_arrays(output: Tensor, entropy: Tensor | None = None) -> bool:
    """Return whether NumPy may compute with an output of a network, or of `evaluate_actions`.

    It is float32 on the CPU, and no compiler, dispatch mode, trace or transform of torch.func records
    PyTorch's operations.

    :param entropy: of a policy; its shape must be that of `output`, log-probabilities
    """
    is_plain = output.is_cpu and output.dtype is torch.float32 and not is_compiled()
    if not FAST or not is_plain or n_dispatch_modes() or current_transform() is not None or is_traced():
        return False
    return entropy is None or entropy.shape == output.shape


@np.errstate(all="ignore")
def actor_critic_loss(
    values: Tensor,
    log_probs: Tensor,
    entropy: Tensor | None,
    returns: Tensor,
    policy: PolicyLoss,
    config: Any,
) -> tuple[KnownGradients, dict[str, Tensor | float]]:
    """Compute policy.loss + vf_coef mean (V - R)^2 - ent_coef mean H, with its gradients.

    All tensors are [n_rows], or [n_seeds, n_rows] of several agents.

    :param values: V; may have a last axis of one column
    :param log_probs: of the actions
    :param entropy: H; None: it is estimated by -log_probs
    :param returns: R
    :param policy: the loss of the policy
    :param config: with `vf_coef` and `ent_coef`
    :return: the loss; metrics, [n_seeds] each of several agents
    """
    n_rows = returns.shape[-1]
    error = values.detach().view_as(returns).numpy() - returns.numpy()
    value_loss = (error * error).sum(-1) / n_rows
    entropies = -log_probs if entropy is None else entropy
    entropy_loss = entropies.detach().numpy().sum(-1) / -n_rows
    by_values = torch.from_numpy(error * np.float32(2 * config.vf_coef / n_rows)).view_as(values)
    outputs, gradients = [values, log_probs], [by_values, torch.from_numpy(policy.derivative)]
    if config.ent_coef != 0:
        outputs.append(entropies)
        gradients.append(torch.full_like(entropies, -config.ent_coef / n_rows))
    metrics = {
        "loss": policy.loss + config.vf_coef * value_loss + config.ent_coef * entropy_loss,
        policy.name: policy.loss,
        "value_loss": value_loss,
        "entropy_loss": entropy_loss,
        **policy.metrics,
    }
    return KnownGradients(outputs, gradients), {
        name: torch.from_numpy(value) if value.ndim else float(value) for name, value in metrics.items()
    }


# A step of a small network asks for layers, parameters and hooks some twenty times, and each call counts:
# what `module.__dict__` holds takes a fraction of the time of attributes, iterators and `vars(module)`.


def layers_of(network: nn.Module) -> Iterable[nn.Module]:
    """Return the layers of an nn.Sequential; another module is a layer itself."""
    if type(network) is not nn.Sequential:
        return (network,)
    layers: dict[str, nn.Module] = network.__dict__["_modules"]
    return layers.values()


def has_hooks(module: nn.Module) -> bool:
    """Return whether calling the module, or its backward pass, does more than its `forward`."""
    own = module.__dict__
    on_backward = own["_backward_hooks"] or own["_backward_pre_hooks"] or any(BACKWARD_HOOKS)
    return bool(on_backward) or is_hooked(module)


def is_hooked(module: nn.Module) -> bool:
    """Return whether calling the module without gradients does other things than its class's `forward`."""
    own = module.__dict__
    return bool(own["_forward_hooks"] or own["_forward_pre_hooks"] or any(FORWARD_HOOKS)) or "forward" in own


def has_own_forward(module: nn.Module) -> bool:
    """Return whether `forward` of a module is not of this package, or hooked: it must be called."""
    return is_hooked(module) or not type(module).forward.__module__.startswith("rlzoo.")


def has_tensor_hooks(tensor: Tensor) -> bool:
    """Return whether somebody wants to see or change the gradient of a tensor."""
    return bool(tensor._backward_hooks or tensor._post_accumulate_grad_hooks)

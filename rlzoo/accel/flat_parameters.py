"""All parameters of a module in one vector, and all gradients in another.

A small network spends more time on the bookkeeping of a dozen small tensors than on arithmetic. When the
parameters are views into one vector, an optimiser step, a gradient norm or a Polyak update is one operation
on it. `parameter_group` makes such a `FlatParameters`, or with `RLZOO_PLAIN=1` a `ParameterGroup`, which
leaves PyTorch's layout as it is.

Its optimisers are PyTorch's without two costs:

- Making one of `torch.optim`, and its first step, import `torch._dynamo`: 1.6 s and 70 MB, to tell the
  compiler to keep out. Nothing is compiled here, so the undecorated methods do the same (`without_dynamo`).
- On one small vector most of a step is bookkeeping for many tensors of any kind. A step of `Adam` or
  `RMSprop` below is its arithmetic. State, options and numbers are PyTorch's; for options beyond the plain
  method (weight decay, momentum, ...) PyTorch's own step is taken.
"""

from __future__ import annotations

import copyreg
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rlzoo.accel.fast_mlp import Loss, Tape
from rlzoo.accel.foreach import fused_adam_
from rlzoo.accel.switch import enabled
from rlzoo.core.errors import UserError

FAST = enabled("flat_parameters")
ELEMENTWISE_OPTIMIZERS: tuple[type[torch.optim.Optimizer], ...] = (
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.RMSprop,
    torch.optim.SGD,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.Adagrad,
    torch.optim.Adamax,
)
"""Optimisers that treat every number by itself, so that one vector gives the same steps as its pieces.

An optimiser class may also say so with a class attribute `elementwise = True`.
"""


class ParameterGroup:
    """Trainable parameters of a module as separate tensors, as in PyTorch.

    :param parameters: those without `requires_grad` are left out
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self.made: torch.optim.Optimizer | None = None  # the last optimiser of `optimizer`

    def gather(self) -> None:
        """Take over parameters whose memory was replaced (`parameter.data = values`), where there is one."""

    def reattach_gradients(self) -> None:
        """Let each parameter have its gradient again, as a part of a vector where there is one."""

    @property
    def frozen(self) -> list[nn.Parameter]:
        """Parameters that were frozen after the group was made: by `parameter.requires_grad_(False)`."""
        return [parameter for parameter in self.parameters if not parameter.requires_grad]

    @property
    def vector(self) -> Tensor:
        """All parameters as one vector; here a copy."""
        return torch.cat([parameter.detach().reshape(-1) for parameter in self.parameters])

    @torch.no_grad()
    def assign(self, vector: Tensor) -> None:
        """Set all parameters from one vector."""
        values = vector.split([parameter.numel() for parameter in self.parameters])
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.copy_(value.view_as(parameter))

    def optimizer(
        self, optimizer_class: type[torch.optim.Optimizer], lr: float, **kwargs: object
    ) -> torch.optim.Optimizer:
        """Return an optimiser of these parameters."""
        self.made = without_dynamo(optimizer_class)(self.parameters, lr=lr, **kwargs)
        return self.made

    def zero_grad(self) -> None:
        """Set every gradient to zero."""
        for parameter in self.parameters:
            parameter.grad = torch.zeros_like(parameter)  # not None: optimisers step on all parameters

    def recorded(self, owner: object) -> AbstractContextManager[None]:
        """Return a context in which networks may be evaluated for the loss of the next `backward`.

        The loss may go to that `backward` only: `loss.backward()` would stop at the networks. Of several such
        contexts, the last one counts.

        :param owner: the policy; one of the user's own may do with its networks what a `Tape` cannot follow
        """
        return nullcontext()

    def backward(self, loss: Loss, only: bool = False) -> None:
        """Compute the gradient of a scalar loss.

        :param only: no gradients for other parameters that the loss depends on; selecting takes longer
            where there are none
        """
        self.zero_grad()
        self._backward(loss, only)

    def _backward(self, loss: Loss, only: bool) -> None:
        inputs = [parameter for parameter in self.parameters if parameter.requires_grad] if only else None
        if inputs != []:
            loss.backward(inputs=inputs)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Take a step of an optimiser; momentum and weight decay leave frozen parameters as they are."""
        frozen = [(parameter, parameter.clone()) for parameter in self.frozen]
        optimizer.step()
        for parameter, value in frozen:
            parameter.copy_(value)

    def clip_grad_norm(self, max_norm: float) -> Tensor:
        """Scale the gradient so that its Euclidean norm is at most `max_norm`; return the norm before."""
        return nn.utils.clip_grad_norm_(self.parameters, max_norm)


class FlatParameters(ParameterGroup):
    """Trainable parameters of a module, laid out in one vector; the module itself works unchanged.

    :param parameters: of one dtype and device; moving the module to another device afterwards undoes the
        layout
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__(parameters)
        self._tape = Tape()
        self._lay_out(nn.Parameter(flatten(self.parameters)))

    def __setstate__(self, state: dict[str, object]) -> None:
        """Lay out the parameters of a copy in its vector, which the copy of the optimiser steps on."""
        vars(self).update(state)
        self._tape = Tape()
        values = self._vector.detach().split([parameter.numel() for parameter in self.parameters])
        for parameter, value in zip(self.parameters, values, strict=True):
            value.copy_(parameter.detach().reshape(-1))
            parameter.data = value.view(parameter.shape)
        self._lay_out(self._vector)
        if self.made is not None:
            self._attach(self.made)

    def _lay_out(self, vector: nn.Parameter) -> None:
        """Give the vector a gradient, and each parameter its part of it."""
        self._vector = vector
        self._gradient = torch.zeros_like(self._vector)
        self._vector.grad = self._gradient
        gradients = self._gradient.split([parameter.numel() for parameter in self.parameters])
        self.gradients: list[Tensor] = []
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient.view(parameter.shape)
            self.gradients.append(parameter.grad)
        self._places = [parameter.data_ptr() for parameter in self.parameters]

    @property
    def vector(self) -> nn.Parameter:
        """All parameters as one vector, of which each is a view; its gradient likewise."""
        return self._vector

    @torch.no_grad()
    def assign(self, vector: Tensor) -> None:
        """Set all parameters from one vector."""
        self.gather()
        self._vector.copy_(vector)

    def optimizer(
        self, optimizer_class: type[torch.optim.Optimizer], lr: float, **kwargs: object
    ) -> torch.optim.Optimizer:
        """Return an optimiser of the vector; of the single parameters where it uses their shapes.

        Its `zero_grad` is the one of this object, so that gradients stay where the optimiser finds them.
        """
        made: torch.optim.Optimizer
        if self.vector.device.type == "cpu" and optimizer_class in FLAT_OPTIMIZERS:
            made = FLAT_OPTIMIZERS[optimizer_class]([self.vector], lr=lr, **kwargs)
        else:
            if issubclass(optimizer_class, torch.optim.Adam | torch.optim.AdamW):
                kwargs.setdefault("fused", True)
            parameters = [self.vector] if is_elementwise(optimizer_class) else self.parameters
            made = without_dynamo(optimizer_class)(parameters, lr=lr, **kwargs)
        self.made = made
        self._attach(made)
        return made

    def _attach(self, made: torch.optim.Optimizer) -> None:
        """Let an optimiser of the vector leave gradients where they are, and find those of scripts."""
        made.zero_grad = self._zero_grad_of_optimizer  # type: ignore[method-assign]
        made.add_param_group = _no_further_group  # type: ignore[method-assign]
        step = made.step

        def step_on_all(optimizer: Optimizer, closure: Any = None) -> Any:
            self._collect_gradients()
            return step(closure)

        made.step = MethodType(step_on_all, made)  # type: ignore[method-assign]

    def _collect_gradients(self) -> None:
        """Take over gradients that a script has put, or left out, where the vector's belong."""
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            if parameter.grad is not gradient:
                with torch.no_grad():
                    gradient.zero_() if parameter.grad is None else gradient.copy_(parameter.grad)
                parameter.grad = gradient

    def zero_grad(self) -> None:
        """Set every gradient to zero, in place; reattach those that another optimiser set to None.

        :raises RuntimeError: the parameters were moved away, see `gather`
        """
        self.reattach_gradients()
        self._gradient.zero_()

    def recorded(self, owner: object) -> AbstractContextManager[None]:
        """Return the tape that `backward` follows; see `ParameterGroup.recorded`."""
        parts = (owner, getattr(owner, "action_dist", owner))
        is_plain = all(is_own_class(type(part)) for part in parts)  # type: ignore[arg-type]
        # on a GPU, and in its graphs, it is yet to be tested
        on_cpu = self._gradient.is_cpu and not torch.is_autocast_enabled("cpu")
        return self._tape if is_plain and on_cpu else nullcontext()

    def backward(self, loss: Loss, only: bool = False) -> None:
        """Compute the gradient of a scalar loss; see `ParameterGroup.backward`."""
        self.reattach_gradients()
        if not (self._tape.networks and self._tape.overwrite(loss, self.parameters)):
            self._gradient.zero_()
            if self._tape.networks or self._tape.terms:
                self._tape.backward(loss)
            else:
                self._backward(loss, only)
        for parameter in self.frozen:
            parameter.grad.zero_()  # type: ignore[union-attr]

    def gather(self) -> None:
        """Copy parameters whose memory was replaced, as by `parameter.data = values`, into the vector.

        :raises RuntimeError: they were moved to another device or number type, so that steps would be lost
        """
        if [parameter.data_ptr() for parameter in self.parameters] != self._places:
            self._gather_moved()

    @torch.no_grad()
    def _gather_moved(self) -> None:
        values = self._vector.split([parameter.numel() for parameter in self.parameters])
        places = zip(self.parameters, self._places, values, strict=True)
        moved = [(p, p.detach().clone(), value) for p, place, value in places if p.data_ptr() != place]
        for parameter, given, value in moved:
            if parameter.device != value.device or parameter.dtype != value.dtype:
                raise RuntimeError(
                    "the parameters no longer share one vector; move a module before its optimiser is made"
                )
            value.copy_(given.reshape(-1))
            parameter.data = value.view(parameter.shape)

    def reattach_gradients(self) -> None:
        self.gather()
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            if parameter.grad is not gradient:
                parameter.grad = gradient

    def _zero_grad_of_optimizer(self, set_to_none: bool = True) -> None:
        self.zero_grad()

    def clip_grad_norm(self, max_norm: float) -> Tensor:
        """Scale the gradient so that its Euclidean norm is at most `max_norm`; return the norm before."""
        norm = torch.linalg.vector_norm(self._gradient)
        if norm.device.type != "cpu":  # do not wait for the device
            self._gradient.mul_((max_norm / (norm + 1e-6)).clamp_(max=1.0))
        elif (scale := max_norm / (norm.item() + 1e-6)) < 1:
            self._gradient.mul_(scale)
        return norm


def _no_further_group(param_group: dict[str, object]) -> None:
    raise UserError(
        "this optimiser steps on one vector of all parameters, and takes no further group; make one of all"
        " parameters: policy.optimizer = torch.optim.Adam(policy.parameters())"
    )


@functools.lru_cache
def is_own_class(cls: type) -> bool:
    """Return whether a class is one of this package."""
    return cls.__module__.startswith("rlzoo.")


def parameter_group(parameters: Iterable[nn.Parameter]) -> ParameterGroup:
    """Return the parameters as one vector, or with `RLZOO_PLAIN=1` one by one."""
    return (FlatParameters if FAST else ParameterGroup)(parameters)


def fit_layout(state: dict[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return an optimiser's state dict in the layout of `optimizer`: one vector, or a tensor each.

    It differs where an agent is saved with and loaded without `RLZOO_PLAIN`, or the reverse.
    """
    groups = state["param_groups"]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    saved = [index for group in groups for index in group["params"]]
    if len(groups) != 1 or len(parameters) == len(saved) or 1 not in (len(parameters), len(saved)):
        return state
    entries = [state["state"][index] for index in saved if index in state["state"]]
    laid_out: list[dict[str, Any]] = [{} for _ in parameters] if entries else []
    for name, first in entries[0].items() if entries else ():
        if not isinstance(first, Tensor) or first.dim() == 0:
            values = [first.clone() if isinstance(first, Tensor) else first for _ in parameters]
        elif len(parameters) == 1:
            values = [torch.cat([entry[name].reshape(-1) for entry in entries])]
        else:
            pieces = first.split([parameter.numel() for parameter in parameters])
            values = [piece.view_as(p).clone() for piece, p in zip(pieces, parameters, strict=True)]
        for entry, value in zip(laid_out, values, strict=True):
            entry[name] = value
    group = {**groups[0], "params": list(range(len(parameters)))}
    return {**state, "state": dict(enumerate(laid_out)), "param_groups": [group]}


def flatten(parameters: list[nn.Parameter]) -> Tensor:
    """Return a vector of which the parameters, of one dtype and device, are views from now on."""
    vector = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    values = vector.split([parameter.numel() for parameter in parameters])
    for parameter, value in zip(parameters, values, strict=True):
        parameter.data = value.view(parameter.shape)
    return vector


def is_elementwise(optimizer_class: type[torch.optim.Optimizer]) -> bool:
    """Return whether an optimiser treats every number by itself."""
    elementwise = bool(getattr(optimizer_class, "elementwise", False))
    return elementwise or issubclass(optimizer_class, ELEMENTWISE_OPTIMIZERS)


# ---------------------------------------------------------------------- optimisers

WITHOUT_DYNAMO = enabled("without_dynamo")
BOOKKEEPING = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")
_MADE: dict[Any, Any] = {}


def without_dynamo(optimizer_class: Any) -> Any:
    """Return the same optimiser as a subclass that never imports the compiler.

    >>> optimizer = without_dynamo(torch.optim.Adam)([torch.nn.Parameter(torch.zeros(3))], lr=1e-3)
    """
    if not isinstance(optimizer_class, type) or not WITHOUT_DYNAMO:
        return optimizer_class  # a function that makes one
    if optimizer_class not in _MADE:
        _MADE[optimizer_class] = _subclass(optimizer_class)
    return _MADE[optimizer_class]


def _subclass(optimizer_class: type) -> type:
    methods: dict[str, Any] = {"__reduce__": _reduce, "__module__": optimizer_class.__module__}
    for name in BOOKKEEPING:
        if getattr(optimizer_class, name) is getattr(Optimizer, name):
            methods[name] = inspect.unwrap(getattr(Optimizer, name))
    if optimizer_class.__module__.startswith("torch.optim."):
        methods["step"] = _step_of(optimizer_class)
    return type(optimizer_class.__name__, (optimizer_class,), methods)


def _step_of(optimizer_class: Any) -> Any:
    step = inspect.unwrap(optimizer_class.step)  # without the hooks, which PyTorch adds to the subclass

    @functools.wraps(step)
    def plain_step(self: Optimizer, closure: object = None) -> Any:
        with torch.set_grad_enabled(bool(self.defaults.get("differentiable", False))):
            return step(self, closure)

    return plain_step


def _reduce(self: Optimizer) -> Any:
    """Name the class of PyTorch in copies and pickles: the subclass has no importable name."""
    return _empty, (type(self).__mro__[1],), self.__getstate__()


def _empty(optimizer_class: Any) -> Any:
    subclass = without_dynamo(optimizer_class)
    return subclass.__new__(subclass)


_Adam: Any = without_dynamo(torch.optim.Adam)
_RMSprop: Any = without_dynamo(torch.optim.RMSprop)


class Adam(_Adam):  # type: ignore[misc]
    """Adam (Kingma and Ba 2015, algorithm 1)."""

    @property
    def is_plain(self) -> bool:
        """Whether no option changes the plain method."""
        return not _has_any(self.param_groups[0], "weight_decay", "amsgrad", "maximize", "differentiable")

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        if closure is not None or not self.is_plain:
            return super().step(closure)
        adam_steps([self])
        return None

    step.hooked = True  # type: ignore[attr-defined]  # spares the profiler's wrapper around every step

    def __reduce__(self) -> Any:
        return copyreg.__newobj__, (type(self),), self.__getstate__()  # type: ignore[attr-defined]


def adam_steps(optimizers: Sequence[Optimizer]) -> None:
    """Take a step of each of several `Adam` with equal options: one pass over the five vectors of each."""
    group = optimizers[0].param_groups[0]
    vectors, gradients, averages, squares, steps = [], [], [], [], []
    for optimizer in optimizers:
        vector = optimizer.param_groups[0]["params"][0]
        state = optimizer.state[vector]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(vector), torch.zeros_like(vector)
        state["step"] += 1
        vectors.append(vector)
        gradients.append(vector.grad)
        averages.append(state["exp_avg"])
        squares.append(state["exp_avg_sq"])
        steps.append(state["step"])
    with torch.no_grad():
        fused_adam_(
            vectors,
            gradients,
            averages,
            squares,
            [],
            steps,
            lr=float(group["lr"]),
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=0.0,
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )


class RMSprop(_RMSprop):  # type: ignore[misc]
    """RMSprop (Tieleman and Hinton 2012), with epsilon outside of the root as PyTorch has it."""

    @property
    def is_plain(self) -> bool:
        """Whether no option changes the plain method."""
        return not _has_any(
            self.param_groups[0], "weight_decay", "momentum", "centered", "maximize", "differentiable"
        )

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        if closure is not None or not self.is_plain:
            return super().step(closure)
        rmsprop_steps([self])
        return None

    step.hooked = True  # type: ignore[attr-defined]

    def __reduce__(self) -> Any:
        return copyreg.__newobj__, (type(self),), self.__getstate__()  # type: ignore[attr-defined]


def rmsprop_steps(optimizers: Sequence[Optimizer]) -> None:
    """Take a step of each of several `RMSprop` with equal options."""
    for optimizer in optimizers:
        (group,) = optimizer.param_groups
        (vector,) = group["params"]
        state = optimizer.state[vector]
        if not state:
            state["step"], state["square_avg"] = torch.tensor(0.0), torch.zeros_like(vector)
        state["step"] += 1
        gradient, square, alpha = vector.grad, state["square_avg"], group["alpha"]
        with torch.no_grad():
            square.mul_(alpha).addcmul_(gradient, gradient, value=1 - alpha)
            vector.addcdiv_(gradient, square.sqrt().add_(group["eps"]), value=-group["lr"])


def _has_any(group: dict[str, Any], *options: str) -> bool:
    return any(group[option] for option in options)


FLAT_OPTIMIZERS: dict[type, type] = {torch.optim.Adam: Adam, torch.optim.RMSprop: RMSprop}
"""Replacements of PyTorch optimisers when all parameters are one vector on the CPU."""

"""PyTorch's optimisers without its compiler.

Making one of `torch.optim`, and its first step, import `torch._dynamo`: 1.6 s and 70 MB, to tell the compiler
to keep out. Nothing is compiled here, so the undecorated methods do the same.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch
from torch.optim import Optimizer

from rlzoo.accel.switch import enabled

ON = enabled("without_dynamo")
BOOKKEEPING = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")


_MADE: dict[Any, Any] = {}


def without_dynamo(optimizer_class: Any) -> Any:
    """Return the same optimiser as a subclass that never imports the compiler.

    >>> optimizer = without_dynamo(torch.optim.Adam)([torch.nn.Parameter(torch.zeros(3))], lr=1e-3)
    """
    if not isinstance(optimizer_class, type) or not ON:
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

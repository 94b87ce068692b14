"""All parameters of a module in one vector, and all gradients in another.

A small network spends more time on the bookkeeping of a dozen small tensors than on arithmetic. When the
parameters are views into one vector, an optimiser step, a gradient norm or a target average is one
operation on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from rlzoo.optim.eager import eager
from rlzoo.optim.rmsprop_tf import RMSpropTFLike
from rlzoo.optim.vector import OF_ONE_VECTOR

ELEMENTWISE = (
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.RMSprop,
    torch.optim.SGD,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.Adagrad,
    torch.optim.Adamax,
    RMSpropTFLike,
)
"""Optimisers that treat every number by itself, so that one vector gives the same steps as its pieces."""


def in_one_vector(parameters: list[nn.Parameter]) -> Tensor:
    """A vector that the parameters, of one dtype and device, are views of from now on."""
    vector = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    values = vector.split([parameter.numel() for parameter in parameters])
    for parameter, value in zip(parameters, values, strict=True):
        parameter.data = value.view(parameter.shape)
    return vector


class FlatParameters:
    """Lays the trainable parameters of a module out in one vector; the module goes on working unchanged.

    :param parameters: of one dtype and device; moving the module to another device afterwards undoes the
        layout
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self.vector = nn.Parameter(in_one_vector(self.parameters))
        self.vector.grad = torch.zeros_like(self.vector)
        gradients = self.vector.grad.split([parameter.numel() for parameter in self.parameters])
        self.gradients: list[Tensor] = []
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient.view(parameter.shape)
            self.gradients.append(parameter.grad)

    def optimizer(self, optimizer_class: Any, lr: float, **kwargs: Any) -> torch.optim.Optimizer:
        """An optimiser of the vector; of the single parameters where it looks at their shapes.

        Its `zero_grad` is the one of this object, so that gradients stay where the optimiser sees them.
        """
        flat = issubclass(optimizer_class, ELEMENTWISE)
        made: torch.optim.Optimizer
        if self.vector.device.type == "cpu" and optimizer_class in OF_ONE_VECTOR:
            made = OF_ONE_VECTOR[optimizer_class]([self.vector], lr=lr, **kwargs)
        else:
            if issubclass(optimizer_class, torch.optim.Adam | torch.optim.AdamW):
                kwargs.setdefault("fused", True)
            made = eager(optimizer_class)([self.vector] if flat else self.parameters, lr=lr, **kwargs)
        made.zero_grad = self.zero_grad  # type: ignore[method-assign]
        return made

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Set every gradient to zero, in place, and tie on again those that another optimiser set to None.

        :param set_to_none: of no effect, for scripts that give it
        :raises RuntimeError: the parameters were moved away (`module.to(...)`), so that steps would be lost
        """
        if self.parameters[0].data_ptr() != self.vector.data_ptr():
            raise RuntimeError(
                "the parameters no longer share one vector; move a module before its optimiser is made"
            )
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            if parameter.grad is not gradient:
                parameter.grad = gradient
        assert self.vector.grad is not None
        self.vector.grad.zero_()

    def clip_grad_norm(self, max_norm: float) -> Tensor:
        """Scale the gradient so that its Euclidean norm is at most `max_norm`; returns the norm before."""
        assert self.vector.grad is not None
        norm = torch.linalg.vector_norm(self.vector.grad)
        if norm.device.type != "cpu":  # no waiting for the device
            self.vector.grad.mul_((max_norm / (norm + 1e-6)).clamp_(max=1.0))
        elif (scale := max_norm / (norm.item() + 1e-6)) < 1:
            self.vector.grad.mul_(scale)
        return norm

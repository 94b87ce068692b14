"""Adam and RMSprop of a single vector on the CPU.

PyTorch's optimisers are written for many tensors of any kind, and on one small vector most of a step is the
bookkeeping for that. Here a step is its arithmetic. State, options and numbers are PyTorch's; for options
beyond the plain method (weight decay, momentum, ...) PyTorch's own step is taken.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from typing import Any

import torch

from rlzoo.accel.foreach import fused_adam_
from rlzoo.accel.without_dynamo import without_dynamo

_Adam: Any = without_dynamo(torch.optim.Adam)
_RMSprop: Any = without_dynamo(torch.optim.RMSprop)


class Adam(_Adam):  # type: ignore[misc]
    """Adam (Kingma and Ba 2015, algorithm 1)."""

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        group = self.param_groups[0]
        if closure is not None or _has_any(group, "weight_decay", "amsgrad", "maximize", "differentiable"):
            return super().step(closure)
        (vector,) = group["params"]
        state = self.state[vector]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(vector), torch.zeros_like(vector)
        state["step"] += 1
        with torch.no_grad():  # one pass over all five vectors
            fused_adam_(
                [vector],
                [vector.grad],
                [state["exp_avg"]],
                [state["exp_avg_sq"]],
                [],
                [state["step"]],
                lr=float(group["lr"]),
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=0.0,
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )
        return None

    step.hooked = True  # type: ignore[attr-defined]  # spares the profiler's wrapper around every step

    def __reduce__(self) -> Any:
        return copyreg.__newobj__, (type(self),), self.__getstate__()  # type: ignore[attr-defined]


class RMSprop(_RMSprop):  # type: ignore[misc]
    """RMSprop (Tieleman and Hinton 2012), with epsilon outside of the root as PyTorch has it."""

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        group = self.param_groups[0]
        if closure is not None or _has_any(
            group, "weight_decay", "momentum", "centered", "maximize", "differentiable"
        ):
            return super().step(closure)
        (vector,) = group["params"]
        state = self.state[vector]
        if not state:
            state["step"], state["square_avg"] = torch.tensor(0.0), torch.zeros_like(vector)
        state["step"] += 1
        gradient, square, alpha = vector.grad, state["square_avg"], group["alpha"]
        with torch.no_grad():
            square.mul_(alpha).addcmul_(gradient, gradient, value=1 - alpha)
            vector.addcdiv_(gradient, square.sqrt().add_(group["eps"]), value=-group["lr"])
        return None

    step.hooked = True  # type: ignore[attr-defined]

    def __reduce__(self) -> Any:
        return copyreg.__newobj__, (type(self),), self.__getstate__()  # type: ignore[attr-defined]


def _has_any(group: dict[str, Any], *options: str) -> bool:
    return any(group[option] for option in options)


FLAT_OPTIMIZERS: dict[type, type] = {torch.optim.Adam: Adam, torch.optim.RMSprop: RMSprop}
"""What stands in for an optimiser of PyTorch when all parameters are one vector on the CPU."""

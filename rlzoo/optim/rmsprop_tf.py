"""RMSprop as TensorFlow 1 computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from rlzoo.accel.foreach import (
    foreach_add,
    foreach_addcdiv_,
    foreach_addcmul,
    foreach_addcmul_,
    foreach_lerp_,
    foreach_mul_,
    foreach_sqrt_,
    foreach_sub_,
)
from rlzoo.core.errors import UserError


class RMSpropTFLike(Optimizer):
    """RMSprop with epsilon inside the root and running squares that start at one, as in TensorFlow 1.

    square_avg <- alpha * square_avg + (1 - alpha) * grad^2                      (starts at 1, not 0)
    step       =  grad / sqrt(square_avg + eps)                                  (not sqrt(square_avg) + eps)

    It takes small first steps and is what the figures of A2C were tuned with. The momentum buffer
    accumulates lr * step, so a change of the learning rate does not rescale what is already in it.

    :param lr: learning rate
    :param alpha: decay of the running squares
    :param eps: added inside the root
    :param weight_decay: L2 penalty, added to the gradient
    :param momentum: decay of the accumulated steps; 0 for none
    :param centered: divide by the running variance instead of the running square
    """

    elementwise = True  # a step on one vector of all parameters is the same

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
    ) -> None:
        for name, value in {
            "lr": lr,
            "eps": eps,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "alpha": alpha,
        }.items():
            if not value >= 0.0:
                raise UserError(f"RMSpropTFLike needs {name} >= 0, not {value}")
        defaults = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take one step; `closure` recomputes the loss where given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if params:
                self._step_group(group, params, [p.grad for p in params])
        return loss

    def _step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        for p in params:
            if not self.state[p]:
                self.state[p] = self._initial_state(group, p)
        alpha = group["alpha"]
        squares = [self.state[p]["square_avg"] for p in params]
        if group["weight_decay"]:
            grads = list(foreach_add(grads, params, alpha=group["weight_decay"]))
        foreach_mul_(squares, alpha)
        foreach_addcmul_(squares, grads, grads, value=1 - alpha)
        roots = squares
        if group["centered"]:
            means = [self.state[p]["grad_avg"] for p in params]
            foreach_lerp_(means, grads, 1 - alpha)
            roots = list(foreach_addcmul(squares, means, means, value=-1.0))
        roots = list(foreach_add(roots, group["eps"]))
        foreach_sqrt_(roots)
        if group["momentum"]:
            buffers = [self.state[p]["momentum_buffer"] for p in params]
            foreach_mul_(buffers, group["momentum"])
            foreach_addcdiv_(buffers, grads, roots, value=group["lr"])
            foreach_sub_(params, buffers)
        else:
            foreach_addcdiv_(params, grads, roots, value=-group["lr"])

    @staticmethod
    def _initial_state(group: dict[str, Any], p: Tensor) -> dict[str, Tensor]:
        state = {"square_avg": torch.ones_like(p)}
        if group["momentum"]:
            state["momentum_buffer"] = torch.zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = torch.zeros_like(p)
        return state

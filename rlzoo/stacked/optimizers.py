"""Optimiser steps of several trainings at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from rlzoo.accel.fast_mlp import Loss
from rlzoo.accel.flat_parameters import Adam, RMSprop, adam_steps, rmsprop_steps
from rlzoo.accel.foreach import foreach_copy_, foreach_mul_, foreach_norm
from rlzoo.stacked.stacked_mlp import Leaves

STACKABLE = (Adam, RMSprop)


def optimizer_key(optimizer: torch.optim.Optimizer) -> Hashable:
    """Return what optimisers must share so that one call takes a step of all."""
    (group,) = optimizer.param_groups
    return type(optimizer), *((name, value) for name, value in group.items() if name != "params")


def optimizer_problem(optimizer: torch.optim.Optimizer) -> str | None:
    """Return why steps of an optimiser cannot be taken for several trainings at once, else None."""
    if isinstance(optimizer, STACKABLE) and optimizer.is_plain:
        return None
    return f"its optimiser is {type(optimizer).__name__}, with options beyond the plain Adam or RMSprop"


def step_of_all(
    optimizers: Sequence[torch.optim.Optimizer],
    losses: Loss,
    leaves: Leaves,
    max_grad_norm: float | None = None,
    which: Sequence[int] | None = None,
) -> None:
    """Take a step of every training along the gradient of its loss, clipped by its norm.

    :param optimizers: n, each of one vector [P], with an equal `optimizer_key`
    :param losses: [n], or their gradients
    :param leaves: parameters of all trainings, which the losses depend on
    :param which: trainings that take a step; None: all
    """
    if which is not None and not which:
        return
    if isinstance(losses, Tensor):
        gradients = torch.autograd.grad(losses.sum(), leaves)
    else:
        gradients = losses.grad(leaves)
    rows = torch.cat([gradient.reshape(len(optimizers), -1) for gradient in gradients], 1).unbind(0)
    if which is not None and len(which) < len(rows):
        rows, optimizers = tuple(rows[k] for k in which), [optimizers[k] for k in which]
    own = [optimizer.param_groups[0]["params"][0].grad for optimizer in optimizers]
    with torch.no_grad():
        foreach_copy_(own, rows)
        if max_grad_norm is not None:
            clip_norms(own, max_grad_norm)
    if isinstance(optimizers[0], Adam):
        adam_steps(optimizers)
    else:
        rmsprop_steps(optimizers)


def clip_norms(gradients: list[Tensor], max_norm: float) -> None:
    """Scale each gradient so that its Euclidean norm is at most `max_norm`."""
    norms = torch.stack(foreach_norm(gradients)).tolist()
    scales = [min(1.0, max_norm / (norm + 1e-6)) for norm in norms]
    if min(scales) < 1:
        foreach_mul_(gradients, scales)

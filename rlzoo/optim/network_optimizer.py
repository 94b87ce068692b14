"""Optimiser of one network: the gradient of a loss, clipping by norm, and the step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from rlzoo.accel.fast_mlp import Loss
from rlzoo.accel.flat_parameters import ParameterGroup


class HasOptimizer(Protocol):
    """A policy, or a part of one, with the optimiser of its parameters."""

    optimizer: torch.optim.Optimizer


class NetworkOptimizer:
    """Minimise losses with respect to the parameters of one network.

    :param owner: its `optimizer` takes the steps, also one that is assigned later
    :param parameters: parameters that the optimiser steps on
    :param only: compute no gradients of other networks that the losses depend on, as an actor's on critics
    """

    average: Callable[[ParameterGroup], None] | None = None
    """Averages the gradient over the ranks of a training; None in a single process."""

    def __init__(self, owner: HasOptimizer, parameters: ParameterGroup, only: bool = False) -> None:
        self.owner, self.parameters, self.only = owner, parameters, only

    def recorded(self) -> AbstractContextManager[None]:
        """Return a context to evaluate networks in for a loss that only `step` gets, which is then faster."""
        return self.parameters.recorded(self.owner)

    def step(self, loss: Loss, max_grad_norm: float | None = None) -> None:
        """Take one step along the gradient of a loss.

        :param loss: a scalar tensor, or its gradients
        :param max_grad_norm: largest Euclidean norm of the gradient; None: no clipping
        """
        self.parameters.backward(loss, self.only)
        if self.average is not None:
            self.average(self.parameters)
        if max_grad_norm is not None:
            self.parameters.clip_grad_norm(max_grad_norm)
        self.parameters.step(self.owner.optimizer)


def mean_over_rows(values: Tensor, n_axes: int = 1) -> Tensor:
    """Return the mean over the last `n_axes` axes, a scalar; of several agents, the first axis, [n_seeds]."""
    return values.mean() if values.dim() == n_axes else values.flatten(-n_axes).mean(-1)


def mean_squared_error(values: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of (values - targets)^2 over the last axis, as `mean_over_rows`."""
    if values.dim() == 1:
        return F.mse_loss(values, targets)
    return F.mse_loss(values, targets, reduction="none").mean(-1)

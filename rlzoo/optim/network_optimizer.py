"""Optimiser of one network: the gradient of a loss, clipping by norm, and the step."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from rlzoo.accel.flat_parameters import ParameterGroup


class HasOptimizer(Protocol):
    """A policy, or a part of one, with the optimiser of its parameters."""

    optimizer: torch.optim.Optimizer


class NetworkOptimizer:
    """Minimise losses with respect to the parameters of one network.

    :param owner: its `optimizer` takes the steps, also one that is assigned later
    :param parameters: parameters that the optimiser steps on
    """

    def __init__(self, owner: HasOptimizer, parameters: ParameterGroup) -> None:
        self.owner, self.parameters = owner, parameters

    def step(self, loss: Tensor, max_grad_norm: float | None = None) -> None:
        """Take one step along the gradient of a loss; other networks get no gradients.

        :param loss: a scalar
        :param max_grad_norm: largest Euclidean norm of the gradient; None: no clipping
        """
        self.parameters.backward(loss)
        if max_grad_norm is not None:
            self.parameters.clip_grad_norm(max_grad_norm)
        self.owner.optimizer.step()

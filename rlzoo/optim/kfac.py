"""Natural gradient steps in a trust region, with K-FAC for the Fisher matrix.

Wu et al. 2017 (https://arxiv.org/abs/1708.05144), section 3.3: the step is the learning rate times the
natural gradient, made shorter where the distributions of the network would change by more than `kfac_clip`:

    step = eta n,   n = (F + damping)^-1 gradient,   eta = min(lr, sqrt(2 kfac_clip / gradient^T n))

since eta^2/2 times that product is the KL divergence to second order, or, with damping, a bound on it. Where
the Fisher matrix hardly sees a direction, a step may be long all the same; its norm is therefore at most
`max_grad_norm`.
"""

from __future__ import annotations

import math

import torch
from torch.optim import Optimizer

from rlzoo.accel.flat_parameters import FlatParameters
from rlzoo.optim.kfac_factors import KroneckerFactors


class KFAC(Optimizer):
    """K-FAC optimiser with momentum.

    Momentum averages finished steps, not gradients, so that each keeps the learning rate and trust region of
    its own update.

    :param flat: the parameters of the network, as one vector
    :param factors: of the same network
    :param lr: upper bound on the step, in multiples of the natural gradient
    :param momentum: weight of earlier steps in the average; 0 for none
    :param damping: added to every eigenvalue of the Fisher matrix (Tikhonov)
    :param kfac_clip: upper bound on the KL divergence of a step
    :param max_grad_norm: upper bound on the L2 norm of a step
    """

    def __init__(
        self,
        flat: FlatParameters,
        factors: KroneckerFactors,
        lr: float = 0.25,
        momentum: float = 0.9,
        damping: float = 0.01,
        kfac_clip: float = 0.001,
        max_grad_norm: float = math.inf,
    ) -> None:
        options = {
            "lr": lr,
            "momentum": momentum,
            "damping": damping,
            "kfac_clip": kfac_clip,
            "max_grad_norm": max_grad_norm,
        }
        super().__init__([flat.vector], options)
        self.factors = factors

    def __getstate__(self) -> dict[str, object]:
        """Keep the factors in copies, too."""
        return {**super().__getstate__(), "factors": self.factors}

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        """Take one step along the gradients of the parameters, which are natural ones afterwards."""
        (group,) = self.param_groups
        (vector,) = group["params"]
        gradient = vector.grad.clone()
        self.factors.precondition(group["damping"])
        natural = vector.grad
        # infinite without a gradient
        kl_step_size = (2 * group["kfac_clip"] / torch.dot(gradient, natural)).sqrt()
        norm_step_size = group["max_grad_norm"] / torch.linalg.vector_norm(natural)
        step = natural * torch.minimum(kl_step_size, norm_step_size).clamp(max=group["lr"])
        if group["momentum"]:
            state = self.state[vector]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(vector)
            step = state["momentum_buffer"].lerp_(step, 1 - group["momentum"])
        vector.sub_(step)

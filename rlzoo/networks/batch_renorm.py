"""Batch renormalisation (Ioffe 2017, https://arxiv.org/abs/1702.03275), as CrossQ uses it.

Batch normalisation that normalises alike in training and in evaluation, up to clipping. With the mean m and
standard deviation s of the batch, and their running averages M and S,

    y = scale ((x - m) / s * r + d) + bias,   r = clip(s / S, 1 / 3, 3),   d = clip((m - M) / S, -5, 5)

where r and d are constants to the gradient, and r = 1, d = 0 (batch normalisation) during a warm-up. In
evaluation y = scale (x - M) / S + bias, and M and S stay as they are.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlzoo.accel.renormalize import renormalize

R_MAX, D_MAX = 3.0, 5.0
"""How far a batch may be corrected: the values that the paper ends with."""


class BatchRenorm(nn.Module):
    """Normalises [B, width] over the batch; with `n`, [n, B, width] of as many networks, each by itself.

    An ensemble takes [B, width], too: the same input for all of its networks.

    :param width: of what is normalised
    :param n: networks, or None for a single one
    :param momentum: weight of a batch in the running statistics
    :param eps: added to variances
    :param warmup_steps: batches before r and d count
    """

    ra_mean: Tensor
    ra_var: Tensor
    steps: Tensor

    def __init__(
        self,
        width: int,
        n: int | None = None,
        momentum: float = 0.01,
        eps: float = 1e-3,
        warmup_steps: int = 100_000,
    ) -> None:
        super().__init__()
        shape = (width,) if n is None else (n, 1, width)
        self.scale = nn.Parameter(torch.ones(shape))
        self.bias = nn.Parameter(torch.zeros(shape))
        self.register_buffer("ra_mean", torch.zeros(shape))
        self.register_buffer("ra_var", torch.ones(shape))
        self.register_buffer("steps", torch.tensor(0))
        self.momentum, self.eps, self.warmup_steps = momentum, eps, warmup_steps

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() < self.scale.dim():
            x = x.expand(len(self.scale), *x.shape)
        if not self.training:
            factor = self.scale * torch.rsqrt(self.ra_var + self.eps)
            return torch.addcmul(self.bias - self.ra_mean * factor, x, factor)
        with torch.no_grad():
            mean = self._sum(x) / x.shape[-2]
            centred = x - mean
            var = self._sum(centred.square()) / max(x.shape[-2] - 1, 1)
            r, d = self._correction(mean, torch.sqrt(var + self.eps))
            self.ra_mean.lerp_(mean, self.momentum)
            self.ra_var.lerp_(var, self.momentum)
            self.steps += 1
        return renormalize(x, self.scale, self.bias, r, d, centred, torch.rsqrt(var + self.eps), self.eps)

    def _sum(self, x: Tensor) -> Tensor:
        """Sum over the batch, in the shape of the parameters."""
        return x.sum(-2, keepdim=self.scale.dim() == 3)

    def _correction(self, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
        """Return r and d, in the shape of the parameters."""
        warm = self.steps > self.warmup_steps
        r_max, d_max = torch.where(warm, R_MAX, 1.0), torch.where(warm, D_MAX, 0.0)
        running_std = torch.sqrt(self.ra_var + self.eps)
        r = (std / running_std).clamp_(1 / r_max, r_max)
        return r, ((mean - self.ra_mean) / running_std).clamp_(-d_max, d_max)

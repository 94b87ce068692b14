"""Batch renormalisation with its derivative in closed form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rlzoo.accel.switch import enabled

FAST = enabled("closed_form_backward")


def renormalize(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    r: Tensor,
    d: Tensor,
    centred: Tensor,
    inverse_std: Tensor,
    eps: float,
) -> Tensor:
    """Return scale ((x - mean) / std r + d) + bias, where std^2 = var + eps.

    :param x: [B, width] or [n, B, width]
    :param r: with `d` the correction, constants to the gradient
    :param centred: x - mean, with `inverse_std` = 1 / std constants; the gradient takes into account how mean
        and variance of the batch depend on `x`
    """
    if FAST:
        y: Tensor = Renormalize.apply(x, scale, bias, centred, inverse_std, r, d)  # type: ignore
        return y
    keep = scale.dim() == 3
    mean = x.mean(-2, keepdim=keep)
    var = (x - mean).square().sum(-2, keepdim=keep) / max(x.shape[-2] - 1, 1)
    return scale * ((x - mean) * torch.rsqrt(var + eps) * r + d) + bias


class Renormalize(torch.autograd.Function):
    """y = scale (c / s r + d) + bias, where c = x - m, and the derivative in closed form.

    With g the gradient of y, B the size of the batch and means over it, that of x is
    scale r / s (g - mean(g) - c / s^2 sum(g c) / (B - 1)): a third of the passes over arrays of [n, B, width]
    that differentiating m and s step by step takes.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        scale: Tensor,
        bias: Tensor,
        centred: Tensor,
        inverse_std: Tensor,
        r: Tensor,
        d: Tensor,
    ) -> Tensor:
        slope = inverse_std * r
        ctx.save_for_backward(centred, scale, inverse_std, slope, d)
        return torch.addcmul(torch.addcmul(bias, scale, d), centred, scale * slope)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[override]
        centred, scale, inverse_std, slope, d = ctx.saved_tensors
        keep = scale.dim() == 3
        product = gradient * centred
        total, along = gradient.sum(-2, keepdim=keep), product.sum(-2, keepdim=keep)
        dx = None
        if ctx.needs_input_grad[0]:
            size = centred.shape[-2]
            share = along * inverse_std.square() / -max(size - 1, 1)
            dx = torch.addcmul(gradient, centred, share, out=product).sub_(total / size).mul_(scale * slope)
        return dx, torch.addcmul(along * slope, total, d), total, None, None, None, None

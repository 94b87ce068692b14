"""Quantile Huber losses with their derivative in closed form, in pieces that fit into a core's cache."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.nn import functional as F

from rlzoo.accel.switch import enabled

CACHED = 2**16
"""Numbers in an array that stays in the cache of a core, with a few others of that size."""

FAST = enabled("closed_form_backward")


def quantile_huber(current: Tensor, target: Tensor, cum_prob: Tensor, scale: float | None = None) -> Tensor:
    """Return the mean over the targets of rho_tau(target - current) for each current quantile, or their sum.

        rho_tau(delta) = |tau - 1{delta < 0}| * (delta^2 / 2 if |delta| <= 1 else |delta| - 1/2)

    No gradient goes into the targets.

    :param current: [B, ..., n_quantiles]
    :param target: [B, ..., n_targets]
    :param cum_prob: tau; broadcasts to `current`
    :param scale: where given, the losses are summed and multiplied by it
    :return: [B, ..., n_quantiles]; with `scale` a scalar
    """
    if FAST and not is_dynamo_compiling():
        return _apply(current, target, cum_prob, scale)
    if FAST:
        losses = QuantileHuber.apply(current, target, cum_prob, scale)  # type: ignore[no-untyped-call]
        return cast(Tensor, losses)
    delta = target.detach().unsqueeze(-2) - current.unsqueeze(-1)  # [..., n_quantiles, n_targets]
    weights = (cum_prob.unsqueeze(-1) - (delta.detach() < 0).float()).abs()
    losses = (weights * F.huber_loss(delta, torch.zeros_like(delta), reduction="none")).mean(-1)
    return losses if scale is None else losses.sum() * scale


class QuantileHuber(torch.autograd.Function):
    """`quantile_huber` as one operation.

    Autograd would keep and pass over half a dozen arrays of [..., n_quantiles, n_targets].
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, current: Tensor, target: Tensor, cum_prob: Tensor, scale: float | None
    ) -> Tensor:
        losses, derivatives = losses_and_derivatives(current, target, cum_prob, scale)
        ctx.save_for_backward(derivatives)
        return losses

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        if torch.is_grad_enabled():
            raise RuntimeError("the quantile Huber loss cannot be differentiated twice")
        (derivatives,) = ctx.saved_tensors
        return gradient * derivatives, None, None, None


_apply: Callable[..., Tensor] = super(torch.autograd.Function, QuantileHuber).apply  # type: ignore[misc]
"""`QuantileHuber.apply` without the support of torch.func."""


def losses_and_derivatives(
    current: Tensor, target: Tensor, cum_prob: Tensor, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """Return the losses of `quantile_huber`, and their derivatives (times `scale`) by `current`.

    With c = delta clipped to [-1, 1], the Huber loss is c (delta - c / 2) and its derivative c.
    """
    size = current.numel() * target.shape[-1]
    if size <= CACHED or current.device.type != "cpu":
        return _of_rows(current, target, cum_prob, scale)
    n_chunks = -(-size // CACHED)
    per_row = cum_prob.dim() == current.dim() and len(cum_prob) > 1
    taus: Iterable[Tensor] = cum_prob.chunk(n_chunks) if per_row else itertools.repeat(cum_prob)
    chunks = zip(current.chunk(n_chunks), target.chunk(n_chunks), taus, strict=False)
    losses, derivatives = zip(*(_of_rows(*chunk, scale) for chunk in chunks), strict=True)
    return torch.cat(losses) if scale is None else torch.stack(losses).sum(), torch.cat(derivatives)


def _of_rows(current: Tensor, target: Tensor, cum_prob: Tensor, scale: float | None) -> tuple[Tensor, Tensor]:
    tau, n_targets = cum_prob.unsqueeze(-1), target.shape[-1]
    delta = target.unsqueeze(-2) - current.unsqueeze(-1)  # [..., n_quantiles, n_targets]
    clipped = delta.clamp(-1, 1)
    # tau c where delta is positive, (1 - tau) c where it is negative
    weighted = (clipped * tau).addcmul_(clipped.clamp(max=0), torch.rsub(tau, 1, alpha=2))
    derivatives = weighted.sum(-1).mul_(-(1 if scale is None else scale) / n_targets)
    delta.sub_(clipped, alpha=0.5)
    if scale is None:
        return delta.mul_(weighted).mean(-1), derivatives
    return torch.dot(delta.reshape(-1), weighted.reshape(-1).to(delta.dtype)).mul_(
        scale / n_targets
    ), derivatives

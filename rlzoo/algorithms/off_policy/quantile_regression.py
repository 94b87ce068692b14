"""Quantile regression: the loss by which QR-DQN and TQC learn the distribution of returns."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

IN_CACHE = 2**16
"""Numbers in an array that a core keeps close to itself, with a few others of that size."""


def midpoints(n_quantiles: int, device: torch.device | None = None) -> Tensor:
    """The probabilities [n_quantiles] whose quantiles are estimated: (2 i + 1) / (2 n) for i = 0 ... n - 1.

    Dabney et al. 2018, Distributional reinforcement learning with quantile regression, lemma 2
    (https://arxiv.org/abs/1710.10044).
    """
    return (torch.arange(n_quantiles, device=device) + 0.5) / n_quantiles


def quantile_huber_loss(
    current_quantiles: Tensor,
    target_quantiles: Tensor,
    cum_prob: Tensor | None = None,
    sum_over_quantiles: bool = True,
) -> Tensor:
    """The mean over the batch of `quantile_huber_losses`, a scalar; see there for the arguments.

    :raises ValueError: current and target quantiles are of different batches or numbers of axes
    """
    known_axes = current_quantiles.dim() == target_quantiles.dim() in (2, 3)
    if known_axes and len(current_quantiles) != len(target_quantiles):
        raise ValueError(
            f"current and target quantiles must be of one batch, not of {len(current_quantiles)} and"
            f" {len(target_quantiles)} rows"
        )
    return quantile_huber_losses(current_quantiles, target_quantiles, cum_prob, sum_over_quantiles).mean()


def quantile_huber_losses(
    current_quantiles: Tensor,
    target_quantiles: Tensor,
    cum_prob: Tensor | None = None,
    sum_over_quantiles: bool = True,
) -> Tensor:
    """The quantile Huber loss of each row (eq. 10 of Dabney et al. 2018, with kappa = 1).

        rho_tau(delta) = |tau - 1{delta < 0}| * (delta^2 / 2 if |delta| <= 1 else |delta| - 1/2)
        loss = sum over the current quantiles i of the mean over the targets j of rho_tau_i(z_j - theta_i)

    Targets are constants: no gradient goes into them. The gradient cannot be differentiated again.

    :param current_quantiles: theta, [B, n_quantiles] or [B, n_critics, n_quantiles]
    :param target_quantiles: z, [B, n_targets], or [B, 1 or n_critics, n_targets] where the current ones have
        three axes
    :param cum_prob: tau, of the shape of `current_quantiles` or one that broadcasts to it; a [B, n_quantiles]
        holds for every critic; `midpoints` when None
    :param sum_over_quantiles: False takes the mean over the current quantiles as well
    :return: [B], averaged over the critics
    :raises ValueError: current and target quantiles have different numbers of axes
    """
    if current_quantiles.dim() != target_quantiles.dim() or current_quantiles.dim() not in (2, 3):
        raise ValueError(
            "current and target quantiles must both be [batch, quantiles] or [batch, critics, quantiles], "
            f"not {tuple(current_quantiles.shape)} and {tuple(target_quantiles.shape)}"
        )
    if cum_prob is None:
        cum_prob = midpoints(current_quantiles.shape[-1], current_quantiles.device)
    elif cum_prob.dim() == 2 and current_quantiles.dim() == 3:
        cum_prob = cum_prob.unsqueeze(1)
    losses: Tensor = _QuantileHuber.apply(current_quantiles, target_quantiles, cum_prob)  # type: ignore
    losses = losses.sum(-1) if sum_over_quantiles else losses.mean(-1)
    return losses if losses.dim() == 1 else losses.mean(1)


def losses_and_slopes(current: Tensor, target: Tensor, cum_prob: Tensor) -> tuple[Tensor, Tensor]:
    """The mean over the targets of rho, for each current quantile, and its derivative with respect to it.

    With c = delta clipped to [-1, 1], the Huber loss is c (delta - c / 2) and its derivative c. A weighted c
    is all that both need, while autograd would keep and pass over half a dozen arrays of
    [..., n_quantiles, n_targets].

    On a CPU some rows are done at a time, so that these arrays stay in its cache.

    :param current: [B, ..., n_quantiles]
    :param target: [B, ..., n_targets]
    :param cum_prob: broadcasts to `current`
    :return: both [B, ..., n_quantiles]
    """
    size = current.numel() * target.shape[-1]
    if size <= IN_CACHE or current.device.type != "cpu":
        return _of_rows(current, target, cum_prob)
    n_chunks = -(-size // IN_CACHE)
    per_row = cum_prob.dim() == current.dim() and len(cum_prob) > 1
    taus = cum_prob.chunk(n_chunks) if per_row else itertools.repeat(cum_prob)
    chunks = zip(current.chunk(n_chunks), target.chunk(n_chunks), taus, strict=False)
    losses, slopes = zip(*(_of_rows(*chunk) for chunk in chunks), strict=True)
    return torch.cat(losses), torch.cat(slopes)


def _of_rows(current: Tensor, target: Tensor, cum_prob: Tensor) -> tuple[Tensor, Tensor]:
    tau = cum_prob.unsqueeze(-1)
    delta = target.unsqueeze(-2) - current.unsqueeze(-1)  # [..., n_quantiles, n_targets]
    clipped = delta.clamp(-1, 1)
    # tau c where delta is positive, (1 - tau) c where it is negative
    weighted = (clipped * tau).addcmul_(clipped.clamp(max=0), 1 - 2 * tau)
    slopes = weighted.mean(-1).neg_()
    return delta.sub_(clipped, alpha=0.5).mul_(weighted).mean(-1), slopes


class _QuantileHuber(torch.autograd.Function):
    """`losses_and_slopes` as one step of autograd."""

    @staticmethod
    def forward(ctx: Any, current: Tensor, target: Tensor, cum_prob: Tensor) -> Tensor:
        losses, slopes = losses_and_slopes(current, target, cum_prob)
        ctx.save_for_backward(slopes)
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (slopes,) = ctx.saved_tensors
        return gradient * slopes, None, None

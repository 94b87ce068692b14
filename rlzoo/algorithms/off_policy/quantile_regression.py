"""Quantile regression: the loss with which QR-DQN and TQC learn the distribution of returns."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from rlzoo.accel.quantile_huber import quantile_huber


@lru_cache
def midpoints(n_quantiles: int, device: torch.device | None = None) -> Tensor:
    """Return the probabilities [n_quantiles] of the quantiles: (2 i + 1) / (2 n) for i = 0 ... n - 1.

    Dabney et al. 2018, Distributional reinforcement learning with quantile regression, lemma 2
    (https://arxiv.org/abs/1710.10044). The tensor is shared by all callers: do not change it.
    """
    with torch.inference_mode(False):  # later callers may need gradients
        return _midpoints(n_quantiles, device)


def _midpoints(n_quantiles: int, device: torch.device | None) -> Tensor:
    return (torch.arange(n_quantiles, device=device) + 0.5) / n_quantiles


def quantile_huber_loss(
    current_quantiles: Tensor,
    target_quantiles: Tensor,
    cum_prob: Tensor | None = None,
    sum_over_quantiles: bool = True,
) -> Tensor:
    """Return the quantile Huber loss (eq. 10 of Dabney et al. 2018, with kappa = 1), a scalar.

        rho_tau(delta) = |tau - 1{delta < 0}| * (delta^2 / 2 if |delta| <= 1 else |delta| - 1/2)

    The mean over the targets j of rho_tau_i(z_j - theta_i) is summed over the current quantiles i, and
    averaged over the batch. No gradient goes into the targets.

    :param current_quantiles: theta, [B, n_quantiles] or [B, n_critics, n_quantiles]
    :param target_quantiles: z, [B, n_targets] or [B, 1 or n_critics, n_targets]
    :param cum_prob: tau; None: (2 i + 1) / (2 n_quantiles) for i = 0, 1, ...
    :param sum_over_quantiles: False takes the mean over the current quantiles as well
    :raises ValueError: current and target quantiles are of different batches or numbers of axes
    """
    cum_prob = _probabilities(current_quantiles, target_quantiles, cum_prob)
    (n_rows, *critics, n_quantiles), (n_target_rows, *target_critics, _) = (
        current_quantiles.shape,
        target_quantiles.shape,
    )
    if n_rows != n_target_rows:
        raise ValueError(
            f"current and target quantiles must be of one batch, not of {n_rows} and {n_target_rows} rows"
        )
    if 0 in (n_rows, *critics, *target_critics):
        return quantile_huber_losses(current_quantiles, target_quantiles, cum_prob, sum_over_quantiles).mean()
    n_losses = n_rows * max((1, *critics, *target_critics)) * (1 if sum_over_quantiles else n_quantiles)
    return quantile_huber(current_quantiles, target_quantiles, cum_prob, scale=1 / n_losses)


def quantile_huber_losses(
    current_quantiles: Tensor,
    target_quantiles: Tensor,
    cum_prob: Tensor | None = None,
    sum_over_quantiles: bool = True,
) -> Tensor:
    """Return the quantile Huber loss of each row (eq. 10 of Dabney et al. 2018, with kappa = 1).

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
    cum_prob = _probabilities(current_quantiles, target_quantiles, cum_prob)
    losses = quantile_huber(current_quantiles, target_quantiles, cum_prob)
    losses = losses.sum(-1) if sum_over_quantiles else losses.mean(-1)
    return losses if losses.dim() == 1 else losses.mean(1)


def _probabilities(current_quantiles: Tensor, target_quantiles: Tensor, cum_prob: Tensor | None) -> Tensor:
    """Return tau as `quantile_huber_losses` takes it, in a shape that broadcasts to the current quantiles."""
    n_axes = current_quantiles.dim()
    if n_axes != target_quantiles.dim() or n_axes not in (2, 3):
        raise ValueError(
            "current and target quantiles must both be [batch, quantiles] or [batch, critics, quantiles], "
            f"not {tuple(current_quantiles.shape)} and {tuple(target_quantiles.shape)}"
        )
    if cum_prob is None:
        of = _midpoints if torch.compiler.is_dynamo_compiling() else midpoints
        return of(current_quantiles.shape[-1], current_quantiles.device)
    return cum_prob.unsqueeze(1) if cum_prob.dim() == 2 and n_axes == 3 else cum_prob

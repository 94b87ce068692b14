"""Diagonal Gaussian squashed to (-1, 1) by a tanh, and its samples with known log-density."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from rlzoo.accel.switch import enabled
from rlzoo.distributions.distribution import (
    LOG_SQRT_2PI,
    SMALLEST_GAP,
    DiagGaussian,
    Squashed,
    inverse_tanh,
    log_tanh_derivative,
)

FAST = enabled("closed_form_backward")


class SquashedDiagGaussian(Squashed, DiagGaussian):
    """Diagonal Gaussian squashed by a tanh, with actions in (-1, 1).

    Source: Haarnoja et al. 2018, https://arxiv.org/abs/1801.01290, appendix C.

    :param epsilon: smallest distance from -1 and 1 when `log_prob` inverts the tanh
    """

    __slots__ = ("epsilon",)

    def __init__(self, action_dim: int, epsilon: float = SMALLEST_GAP) -> None:
        super().__init__(action_dim)
        self.epsilon = epsilon
        self._clear_sample()

    def proba_distribution(self, mean_actions: Tensor, log_std: Tensor) -> SquashedDiagGaussian:
        super().proba_distribution(mean_actions, log_std)
        self._clear_sample()
        return self

    def sample(self) -> Tensor:
        return self._squash(super().sample())

    def mode(self) -> Tensor:
        return self._squash(self.mean)

    def log_prob(self, actions: Tensor, gaussian_actions: Tensor | None = None) -> Tensor:
        """Compute the log-density of squashed actions, [B, A] -> [B].

        :param gaussian_actions: the actions before the tanh, if known; the inverse of the tanh is wrong
            beyond 8.7. Not needed for the actions sampled last
        """
        if gaussian_actions is None:
            gaussian_actions = self._before_tanh(actions, self.epsilon)
        return super().log_prob(gaussian_actions) - log_tanh_derivative(gaussian_actions).sum(dim=-1)

    def entropy(self) -> None:
        """Return None: the entropy has no closed form; estimate it by -log_prob."""
        return None


def sample_squashed(mean: Tensor, log_std: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return reparameterised actions [..., A] of a squashed Gaussian, and their log-density [...].

    The noise is known, so the tanh need not be inverted: with a = tanh(mean + std * noise),
    log p(a) = sum_A [log N(noise; 0, 1) - log std - log(1 - a^2)] (arXiv 1801.01290, eq. 21).

    :param noise: standard normal, of the shape of the mean; None: it is drawn
    """
    if noise is None:
        noise = torch.randn_like(mean)
    if not FAST:
        pre_tanh = mean + log_std.exp() * noise
        log_prob = -(log_std + log_tanh_derivative(pre_tanh) + 0.5 * noise.square()).sum(dim=-1)
        return torch.tanh(pre_tanh), log_prob - mean.shape[-1] * LOG_SQRT_2PI
    sampled: tuple[Tensor, Tensor] = _SampleSquashed.apply(mean, log_std, noise)  # type: ignore[no-untyped-call]
    return sampled


class _SavedTensors(Protocol):
    saved_tensors: tuple[Tensor, Tensor]


class _SampleSquashed(torch.autograd.Function):
    """`sample_squashed` with its derivative in closed form, which needs fewer operations.

    With u = mean + std * noise, da/du = 1 - a^2 and dlog p/du = 2a.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        actions, log_prob, scaled = squash(mean, log_std, noise)
        ctx.save_for_backward(actions, scaled)
        return actions, log_prob

    @staticmethod
    @once_differentiable
    def backward(  # type: ignore[override]
        ctx: _SavedTensors, grad_actions: Tensor, grad_log_prob: Tensor
    ) -> tuple[Tensor, Tensor, None]:
        return *squash_backward(*ctx.saved_tensors, grad_actions, grad_log_prob.unsqueeze(-1)), None


def squash(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the actions and log-densities of `sample_squashed`, and std * noise, [..., A]."""
    scaled = log_std.exp().mul_(noise)
    pre_tanh = mean + scaled
    actions = torch.tanh(pre_tanh)
    log_prob = -(log_std + log_tanh_derivative(pre_tanh) + 0.5 * noise.square()).sum(dim=-1)
    return actions, log_prob - mean.shape[-1] * LOG_SQRT_2PI, scaled


def squash_backward(
    actions: Tensor, scaled: Tensor, grad_actions: Tensor, grad_log_prob: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of mean and log standard deviation, [..., A].

    :param grad_log_prob: broadcasts to the actions
    """
    grad_mean = torch.addcmul(grad_actions, actions, 2 * grad_log_prob - actions * grad_actions)
    return grad_mean, torch.addcmul(-grad_log_prob, grad_mean, scaled)


class TanhBijector(nn.Module):
    """Change of variables by a tanh, to (-1, 1).

    :param epsilon: keeps the logarithm in `log_prob_correction` finite
    """

    def __init__(self, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.epsilon = epsilon

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        """Return tanh(x), elementwise."""
        return torch.tanh(x)

    @staticmethod
    def atanh(x: Tensor) -> Tensor:
        """Return the inverse of tanh, which is infinite at -1 and 1."""
        return torch.atanh(x)

    @staticmethod
    def inverse(y: Tensor) -> Tensor:
        """Return the inverse of tanh, with y clamped by the precision of its dtype to be finite."""
        return inverse_tanh(y, torch.finfo(y.dtype).eps)

    def log_prob_correction(self, x: Tensor) -> Tensor:
        """Return log(1 - tanh(x)^2 + epsilon), elementwise, to subtract from the log-density of x."""
        return torch.log(1.0 - torch.tanh(x).square() + self.epsilon)

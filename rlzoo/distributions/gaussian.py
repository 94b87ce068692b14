"""Diagonal Gaussian distributions, plain and squashed to (-1, 1) by a tanh."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

from rlzoo.accel.switch import enabled
from rlzoo.distributions.distribution import Distribution, linear_head

FAST = enabled("closed_form_backward")

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def gaussian_log_prob(actions: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Return the log-density of a diagonal Gaussian, summed over the last axis, [B, A] -> [B].

    :param log_std: [A] or [B, A]
    """
    z = (actions - mean) * torch.exp(-log_std)
    return -(0.5 * z.square() + log_std).sum(dim=-1) - actions.shape[-1] * LOG_SQRT_2PI


SMALLEST_GAP = 2.0**-24
"""Distance between 1 and the largest float32 below it."""


def inverse_tanh(actions: Tensor, epsilon: float = SMALLEST_GAP) -> Tensor:
    """Return atanh of actions, clamped to a distance of `epsilon` from -1 and 1, where it is infinite.

    For actions whose pre-tanh value is unknown. In float32 the result cannot exceed 8.7, so densities of
    actions closer to the bounds are wrong.
    """
    return torch.atanh(actions.clamp(-1.0 + epsilon, 1.0 - epsilon))


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


class Squashed:
    """Squashed actions, with their values before the tanh (`gaussian_actions`).

    `log_prob` of the tensor that was sampled last does not need the inverse of the tanh.
    """

    gaussian_actions: Tensor | None
    _squashed_actions: Tensor | None

    def _squash(self, gaussian_actions: Tensor) -> Tensor:
        self.gaussian_actions = gaussian_actions
        self._squashed_actions = torch.tanh(gaussian_actions)
        return self._squashed_actions

    def _clear_sample(self) -> None:
        self.gaussian_actions = self._squashed_actions = None

    def _before_tanh(self, actions: Tensor, epsilon: float = SMALLEST_GAP) -> Tensor:
        if actions is self._squashed_actions and self.gaussian_actions is not None:
            return self.gaussian_actions
        return inverse_tanh(actions, epsilon)


def log_tanh_slope(pre_tanh: Tensor) -> Tensor:
    """Return log(1 - tanh(x)^2), elementwise, without cancellation for large |x|."""
    return 2.0 * (math.log(2.0) - pre_tanh - F.softplus(-2.0 * pre_tanh))


def sample_squashed(mean: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
    """Return reparameterised actions [B, A] of a squashed Gaussian, and their log-density [B].

    The noise is known, so the tanh need not be inverted: with a = tanh(mean + std * noise),
    log p(a) = sum_A [log N(noise; 0, 1) - log std - log(1 - a^2)] (Haarnoja et al. 2018, eq. 21).
    """
    if not FAST:
        noise = torch.randn_like(mean)
        pre_tanh = mean + log_std.exp() * noise
        log_prob = -(log_std + log_tanh_slope(pre_tanh) + 0.5 * noise.square()).sum(dim=-1)
        return torch.tanh(pre_tanh), log_prob - mean.shape[-1] * LOG_SQRT_2PI
    sampled: tuple[Tensor, Tensor] = _SampleSquashed.apply(mean, log_std)  # type: ignore[no-untyped-call]
    return sampled


class _SavedTensors(Protocol):
    saved_tensors: tuple[Tensor, Tensor]


class _SampleSquashed(torch.autograd.Function):
    """`sample_squashed` with its derivative in closed form, which needs fewer operations.

    With u = mean + std * noise, da/du = 1 - a^2 and dlog p/du = 2a.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, mean: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
        noise = torch.randn_like(mean)
        scaled = log_std.exp().mul_(noise)
        pre_tanh = mean + scaled
        actions = torch.tanh(pre_tanh)
        log_prob = -(log_std + log_tanh_slope(pre_tanh) + 0.5 * noise.square()).sum(dim=-1)
        ctx.save_for_backward(actions, scaled)
        return actions, log_prob - mean.shape[-1] * LOG_SQRT_2PI

    @staticmethod
    @once_differentiable
    def backward(ctx: _SavedTensors, of_actions: Tensor, of_log_prob: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        actions, scaled = ctx.saved_tensors
        of_log_prob = of_log_prob.unsqueeze(-1)
        gradient = torch.addcmul(of_actions, actions, 2 * of_log_prob - actions * of_actions)
        return gradient, torch.addcmul(-of_log_prob, gradient, scaled)


class DiagGaussian(Distribution):
    """Diagonal Gaussian; its log-std is a parameter or an output of the network. Actions [B, action_dim]."""

    __slots__ = ("action_dim", "log_std", "mean")

    def __init__(self, action_dim: int) -> None:
        self.action_dim = action_dim
        self.mean: Tensor
        self.log_std: Tensor

    def proba_distribution_net(
        self, latent_dim: int, log_std_init: float = 0.0
    ) -> tuple[nn.Linear, nn.Parameter]:
        log_std = nn.Parameter(torch.full((self.action_dim,), float(log_std_init)))
        return linear_head(latent_dim, self.action_dim), log_std

    def proba_distribution(self, mean_actions: Tensor, log_std: Tensor) -> DiagGaussian:
        """Set `mean_actions` [B, action_dim] and `log_std` [action_dim] or [B, action_dim]."""
        self.mean = mean_actions
        self.log_std = log_std
        return self

    @property
    def stddev(self) -> Tensor:
        """Standard deviations, [B, action_dim]."""
        return self.log_std.exp().expand_as(self.mean)

    @property
    def params(self) -> tuple[Tensor, ...]:
        return self.mean, self.log_std

    @property
    def distribution(self) -> torch.distributions.Normal:
        return torch.distributions.Normal(self.mean, self.stddev)

    def sample(self) -> Tensor:
        """Return reparameterised actions [B, action_dim], with gradients for mean and log_std."""
        return torch.addcmul(self.mean, self.log_std.exp(), torch.randn_like(self.mean))

    def mode(self) -> Tensor:
        return self.mean

    def log_prob(self, actions: Tensor) -> Tensor:
        return gaussian_log_prob(actions, self.mean, self.log_std)

    def entropy(self) -> Tensor | None:
        return (self.log_std + (0.5 + LOG_SQRT_2PI)).expand_as(self.mean).sum(dim=-1)

    def kl(self, other: DiagGaussian) -> Tensor:
        gap = other.log_std - self.log_std
        moved = ((self.mean - other.mean) * torch.exp(-other.log_std)).square()
        return (gap + 0.5 * (torch.exp(-2.0 * gap) + moved) - 0.5).sum(dim=-1)


class SquashedDiagGaussian(Squashed, DiagGaussian):
    """Diagonal Gaussian squashed by a tanh, with actions in (-1, 1) (Haarnoja et al., 2018, appendix C).

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
        return super().log_prob(gaussian_actions) - log_tanh_slope(gaussian_actions).sum(dim=-1)

    def entropy(self) -> None:
        """Return None: the entropy has no closed form; estimate it by -log_prob."""
        return None

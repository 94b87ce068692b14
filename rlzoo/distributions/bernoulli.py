"""Bernoulli distribution, of MultiBinary actions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlzoo.distributions.distribution import Distribution, linear_head


class Bernoulli(Distribution):
    """Independent Bernoulli distributions of `action_dims` bits; actions are 0.0 or 1.0, [B, action_dims]."""

    __slots__ = ("action_dims", "logits")

    def __init__(self, action_dims: int) -> None:
        self.action_dims = action_dims
        self.logits: Tensor

    def proba_distribution_net(self, latent_dim: int) -> nn.Linear:
        return linear_head(latent_dim, self.action_dims)

    def proba_distribution(self, action_logits: Tensor) -> Bernoulli:
        """Set the log-odds of 1, [B, action_dims]."""
        self.logits = action_logits
        return self

    @property
    def probs(self) -> Tensor:
        """Probability of 1, [B, action_dims]."""
        return self.logits.sigmoid()

    @property
    def params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    @property
    def distribution(self) -> torch.distributions.Bernoulli:
        return torch.distributions.Bernoulli(logits=self.logits)

    def sample(self) -> Tensor:
        return (torch.rand_like(self.logits) < self.probs).to(self.logits.dtype)

    def mode(self) -> Tensor:
        return (self.logits > 0).to(self.logits.dtype)

    def log_prob(self, actions: Tensor) -> Tensor:
        # log sigmoid(l) for 1, log sigmoid(-l) for 0
        return F.logsigmoid(self.logits * (2.0 * actions - 1.0)).sum(dim=-1)

    def entropy(self) -> Tensor:
        # H = -p log p - (1-p) log (1-p), with log p = -softplus(-l) and log (1-p) = -softplus(l)
        return (F.softplus(self.logits) - self.logits * self.probs).sum(dim=-1)

    def kl(self, other: Bernoulli) -> Tensor:
        ones, zeros = self.probs, (-self.logits).sigmoid()
        gap_ones = F.logsigmoid(self.logits) - F.logsigmoid(other.logits)
        gap_zeros = F.logsigmoid(-self.logits) - F.logsigmoid(-other.logits)
        return (ones * gap_ones + zeros * gap_zeros).sum(dim=-1)

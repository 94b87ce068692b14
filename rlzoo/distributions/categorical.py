"""Distributions over choices: one of n (Discrete) and one of n for each of several (MultiDiscrete)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rlzoo.distributions.base import Distribution, gumbel_argmax, linear_head


class Categorical(Distribution):
    """One choice out of `action_dim`; actions are indices, [B]."""

    __slots__ = ("_log_probs", "action_dim", "logits")

    def __init__(self, action_dim: int) -> None:
        self.action_dim = action_dim
        self.logits: Tensor
        self._log_probs: Tensor | None = None

    def proba_distribution_net(self, latent_dim: int) -> nn.Linear:
        return linear_head(latent_dim, self.action_dim)

    def proba_distribution(self, action_logits: Tensor) -> Categorical:
        """:param action_logits: unnormalised log-probabilities, [B, action_dim]"""
        self.logits = action_logits
        self._log_probs = None
        return self

    @property
    def log_probs(self) -> Tensor:
        """Normalised log-probabilities, [B, action_dim]."""
        if self._log_probs is None:
            self._log_probs = self.logits.log_softmax(dim=-1)
        return self._log_probs

    @property
    def probs(self) -> Tensor:
        """Probabilities, [B, action_dim]."""
        return self.log_probs.exp()

    def sample(self) -> Tensor:
        return gumbel_argmax(self.logits)

    def mode(self) -> Tensor:
        return self.logits.argmax(dim=-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        return self.log_probs.gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        return -plogp(self.log_probs).sum(dim=-1)

    def log_prob_and_entropy(self, actions: Tensor) -> tuple[Tensor, Tensor]:
        return _CategoricalTerms.apply(self.logits, actions.long())  # type: ignore[no-any-return]

    def kl(self, other: Categorical) -> Tensor:
        probs = self.probs
        # an impossible choice adds nothing, also where the other has it impossible too (inf - inf)
        terms = torch.where(probs > 0, probs * (self.log_probs - other.log_probs), 0.0)
        return terms.sum(dim=-1)


class MultiCategorical(Distribution):
    """Independent choices, the i-th out of `action_dims[i]`; actions are indices, [B, len(action_dims)]."""

    __slots__ = ("action_dims", "parts")

    def __init__(self, action_dims: Sequence[int]) -> None:
        self.action_dims = [int(n) for n in action_dims]
        self.parts: list[Categorical] = []

    def proba_distribution_net(self, latent_dim: int) -> nn.Linear:
        return linear_head(latent_dim, sum(self.action_dims))

    def proba_distribution(self, action_logits: Tensor) -> MultiCategorical:
        """:param action_logits: the logits of all choices side by side, [B, sum(action_dims)]"""
        split = torch.split(action_logits, self.action_dims, dim=-1)
        self.parts = [
            Categorical(n).proba_distribution(part) for n, part in zip(self.action_dims, split, strict=True)
        ]
        return self

    def sample(self) -> Tensor:
        return torch.stack([part.sample() for part in self.parts], dim=-1)

    def mode(self) -> Tensor:
        return torch.stack([part.mode() for part in self.parts], dim=-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        columns = actions.unbind(dim=-1)
        return torch.stack(
            [part.log_prob(column) for part, column in zip(self.parts, columns, strict=True)]
        ).sum(dim=0)

    def entropy(self) -> Tensor:
        return torch.stack([part.entropy() for part in self.parts]).sum(dim=0)

    def kl(self, other: MultiCategorical) -> Tensor:
        return torch.stack(
            [mine.kl(theirs) for mine, theirs in zip(self.parts, other.parts, strict=True)]
        ).sum(dim=0)


class _CategoricalTerms(torch.autograd.Function):
    """Log-probability and entropy as one node: logits [B, n], actions [B] -> [B], [B].

    With p = softmax(logits), H the entropy and e_a the one-hot action,
    d log p(a) / d logits = e_a - p   and   d H / d logits = -p (log p + H).
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = logits.log_softmax(dim=-1)
        weighted = plogp(log_probs)
        entropy = weighted.sum(dim=-1).neg_()
        index = actions.unsqueeze(-1)
        ctx.save_for_backward(log_probs, weighted, entropy, index)
        ctx.set_materialize_grads(False)
        return log_probs.gather(-1, index).squeeze(-1), entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_log_prob: Tensor | None, grad_entropy: Tensor | None) -> tuple[Tensor, None]:
        log_probs, weighted, entropy, index = ctx.saved_tensors
        probs = log_probs.exp()
        grad = torch.zeros_like(probs)
        if grad_entropy is not None:
            grad.add_(weighted).addcmul_(probs, entropy.unsqueeze(-1)).mul_(grad_entropy.unsqueeze(-1)).neg_()
        if grad_log_prob is not None:
            column = grad_log_prob.unsqueeze(-1)
            grad.addcmul_(probs, column, value=-1.0).scatter_add_(-1, index, column)
        return grad, None


def plogp(log_probs: Tensor) -> Tensor:
    """p log p, elementwise, with 0 log 0 = 0 (a masked choice has log-probability -inf)."""
    return log_probs.exp() * log_probs.clamp(min=torch.finfo(log_probs.dtype).min)

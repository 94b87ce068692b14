"""Categorical distributions, of Discrete and MultiDiscrete actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, SupportsIndex

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlzoo.core.errors import UserError
from rlzoo.distributions.distribution import Distribution, gumbel_argmax, linear_head


class Categorical(Distribution):
    """Categorical distribution over `action_dim` choices; actions are indices, [B]."""

    __slots__ = ("_log_probs", "action_dim", "logits")

    def __init__(self, action_dim: int) -> None:
        self.action_dim = action_dim
        self.logits: Tensor
        self._log_probs: Tensor | None = None

    def proba_distribution_net(self, latent_dim: int) -> nn.Linear:
        return linear_head(latent_dim, self.action_dim)

    def proba_distribution(self, action_logits: Tensor) -> Categorical:
        """Set the unnormalised log-probabilities, [B, action_dim]."""
        self.logits = action_logits
        self._log_probs = None
        return self

    @property
    def log_probs(self) -> Tensor:
        """Normalised log-probabilities, [B, action_dim], cached for log_prob, entropy and kl."""
        cached = self._log_probs
        # values computed under no_grad cannot be used in a loss
        lacks_graph = cached is not None and self.logits.requires_grad and not cached.requires_grad
        if cached is None or (lacks_graph and torch.is_grad_enabled()):
            cached = self._log_probs = self.logits.log_softmax(dim=-1)
        return cached

    @property
    def probs(self) -> Tensor:
        """Probabilities, [B, action_dim]."""
        return self.log_probs.exp()

    @property
    def params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    @property
    def distribution(self) -> torch.distributions.Categorical:
        return torch.distributions.Categorical(logits=self.logits)

    def sample(self) -> Tensor:
        return gumbel_argmax(self.logits)

    def mode(self) -> Tensor:
        return self.logits.argmax(dim=-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        log_probs = self.log_probs
        if actions.shape != log_probs.shape[:-1]:  # broadcast one distribution or one action
            shape = torch.broadcast_shapes(actions.shape, log_probs.shape[:-1])
            index = actions.long().expand(shape).unsqueeze(-1)
            return log_probs.expand(*shape, self.action_dim).gather(-1, index).squeeze(-1)
        return -F.nll_loss(log_probs, actions.long(), reduction="none")  # a gather in one operation

    def entropy(self) -> Tensor:
        # 0 log 0 is 0: an impossible choice has log-probability -inf, and 0 * inf would be nan
        finite = self.log_probs.clamp(min=torch.finfo(self.log_probs.dtype).min)
        return -(self.probs * finite).sum(dim=-1)

    def kl(self, other: Categorical) -> Tensor:
        probs = self.probs
        # an impossible choice adds nothing, even if it is impossible in `other`, too (inf - inf)
        return torch.where(probs > 0, probs * (self.log_probs - other.log_probs), 0.0).sum(dim=-1)


class Unfilled(list[Categorical]):
    """Placeholder for the parts of a distribution before `proba_distribution` is called."""

    def __iter__(self) -> Iterator[Categorical]:
        raise UserError("this distribution has no parameters yet: call proba_distribution() first")

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[type[Unfilled], tuple[()]]:
        return Unfilled, ()  # copies of a policy hold it; iterating to copy its items would raise


class MultiCategorical(Distribution):
    """Independent categorical distributions over `action_dims[i]` choices; actions [B, len(action_dims)]."""

    __slots__ = ("action_dims", "parts")
    part_class: ClassVar[type[Categorical]] = Categorical

    def __init__(self, action_dims: Sequence[int]) -> None:
        self.action_dims = [int(n) for n in action_dims]
        self.parts: list[Categorical] = Unfilled()  # of `part_class`

    def proba_distribution_net(self, latent_dim: int) -> nn.Linear:
        return linear_head(latent_dim, sum(self.action_dims))

    def proba_distribution(self, action_logits: Tensor) -> MultiCategorical:
        """Set the concatenated logits of all dimensions.

        :param action_logits: [B, sum(action_dims)]
        """
        split = torch.split(action_logits, self.action_dims, dim=-1)
        self.parts = [
            self.part_class(n).proba_distribution(part)
            for n, part in zip(self.action_dims, split, strict=True)
        ]
        return self

    @property
    def distribution(self) -> list[torch.distributions.Categorical]:
        return [part.distribution for part in self.parts]

    distributions = distribution

    @property
    def params(self) -> tuple[Tensor, ...]:
        return tuple(part.logits for part in self.parts)

    def sample(self) -> Tensor:
        return torch.stack([part.sample() for part in self.parts], dim=-1)

    def mode(self) -> Tensor:
        return torch.stack([part.mode() for part in self.parts], dim=-1)

    def log_prob(self, actions: Tensor) -> Tensor:
        columns = actions.unbind(dim=-1)
        terms = [part.log_prob(column) for part, column in zip(self.parts, columns, strict=True)]
        return torch.stack(terms).sum(dim=0)

    def entropy(self) -> Tensor:
        return torch.stack([part.entropy() for part in self.parts]).sum(dim=0)

    def kl(self, other: MultiCategorical) -> Tensor:
        terms = [mine.kl(theirs) for mine, theirs in zip(self.parts, other.parts, strict=True)]
        return torch.stack(terms).sum(dim=0)

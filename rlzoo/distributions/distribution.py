"""Base class of action distributions, and those of discrete actions.

A distribution holds the parameters of one batch. It checks no arguments, because it is filled at every step.
Shapes: B is the batch size, A the number of action dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlzoo.core.errors import UserError

if TYPE_CHECKING:
    from typing_extensions import Self


class Distribution:
    """Distribution of a batch of actions; made once per policy, and filled by `proba_distribution`.

    `proba_distribution` sets the parameters of the object and returns it. Copy it (`copy.copy`) to keep it
    beyond the next call; `ActorCriticPolicy.get_distribution` returns a copy.
    """

    __slots__ = ()

    def proba_distribution_net(self, latent_dim: int, *args: Any, **kwargs: Any) -> Any:
        """Return the layer from latents [B, latent_dim] to parameters, or a pair of it and the log-std."""
        raise NotImplementedError

    def proba_distribution(self, *params: Any, **named_params: Any) -> Self:
        """Set the parameters of a batch; return the distribution itself."""
        raise NotImplementedError

    @property
    def distribution(self) -> torch.distributions.Distribution | Sequence[torch.distributions.Distribution]:
        """The distribution as one of `torch.distributions` (a list of them for a MultiDiscrete).

        Its `log_prob` and `entropy` are per dimension, and it is the distribution before a tanh.
        """
        raise NotImplementedError

    @property
    def params(self) -> tuple[Tensor, ...]:
        """The parameter tensors; they determine the distribution."""
        raise NotImplementedError

    def sample(self) -> Tensor:
        """Return random actions, [B, A] (Categorical: [B])."""
        raise NotImplementedError

    def mode(self) -> Tensor:
        """Return the most likely actions, in the shape of `sample`."""
        raise NotImplementedError

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return the log-density (or log-probability) of each row of actions, [B]."""
        raise NotImplementedError

    def entropy(self) -> Tensor | None:
        """Return the entropy in nats, [B]; None if it has no closed form."""
        raise NotImplementedError

    def kl(self, other: Any) -> Tensor:
        """Return KL(self || other) in nats, [B]; `other` is of the same class."""
        raise NotImplementedError

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """Return the mode if deterministic, else a sample."""
        return self.mode() if deterministic else self.sample()

    def actions_from_params(self, *params: Any, deterministic: bool = False, **named_params: Any) -> Tensor:
        """Set the parameters of a batch; return its mode or a sample."""
        self.proba_distribution(*params, **named_params)
        return self.get_actions(deterministic=deterministic)

    def log_prob_from_params(self, *params: Any, **named_params: Any) -> tuple[Tensor, Tensor]:
        """Set the parameters of a batch; return a sample and its log-probability."""
        self.proba_distribution(*params, **named_params)
        actions = self.sample()
        return actions, self.log_prob(actions)


def sum_independent_dims(tensor: Tensor) -> Tensor:
    """Sum the log-probabilities of independent dimensions, [B, A] -> [B]; a vector to one number."""
    return tensor.sum(dim=1) if tensor.dim() > 1 else tensor.sum()


def kl_divergence(dist_true: Distribution, dist_pred: Distribution) -> Tensor:
    """Return KL(dist_true || dist_pred) in nats, [B].

    :raises UserError: the distributions are of different classes
    """
    if type(dist_true) is not type(dist_pred):
        raise UserError(
            f"the KL divergence is between distributions of one class, not {type(dist_true).__name__} and "
            f"{type(dist_pred).__name__}"
        )
    return dist_true.kl(dist_pred)


def linear_head(latent_dim: int, n_params: int) -> nn.Linear:
    """Return a linear layer from latents to distribution parameters."""
    return nn.Linear(latent_dim, n_params)


def gumbel_argmax(logits: Tensor, exponentials: Tensor | None = None) -> Tensor:
    """Sample an index per row with probabilities softmax(logits), [..., n] -> [...].

    The arg max of p_i / E_i with E_i ~ Exp(1) has distribution p; in log space p needs no normalisation.

    :param exponentials: the E_i, where they were drawn before; they are overwritten
    """
    if exponentials is None:
        exponentials = torch.empty_like(logits).exponential_()
    return (logits - exponentials.log_()).argmax(dim=-1)


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

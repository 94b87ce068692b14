"""Base class of action distributions.

A distribution holds the parameters of one batch. It checks no arguments, because it is filled at every step.
Shapes: B is the batch size, A the number of action dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

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


def gumbel_argmax(logits: Tensor) -> Tensor:
    """Sample an index per row with probabilities softmax(logits), [..., n] -> [...].

    The arg max of p_i / E_i with E_i ~ Exp(1) has distribution p; in log space p needs no normalisation.
    """
    return (logits - torch.empty_like(logits).exponential_().log_()).argmax(dim=-1)

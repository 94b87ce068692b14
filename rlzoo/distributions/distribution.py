"""The face that every action distribution has.

A distribution holds the tensors of one batch and nothing else: no argument checks and no broadcasting
machinery, as it is rebuilt on every step. `B` below is the batch size, `A` the number of action dimensions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rlzoo.core.errors import UserError


class Distribution:
    """Actions of one batch: built once per policy, then filled by `proba_distribution` and read.

    `proba_distribution` fills the object it is called on and returns it, so keep a copy (`copy.copy`) of one
    that must outlive the next call; `ActorCriticPolicy.get_distribution` hands out such a copy.
    """

    __slots__ = ()

    def proba_distribution_net(self, latent_dim: int, *args: Any, **kwargs: Any) -> Any:
        """The module from latents [B, latent_dim] to parameters, and the log-std where there is one."""
        raise NotImplementedError

    def proba_distribution(self, *params: Any, **named_params: Any) -> Any:
        """Take over the parameters of a batch; returns self."""
        raise NotImplementedError

    @property
    def distribution(self) -> Any:
        """The same distribution as one of `torch.distributions`, made when it is asked for.

        It has independent dimensions, so that its `log_prob` and `entropy` are per dimension, and is the one
        before a tanh. A list of them where there are several choices.
        """
        raise NotImplementedError

    @property
    def params(self) -> tuple[Tensor, ...]:
        """The tensors that the networks gave; on them alone the distribution depends."""
        raise NotImplementedError

    def sample(self) -> Tensor:
        """Random actions, [B, A] (Categorical: [B])."""
        raise NotImplementedError

    def mode(self) -> Tensor:
        """The most likely actions, shaped as `sample`."""
        raise NotImplementedError

    def log_prob(self, actions: Tensor) -> Tensor:
        """Log-density (or log-probability) of each row of actions, [B]."""
        raise NotImplementedError

    def entropy(self) -> Tensor | None:
        """Entropy in nats, [B]; None where it has no closed form."""
        raise NotImplementedError

    def kl(self, other: Any) -> Tensor:
        """KL(self || other) in nats, [B]; `other` is a distribution of the same class."""
        raise NotImplementedError

    def get_actions(self, deterministic: bool = False) -> Tensor:
        """The mode if deterministic, a sample if not."""
        return self.mode() if deterministic else self.sample()

    def actions_from_params(self, *params: Any, deterministic: bool = False, **named_params: Any) -> Tensor:
        """Actions of the distribution with these parameters."""
        self.proba_distribution(*params, **named_params)
        return self.get_actions(deterministic=deterministic)

    def log_prob_from_params(self, *params: Any, **named_params: Any) -> tuple[Tensor, Tensor]:
        """A sample of the distribution with these parameters, and its log-probability."""
        self.proba_distribution(*params, **named_params)
        actions = self.sample()
        return actions, self.log_prob(actions)


def sum_independent_dims(tensor: Tensor) -> Tensor:
    """Sum over the action axis, as independent dimensions add up: [B, A] -> [B]; [B] -> one number."""
    return tensor.sum(dim=1) if tensor.dim() > 1 else tensor.sum()


def kl_divergence(dist_true: Distribution, dist_pred: Distribution) -> Tensor:
    """KL(dist_true || dist_pred) in nats, [B].

    :raises UserError: when the two are not of one class
    """
    if type(dist_true) is not type(dist_pred):
        raise UserError(
            f"the KL divergence is between distributions of one class, not {type(dist_true).__name__} and "
            f"{type(dist_pred).__name__}"
        )
    return dist_true.kl(dist_pred)


def linear_head(latent_dim: int, n_params: int) -> nn.Linear:
    """The usual last layer: latent -> distribution parameters."""
    return nn.Linear(latent_dim, n_params)


def gumbel_argmax(logits: Tensor) -> Tensor:
    """One index per row with probability softmax(logits), [..., n] -> [...].

    The arg max of p_i / E_i with E_i ~ Exp(1) has distribution p (the first arrival of exponential clocks);
    in logs no normalisation is needed.
    """
    return (logits - torch.empty_like(logits).exponential_().log_()).argmax(dim=-1)

"""Actor-critic policies of several trainings: what `ActorCriticPolicy` does, for tensors [n, B, ...]."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rlzoo.accel.fast_mlp import Terms, as_array
from rlzoo.accel.flat_parameters import ParameterGroup
from rlzoo.core.types import TensorObs
from rlzoo.distributions import Categorical, DiagGaussian
from rlzoo.distributions.distribution import gumbel_argmax
from rlzoo.networks.torch_layers import FlattenExtractor
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy, terms_class
from rlzoo.stacked.stacked_mlp import Layout, Leaves, StackedMLP, can_be_stacked


def policy_problem(policy: object) -> str | None:
    """Return why several policies cannot be computed at once, else None."""
    if type(policy) is not ActorCriticPolicy:
        return f"the policy is a {type(policy).__name__}, no MlpPolicy"
    if not policy.share_features_extractor:
        return "its actor and critic have separate feature extractors"
    if type(policy.features_extractor) is not FlattenExtractor:
        return f"its features come from a {type(policy.features_extractor).__name__}"
    if type(policy.action_dist) not in (Categorical, DiagGaussian):
        return f"its actions are drawn from a {type(policy.action_dist).__name__}"
    extractor = policy.mlp_extractor
    networks = [extractor.policy_net, extractor.value_net, policy.action_net, policy.value_net]
    if extractor.has_shared_net:
        networks.append(extractor.shared_net)
    if not all(can_be_stacked(network) for network in networks):
        return "its networks have layers other than linear, tanh and ReLU"
    return None


class _Terms(torch.autograd.Function):
    """See `terms_with_graph`."""

    @staticmethod
    def forward(ctx: Any, terms: Terms, *params: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        ctx.set_materialize_grads(False)
        ctx.terms = terms
        log_prob, entropy = map(torch.from_numpy, terms.outputs)
        return log_prob, entropy

    @staticmethod
    def backward(ctx: Any, *of_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        return None, *map(torch.from_numpy, ctx.terms.gradients(*map(as_array, of_outputs)))


def terms_with_graph(terms: Terms, params: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and entropies as an operation of autograd on a distribution's parameters."""
    made: tuple[Tensor, Tensor] = _Terms.apply(terms, *params)  # type: ignore[no-untyped-call]
    return made


class StackedActorCritic:
    """`evaluate_actions` and `act` of n policies with networks of the same shape.

    `leaves` are their parameters; set them before a call.

    :param policy: one of the policies
    :param parameters: its parameters
    """

    leaves: Leaves

    def __init__(self, policy: ActorCriticPolicy, parameters: ParameterGroup) -> None:
        self.layout = layout = Layout(parameters)
        extractor = policy.mlp_extractor
        self.shared = StackedMLP([extractor.shared_net] if extractor.has_shared_net else [], layout)
        self.actor = StackedMLP([extractor.policy_net, policy.action_net], layout)
        self.critic = StackedMLP([extractor.value_net, policy.value_net], layout)
        self.distribution = copy.copy(policy.action_dist)
        self.log_std = layout.index(policy.log_std) if hasattr(policy, "log_std") else None
        self.n_noise = policy.action_net.out_features

    def evaluate_actions(
        self, obs: TensorObs, actions: Tensor, **context: object
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Compute values [n, B, 1], log-probabilities of actions [n, B] and entropies [n, B].

        :param obs: features [n, B, F]
        """
        assert isinstance(obs, Tensor)
        latent = self.shared(obs, self.leaves)
        log_probs, entropy = self._log_probs(self.actor(latent, self.leaves), actions)
        return self.critic(latent, self.leaves), log_probs, entropy

    def _log_probs(self, params: Tensor, actions: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return log-probabilities of actions and entropies, [n, B].

        :param params: output of the actor, [n, B, A]
        """
        if self.log_std is None:
            actions = actions.view(params.shape[:2])
            distribution = self.distribution.proba_distribution(params)
        else:
            actions = actions.reshape(params.shape)
            distribution = self.distribution.proba_distribution(
                params, self.leaves[self.log_std].unsqueeze(1)
            )
        if (kind := terms_class(distribution, actions)) is not None:  # as for a single policy
            return terms_with_graph(kind(distribution, actions), distribution.params)
        if self.log_std is not None:
            return distribution.log_prob(actions), distribution.entropy()
        distribution.proba_distribution(params.flatten(0, 1))
        log_probs, entropy = distribution.log_prob(actions.flatten()), distribution.entropy()
        return log_probs.view(actions.shape), None if entropy is None else entropy.view(actions.shape)

    def noise(self, n_rows: int) -> Tensor:
        """Draw what `act` needs for one training, as its own policy draws it, [n_rows, A]."""
        if self.log_std is None:
            return torch.empty(n_rows, self.n_noise).exponential_()
        return torch.randn(n_rows, self.n_noise)

    def act(self, features: Tensor, noise: Tensor) -> Tensor:
        """Return actions, [n, B] or [n, B, A].

        :param features: [n, B, F]
        :param noise: [n, B, A]
        """
        params = self.actor(self.shared(features, self.leaves), self.leaves)
        if self.log_std is None:
            return gumbel_argmax(params, noise)
        return torch.addcmul(params, self.leaves[self.log_std].exp().unsqueeze(1), noise)

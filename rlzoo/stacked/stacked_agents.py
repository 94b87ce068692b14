"""Several agents of an off-policy algorithm, whose `gradient_step` is called once for all.

`SAC.gradient_step` and its like compute with `self.policy`, `self.critic_optimizer` and so on. The classes
here have these attributes, for tensors with one more axis in front, n, over the agents: [n, B, ...] for
[B, ...].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from rlzoo.accel.batched_linear import batched_linear
from rlzoo.accel.flat_parameters import ParameterGroup
from rlzoo.algorithms.off_policy.actor_critic import ActorCriticAlgorithm
from rlzoo.algorithms.off_policy.dqn import DQN
from rlzoo.algorithms.off_policy.entropy_coefficient import EntropyCoefficient
from rlzoo.algorithms.off_policy.off_policy_algorithm import OffPolicyAlgorithm
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.core.types import Metrics
from rlzoo.distributions.squashed_gaussian import sample_squashed
from rlzoo.networks.ensemble import EnsembleLinear
from rlzoo.optim.network_optimizer import HasOptimizer
from rlzoo.optim.polyak import TargetNetwork, polyak_update
from rlzoo.policies.actors import LOG_STD_MAX, LOG_STD_MIN, Actor, SquashedGaussianActor
from rlzoo.policies.critics import Critics
from rlzoo.stacked.optimizers import step_of_all
from rlzoo.stacked.stacked_mlp import Layout, StackedMLP, StackedParameters, linear

Learner = TypeVar("Learner", bound=OffPolicyAlgorithm)


class StackedOptimizer:
    """`NetworkOptimizer` of n agents.

    :param owners: have an `optimizer` each
    """

    def __init__(self, owners: Sequence[HasOptimizer], parameters: StackedParameters) -> None:
        self.owners, self.parameters = owners, parameters

    def recorded(self) -> AbstractContextManager[None]:
        """See `NetworkOptimizer.recorded`; stacked networks are left to autograd."""
        return nullcontext()

    def step(self, losses: Tensor, max_grad_norm: float | None = None) -> None:
        """Take a step of each agent along the gradient of its loss, [n]."""
        optimizers = [owner.optimizer for owner in self.owners]
        step_of_all(optimizers, losses, self.parameters.leaves, max_grad_norm)
        self.parameters.is_stale = True


class StackedTargets:
    """`TargetNetwork` of n agents.

    :param layout: of the parameters, as of the online networks
    """

    def __init__(self, targets: Sequence[TargetNetwork], layout: Layout) -> None:
        self.sources = [target.sources[0] for target in targets]
        self.targets = [target.targets[0] for target in targets]
        parameters = [p for target in targets for p in target.target.parameters()]
        self.parameters = StackedParameters(self.targets, parameters, layout)

    def update(self, tau: float) -> None:
        """See `TargetNetwork.update`."""
        polyak_update(self.sources, self.targets, tau)
        self.parameters.is_stale = True


class StackedEntropyCoefficient:
    """`EntropyCoefficient` of n agents, whose values are [n, 1]."""

    def __init__(self, coefficients: Sequence[EntropyCoefficient]) -> None:
        self.coefficients, first = coefficients, coefficients[0]
        if first.learned:
            groups = [coefficient.minimizer.parameters for coefficient in coefficients]
            self.parameters = stacked_parameters(groups)
            self.minimizer = StackedOptimizer(coefficients, self.parameters)

    def value(self) -> Tensor:
        """See `EntropyCoefficient.value`."""
        return torch.stack([coefficient.value() for coefficient in self.coefficients]).unsqueeze(1)

    def update(self, log_probs: Tensor) -> tuple[Tensor, Tensor | None]:
        """See `EntropyCoefficient.update`.

        :param log_probs: [n, B]
        """
        ent_coef, first = self.value(), self.coefficients[0]
        if not first.learned:
            return ent_coef, None
        (log_ent_coef,) = self.parameters.leaves  # [n, 1]
        losses = -log_ent_coef.squeeze(1) * (log_probs.mean(1) + first.target_entropy)
        self.minimizer.step(losses)
        return ent_coef, losses.detach()


class StackedNetwork:
    """A network of n agents: [n, B, in] -> [n, B, out]."""

    def __init__(self, network: nn.Module, parameters: StackedParameters) -> None:
        self.mlp, self.parameters = StackedMLP([network], parameters.layout), parameters

    def __call__(self, x: Tensor) -> Tensor:
        return self.mlp(x, self.parameters.leaves)


class StackedSquashedActor:
    """`SquashedGaussianActor` of n agents.

    :param noise: of each call of `action_log_prob`, [n, B, action_dim]
    """

    noise: Iterator[Tensor]

    def __init__(self, actor: SquashedGaussianActor, parameters: StackedParameters) -> None:
        layout, self.parameters = parameters.layout, parameters
        self.latent = StackedMLP([actor.latent_pi], layout)
        self.mean = StackedMLP([actor.mu], layout)
        self.log_std = StackedMLP([cast(nn.Module, actor.log_std)], layout)

    def distribution(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log standard deviation before the tanh, [n, B, action_dim]."""
        leaves = self.parameters.leaves
        latent = self.latent(obs, leaves)
        return self.mean(latent, leaves), self.log_std(latent, leaves).clamp(LOG_STD_MIN, LOG_STD_MAX)

    def action_log_prob(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """See `SquashedGaussianActor.action_log_prob`."""
        return sample_squashed(*self.distribution(obs), next(self.noise))


class StackedCritics:
    """`Critics` of n agents.

    :param critics: of one agent
    :param parameters: of all, with a `merged` layout
    """

    def __init__(self, critics: Critics, parameters: StackedParameters) -> None:
        self.n_critics, self.parameters = critics.n_critics, parameters
        index = parameters.layout.index
        self.layers = [
            (layer, index(layer.weight) if isinstance(layer, EnsembleLinear) else -1)
            for layer in critics.layers
        ]

    def all_values(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Return values [n, n_critics, B, n_outputs]."""
        x = torch.cat([obs, actions], -1)
        shape = (len(x), self.n_critics, *x.shape[1:])
        x = x.unsqueeze(1).expand(shape).reshape(-1, *shape[2:])
        leaves = self.parameters.leaves
        for layer, weight in self.layers:
            x = layer(x) if weight < 0 else batched_linear(x, leaves[weight], leaves[weight + 1])
        return x.view(*shape[:3], -1)

    def first_values(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Compute values [n, B, n_outputs] of the first critic of each agent; it gets no gradients."""
        x, step = torch.cat([obs, actions], -1), self.n_critics
        first = [leaf.detach()[::step] for leaf in self.parameters.leaves]
        for layer, k in self.layers:
            x = layer(x) if k < 0 else linear(x, first[k].mT, first[k + 1][:, 0])
        return x


class StackedPolicy:
    """Networks of n agents, under the names of their policy.

    :param noise: of each call of `randn_like`
    """

    noise: Iterator[Tensor]
    dropout = 0.0
    q_net: StackedNetwork
    q_net_target: StackedNetwork
    actor: StackedNetwork | StackedSquashedActor
    actor_target: StackedNetwork
    critic: StackedCritics
    critic_target: StackedCritics

    def randn_like(self, actions: Tensor) -> Tensor:
        """Return the noise of target actions, [n, B, action_dim]."""
        return next(self.noise)


class Agents(Protocol):
    """What a stack of agents does."""

    policy: StackedPolicy
    parameters: list[StackedParameters]

    def act(self, features: Tensor, noise: Tensor | None) -> Tensor:
        """Return actions that explore, as they are stored, [n, B, ...], for features [n, B, F]."""


class QLearningAgents:
    """n agents of DQN."""

    def __init__(self, models: Sequence[DQN]) -> None:
        first = models[0]
        self.config, self.policy = first.config, StackedPolicy()
        online = stacked_parameters([model.flat for model in models])
        target = StackedTargets([model.target_q_net for model in models], online.layout).parameters
        self.parameters = [online, target]
        q_net = cast(nn.Module, first.policy.q_net.q_net)
        self.policy.q_net, self.policy.q_net_target = (
            StackedNetwork(q_net, parameters) for parameters in (online, target)
        )
        self.network_optimizer = StackedOptimizer([model.policy for model in models], online)

    def act(self, features: Tensor, noise: Tensor | None) -> Tensor:
        """Return the best actions, [n, B]."""
        return self.policy.q_net(features).argmax(-1)


class ActorCriticAgents:
    """n agents of SAC, TD3 or TQC."""

    def __init__(self, models: Sequence[ActorCriticAlgorithm]) -> None:
        first, policies = models[0], [model.policy for model in models]
        self.config, self.policy, policy = first.config, StackedPolicy(), first.policy
        actor = stacked_parameters([model.actor_flat for model in models])
        critic = stacked_parameters([model.critic_flat for model in models], merged=True)
        self.policy.actor = stacked_actor(policy.actor, actor)
        self.policy.critic = StackedCritics(policy.critic, critic)
        self.actor_optimizer = StackedOptimizer([policy.actor for policy in policies], actor)
        self.critic_optimizer = StackedOptimizer([policy.critic for policy in policies], critic)
        self.target_critic = StackedTargets([model.target_critic for model in models], critic.layout)
        self.parameters = [actor, critic, self.target_critic.parameters]
        self.policy.critic_target = StackedCritics(policy.critic, self.target_critic.parameters)
        if policy.with_target_actor:
            self.target_actor = StackedTargets([model.target_actor for model in models], actor.layout)
            self.parameters.append(self.target_actor.parameters)
            self.policy.actor_target = StackedNetwork(policy.actor.mu, self.target_actor.parameters)
        if hasattr(first.config, "ent_coef"):
            coefficients = [model.entropy_coefficient for model in models]
            self.entropy_coefficient = StackedEntropyCoefficient(coefficients)
            if coefficients[0].learned:
                self.parameters.append(self.entropy_coefficient.parameters)

    def act(self, features: Tensor, noise: Tensor | None) -> Tensor:
        """Return actions in [-1, 1], [n, B, action_dim]."""
        actor = self.policy.actor
        if isinstance(actor, StackedNetwork):
            return actor(features)
        mean, log_std = actor.distribution(features)
        assert noise is not None
        return torch.tanh(torch.addcmul(mean, log_std.exp(), noise))


def stacked_parameters(groups: Sequence[ParameterGroup], merged: bool = False) -> StackedParameters:
    """Return the parameters of n agents; see `Layout`."""
    parameters = [parameter for group in groups for parameter in group.parameters]
    return StackedParameters([group.vector for group in groups], parameters, Layout(groups[0], merged))


def stacked_actor(
    actor: Actor | SquashedGaussianActor, parameters: StackedParameters
) -> StackedNetwork | StackedSquashedActor:
    """Return the actors of n agents."""
    if isinstance(actor, SquashedGaussianActor):
        return StackedSquashedActor(actor, parameters)
    return StackedNetwork(actor.mu, parameters)


def stacked_agents(models: Sequence[OffPolicyAlgorithm]) -> QLearningAgents | ActorCriticAgents:
    """Return agents of one algorithm as one."""
    if isinstance(models[0], DQN):
        return QLearningAgents(cast("Sequence[DQN]", models))
    return ActorCriticAgents(cast("Sequence[ActorCriticAlgorithm]", models))


def gradient_steps(
    kind: type[Learner], agents: QLearningAgents | ActorCriticAgents, batch: ReplayBatch, **due: bool
) -> Metrics:
    """Call `gradient_step` of an algorithm with the agents in place of one.

    :param due: which networks are updated
    :return: metrics, [n] each
    """
    step = kind.gradient_step  # type: ignore[attr-defined]
    return cast(Metrics, step(agents, batch, **due))

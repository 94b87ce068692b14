"""Optimisers and target networks of an actor and critics that are trained by losses of their own."""

from __future__ import annotations

from typing import Any

from rlzoo.accel.flat_parameters import parameter_group
from rlzoo.optim.network_optimizer import NetworkOptimizer
from rlzoo.optim.polyak import TargetNetwork


def optimize_actor_and_critic(model: Any) -> None:
    """Make an optimiser for the actor and one for the critics, and a `TargetNetwork` for each target.

    :param model: an off-policy algorithm with a `ContinuousPolicy`
    """
    policy = model.policy
    model.actor_flat = parameter_group(policy.actor.parameters())
    model.critic_flat = parameter_group(policy.critic.trainable_parameters())
    policy.actor.optimizer = model.make_optimizer(model.actor_flat)
    policy.critic.optimizer = model.make_optimizer(model.critic_flat)
    model.actor_optimizer = NetworkOptimizer(policy.actor, model.actor_flat, only=True)
    model.critic_optimizer = NetworkOptimizer(policy.critic, model.critic_flat)
    if policy.with_target_actor:
        model.target_actor = TargetNetwork(model.actor_flat, policy.actor, policy.actor_target)
    if policy.with_target_critics:
        model.target_critic = TargetNetwork(model.critic_flat, policy.critic, policy.critic_target)

"""Gradient steps of SAC, TD3 and TQC in which autograd sees the losses, but not the networks.

`gradient_step` of the algorithm runs as it stands. In place of `self` it gets a `ManualAgent`, whose networks
are evaluated without autograd, and whose optimisers carry the gradients of a loss back through them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from rlzoo.accel import matmul_precision as precision
from rlzoo.accel.fast_mlp import BACKWARD, has_hooks, has_tensor_hooks, holds_custom_code
from rlzoo.accel.flat_parameters import FlatParameters, ParameterGroup
from rlzoo.accel.switch import enabled
from rlzoo.accel.threads import most_multiplications
from rlzoo.algorithms.manual.manual_actors import ManualActor, ManualCritics, ManualSquashedActor
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.core.types import Metrics
from rlzoo.networks.ensemble import EnsembleLinear
from rlzoo.networks.torch_layers import FlattenExtractor
from rlzoo.optim.network_optimizer import NetworkOptimizer
from rlzoo.policies.actors import Actor, SquashedGaussianActor
from rlzoo.policies.continuous_policies import ContinuousPolicy
from rlzoo.policies.critics import Critics, QuantileCritics

ON = enabled("manual_step")
PATCHED = ("action_log_prob", "all_values", "first_values", "extract_features")
"""Methods that a script may replace in an actor or in critics."""


class ActorCritic(Protocol):
    """An algorithm with an actor and critics."""

    policy: ContinuousPolicy
    actor_flat: ParameterGroup
    critic_flat: ParameterGroup
    actor_optimizer: NetworkOptimizer
    critic_optimizer: NetworkOptimizer
    device: torch.device

    @property
    def ranks(self) -> object:
        """Where the training has several: what exchanges their gradients."""


def manual_step(model: ActorCritic) -> ManualStep | None:
    """Return a manual gradient step for a model, or None where one is not possible or not wanted.

    It is for wide networks alone. With narrow ones, agents of several seeds may be trained as one, and learn
    to the bit what each would learn by autograd.
    """
    if not ON or model.device.type != "cpu" or model.ranks is not None:
        return None
    if "gradient_step" in vars(model) or not hasattr(type(model), "gradient_step"):
        return None
    if not isinstance(model.actor_flat, FlatParameters) or not isinstance(model.critic_flat, FlatParameters):
        return None
    if holds_custom_code(model) or not is_plain(model.policy):
        return None
    if most_multiplications(model, in_minibatches=True) < precision.LEAST_MULTIPLICATIONS:
        return None
    return ManualStep(model, model.actor_flat, model.critic_flat)


def is_plain(policy: ContinuousPolicy) -> bool:
    """Return whether the networks of a policy consist of linear layers and activations."""
    parts, actor = parts_of(policy), policy.actor
    if type(actor) not in (Actor, SquashedGaussianActor) or not policy.with_target_critics:
        return False
    if isinstance(actor, SquashedGaussianActor) and actor.use_sde:
        return False
    if type(policy.critic) not in (Critics, QuantileCritics):
        return False
    if any(type(part.features_extractor) is not FlattenExtractor for part in parts):
        return False
    return not any(name in vars(part) for part in parts for name in PATCHED) and all(
        map(is_plain_layer, layers_of(policy))
    )


def parts_of(policy: ContinuousPolicy) -> list[nn.Module]:
    """Return actor and critics, and their targets."""
    return [policy.actor, policy.critic, *policy.targets()]


def layers_of(policy: ContinuousPolicy) -> Iterator[nn.Module]:
    """Yield the layers of all networks."""
    for part in parts_of(policy):
        if isinstance(part, Critics):
            yield from part.layers
        elif isinstance(part, SquashedGaussianActor):
            yield from part.latent_pi
            yield part.mu
            yield part.get_submodule("log_std")
        elif isinstance(part, Actor):
            yield from part.mu


def is_plain_layer(layer: nn.Module) -> bool:
    """Return whether a layer is a linear one with a bias, or an activation."""
    is_linear = type(layer) in (nn.Linear, EnsembleLinear) and layer.bias is not None
    return is_linear or type(layer) in BACKWARD


class ManualStep:
    """The manual gradient step of a model, for the time of a training.

    :param actor_flat, critic_flat: parameters of its networks
    """

    def __init__(self, model: ActorCritic, actor_flat: FlatParameters, critic_flat: FlatParameters) -> None:
        self.model, self.agent = model, ManualAgent(model, actor_flat, critic_flat)
        self.modules = list(model.policy.modules())
        self.parameters = [*actor_flat.parameters, *critic_flat.parameters]

    def __call__(self, batch: ReplayBatch, **due: bool) -> Metrics:
        gradient_step: Callable[..., Metrics] = type(self.model).gradient_step  # type: ignore[attr-defined]
        if not self.is_possible():
            return gradient_step(self.model, batch, **due)
        self.agent.policy.actor.begin(batch.next_observations)
        return gradient_step(self.agent, batch, **due)

    def is_possible(self) -> bool:
        """Return whether no callback has since frozen parameters, or wants to see what autograd computes."""
        if precision.gradients_in_bfloat16 or torch.is_autocast_enabled("cpu"):
            return False
        if any(map(has_hooks, self.modules)):
            return False
        return not any(has_tensor_hooks(p) or not p.requires_grad for p in self.parameters)


class ManualAgent:
    """What `gradient_step` reads of an algorithm: networks and their optimisers; the rest is the model's."""

    def __init__(self, model: ActorCritic, actor_flat: FlatParameters, critic_flat: FlatParameters) -> None:
        self.model, self.policy = model, ManualPolicy(model.policy)
        actor, critic, n_actions = self.policy.actor, self.policy.critic, model.policy.action_dim
        self.critic_optimizer = ManualOptimizer(model.critic_optimizer, critic_flat, critic.backward)
        self.actor_optimizer = ManualOptimizer(
            model.actor_optimizer,
            actor_flat,
            lambda: actor.backward(critic.backward(n_actions, learn=False)),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


class ManualPolicy:
    """Actor and critics of a policy, and their targets; the rest is the policy's."""

    def __init__(self, policy: ContinuousPolicy) -> None:
        self.policy = policy
        self.actor: ManualActor | ManualSquashedActor = (
            ManualSquashedActor(policy.actor)
            if isinstance(policy.actor, SquashedGaussianActor)
            else ManualActor(policy.actor)
        )
        self.critic, self.critic_target = ManualCritics(policy.critic), ManualCritics(policy.critic_target)
        if policy.with_target_actor:
            self.actor_target = ManualActor(policy.actor_target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.policy, name)


class ManualOptimizer:
    """A `NetworkOptimizer` for losses of manual networks.

    :param optimizer: of the network
    :param parameters: of the network
    :param carry_back: replaces the gradients of the parameters, given those of the network's outputs
    """

    def __init__(
        self, optimizer: NetworkOptimizer, parameters: FlatParameters, carry_back: Callable[[], object]
    ) -> None:
        self.optimizer, self.parameters, self.carry_back = optimizer, parameters, carry_back

    def step(self, loss: Tensor) -> None:
        """Take one step along the gradient of a loss."""
        loss.backward()
        with torch.no_grad():
            self.parameters.reattach_gradients()
            self.carry_back()
        self.parameters.step(self.optimizer.owner.optimizer)

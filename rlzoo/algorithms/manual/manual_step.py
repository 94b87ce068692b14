"""Gradient steps of SAC, TD3 and TQC in which autograd sees the losses, but not the networks.

`gradient_step` of the algorithm runs as it stands. In place of `self` it gets a `ManualAgent`, whose networks
are evaluated without autograd, and whose optimisers carry the gradients of a loss back through them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from rlzoo.accel import matmul_precision as precision
from rlzoo.accel.fast_mlp import (
    BACKWARD,
    BACKWARD_HOOKS,
    FORWARD_HOOKS,
    has_tensor_hooks,
    holds_custom_code,
    leaf_gradients,
)
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

ON = all(map(enabled, ("manual_step", "batched_ensemble", "closed_form_backward", "fast_mlp")))
KNOWN_CODE = (str(Path(precision.__file__).parents[1]), contextlib.__file__, dataclasses.__file__)
"""Where the code of functions of this package is, and of what wraps them."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""Where a module keeps its hooks."""


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

    Only wide networks have one. Narrow ones may be trained stacked (several seeds as one), which has to equal
    autograd bit for bit.
    """
    if not ON or model.device.type != "cpu" or model.ranks is not None:
        return None
    if "gradient_step" in vars(model) or not hasattr(type(model), "gradient_step"):
        return None
    if holds_custom_code(model) or not is_plain(model) or not all(map(is_unchanged, functions_of(model))):
        return None
    if most_multiplications(model, in_minibatches=True) < precision.LEAST_MULTIPLICATIONS:
        return None
    return ManualStep(model)


def is_plain(model: ActorCritic) -> bool:
    """Return whether networks are linear layers and activations alone, and have the usual optimisers."""
    policy, actor = model.policy, model.policy.actor
    if type(actor) not in (Actor, SquashedGaussianActor) or not policy.with_target_critics:
        return False
    if type(policy.critic) not in (Critics, QuantileCritics):
        return False
    parts = [policy.actor, policy.critic, *policy.targets()]
    if any(type(part.features_extractor) is not FlattenExtractor or is_patched(part) for part in parts):
        return False
    if not all(is_sequence(layers_of(part)) for part in parts):
        return False
    return is_optimized(actor, model.actor_flat, model.actor_optimizer) and is_optimized(
        policy.critic, model.critic_flat, model.critic_optimizer
    )


def layers_of(part: nn.Module) -> list[nn.Module]:
    """Return the layers of an actor or of critics; the last two of a squashed actor are its heads."""
    if isinstance(part, Critics):
        return list(part.layers)
    if isinstance(part, SquashedGaussianActor):
        return [*part.latent_pi, part.mu, *([part.log_std] if isinstance(part.log_std, nn.Module) else [])]
    return list(part.get_submodule("mu").children())


def is_sequence(layers: list[nn.Module]) -> bool:
    """Return whether layers are linear ones with a bias, each with at most one activation behind it."""
    is_linear = [type(layer) in (nn.Linear, EnsembleLinear) and layer.bias is not None for layer in layers]
    return is_linear[:1] == [True] and all(
        linear or (type(layer) in BACKWARD and before)
        for layer, linear, before in zip(layers, is_linear, [False, *is_linear], strict=False)
    )


def is_optimized(part: nn.Module, group: ParameterGroup, optimizer: NetworkOptimizer) -> bool:
    """Return whether an optimiser of this package steps on the weights and biases of a network alone."""
    ours = [parameter for layer in layers_of(part) for parameter in layer.parameters()]
    is_usual = type(optimizer) is NetworkOptimizer and optimizer.average is None and not is_patched(optimizer)
    return is_usual and isinstance(group, FlatParameters) and are_same(ours, group.parameters)


def are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    """Return whether two lists hold the same objects."""
    return len(some) == len(others) and all(map(operator.is_, some, others))


def is_patched(part: object) -> bool:
    """Return whether a method of an object is monkey-patched: replaced on the instance."""
    return any(callable(getattr(type(part), name, None)) for name in vars(part))


def functions_of(model: ActorCritic) -> list[FunctionType]:
    """Return what a gradient step may call: functions of the algorithm's file, methods of networks."""
    policy = model.policy
    owners: list[Any] = [sys.modules[type(model).__module__], NetworkOptimizer]
    owners += [base for part in (model, policy, policy.actor, policy.critic) for base in type(part).__mro__]
    ours = [one for one in owners if vars(one).get("__module__", one.__name__).startswith("rlzoo.")]
    return [function for owner in ours for function in vars(owner).values() if type(function) is FunctionType]


def is_unchanged(function: Any) -> bool:
    """Return whether the code of a function, and of what it wraps, is that of this package."""
    while function is not None:
        if not function.__code__.co_filename.startswith(KNOWN_CODE):
            return False
        function = getattr(function, "__wrapped__", None)
    return True


class ManualStep:
    """The manual gradient step of a model, for the time of a training."""

    def __init__(self, model: ActorCritic) -> None:
        self.model, self.agent = model, ManualAgent(model)
        modules = [vars(module) for module in model.policy.modules()]
        self.parameters = [*model.actor_flat.parameters, *model.critic_flat.parameters]
        self.hooks = [own[name] for own in modules for name in HOOKS] + [*FORWARD_HOOKS, *BACKWARD_HOOKS]
        self.tables = [own[name] for own in modules for name in ("_modules", "_parameters")]
        self.globals = vars(sys.modules[type(model).__module__])
        self.functions = [name for name, value in self.globals.items() if type(value) is FunctionType]
        self.patchable = [vars(model.actor_optimizer), vars(model.critic_optimizer), *modules]
        self.parts, self.sizes = self._parts(), list(map(len, self.patchable))

    def __call__(self, batch: ReplayBatch, *due: bool, **named: bool) -> Metrics:
        gradient_step: Callable[..., Metrics] = type(self.model).gradient_step  # type: ignore[attr-defined]
        if type(batch) is not ReplayBatch or not self.is_possible():
            return gradient_step(self.model, batch, *due, **named)
        self.agent.policy.actor.begin(batch.next_observations)
        return gradient_step(self.agent, batch, *due, **named)

    def is_possible(self) -> bool:
        """Return whether no callback has since replaced a part, or wants to see what autograd computes."""
        if precision.gradients_in_bfloat16 or torch.is_autocast_enabled("cpu"):
            return False
        if any(self.hooks) or list(map(len, self.patchable)) != self.sizes:
            return False
        if any(has_tensor_hooks(p) or not p.requires_grad for p in self.parameters):
            return False
        return are_same(self._parts(), self.parts)

    def _parts(self) -> list[object]:
        """Return what the step was made of."""
        model = self.model
        parts: list[object] = [model.policy, model.actor_flat, model.critic_flat, type(model).gradient_step]  # type: ignore[attr-defined]
        parts += [model.actor_optimizer, model.critic_optimizer, *map(self.globals.get, self.functions)]
        for table in self.tables:
            parts += table.values()
        return parts


class ManualAgent:
    """Stand-in for an algorithm in `gradient_step`: with networks and optimisers; the rest is the model's."""

    def __init__(self, model: ActorCritic) -> None:
        self.model, self.policy = model, ManualPolicy(model.policy)
        actor, critic, n_actions = self.policy.actor, self.policy.critic, model.policy.action_dim
        self.critic_optimizer = ManualOptimizer(model.critic_optimizer, critic.backward)
        self.actor_optimizer = ManualOptimizer(
            model.actor_optimizer, lambda: actor.backward(critic.backward(n_actions, learn=False))
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
    :param carry_back: replaces the gradients of the parameters, given those of the network's outputs
    """

    def __init__(self, optimizer: NetworkOptimizer, carry_back: Callable[[], object]) -> None:
        self.optimizer, self.carry_back = optimizer, carry_back

    def step(self, loss: Tensor) -> None:
        """Take one step along the gradient of a loss."""
        parameters = self.optimizer.parameters
        found = leaf_gradients(loss)
        if found is None:
            loss.backward()
        else:
            for leaf, gradient in found:
                leaf.grad = gradient if leaf.grad is None else leaf.grad + gradient
        with torch.no_grad():
            parameters.reattach_gradients()
            self.carry_back()
        parameters.step(self.optimizer.owner.optimizer)

"""Actors and critics of a gradient step, which keep what their backward passes need."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rlzoo.algorithms.manual.manual_networks import JoinedLinear, ManualNetwork
from rlzoo.core.types import TensorObs
from rlzoo.distributions.squashed_gaussian import squash, squash_backward
from rlzoo.policies import actors
from rlzoo.policies.actors import Actor, SquashedGaussianActor
from rlzoo.policies.critics import Critics


class ManualCritics:
    """`Critics` of plain layers. With gradients enabled, their values are leaves of autograd's graph."""

    def __init__(self, critics: Critics) -> None:
        self.critics = critics
        self.ensemble = ManualNetwork(critics.layers)
        self.first_critic = ManualNetwork(critics.layers, first=True)
        self.evaluated: tuple[ManualNetwork, list[Tensor]] | None = None

    def all_values(self, obs: TensorObs, actions: Tensor) -> Tensor:
        """Return values [n_critics, B, n_outputs]."""
        return self._values(self.ensemble, obs, actions)

    def first_values(self, obs: TensorObs, actions: Tensor) -> Tensor:
        """Return the values [B, n_outputs] of the first critic."""
        return self._values(self.first_critic, obs, actions)

    def _values(self, network: ManualNetwork, obs: TensorObs, actions: Tensor) -> Tensor:
        learns = torch.is_grad_enabled()
        with torch.no_grad():
            features = self.critics.extract_features(obs)
            values = network.forward(torch.cat([features, actions.reshape(len(actions), -1)], 1))
        if not learns:
            return values[-1]
        self.evaluated = network, values
        return values[-1].requires_grad_()

    def backward(self, n_actions: int = 0, learn: bool = True) -> Tensor:
        """Carry the gradient of the last values back to the parameters, and to the actions [B, n_actions]."""
        assert self.evaluated is not None
        (network, values), self.evaluated = self.evaluated, None
        gradient = values[-1].grad
        assert gradient is not None
        grad_inputs = network.backward(values, gradient, n_actions, learn)
        return grad_inputs.sum(0) if grad_inputs.dim() == 3 else grad_inputs


class ManualActor:
    """A deterministic `Actor` of plain layers. With gradients enabled, its actions are a leaf."""

    def __init__(self, actor: Actor) -> None:
        self.actor, self.network = actor, ManualNetwork(actor.mu)
        self.values: list[Tensor] = []

    def begin(self, next_obs: TensorObs) -> None:
        """Do nothing; see `ManualSquashedActor.begin`."""

    def __call__(self, obs: TensorObs) -> Tensor:
        """Return actions [B, A]."""
        learns = torch.is_grad_enabled()
        with torch.no_grad():
            values = self.network.forward(self.actor.extract_features(obs))
        if not learns:
            return values[-1]
        self.values = values
        return values[-1].requires_grad_()

    def backward(self, grad_actions: Tensor) -> None:
        """Replace the gradients of the parameters.

        :param grad_actions: gradient of the loss with respect to the actions, [B, A]
        """
        values, self.values = self.values, []
        self.network.backward(values, grad_actions)


@dataclass(slots=True)
class Sample:
    """Actions of B observations, and what their gradients need.

    :param values: of the hidden layers, see `ManualNetwork.forward`
    :param scaled: standard deviation times noise, [B, A]
    :param within: whether the log standard deviation is within its bounds, [B, A]
    """

    actions: Tensor
    log_probs: Tensor
    values: list[Tensor]
    scaled: Tensor
    within: Tensor

    def rows(self, chosen: slice) -> Sample:
        """Return a part."""
        values = [value[chosen] for value in self.values]
        return Sample(
            self.actions[chosen], self.log_probs[chosen], values, self.scaled[chosen], self.within[chosen]
        )


class ManualSquashedActor:
    """A `SquashedGaussianActor` of plain layers, without gSDE. With gradients enabled, samples are leaves.

    A gradient step samples for the observations of a batch, with gradients, and then for the next ones. One
    pass computes both.
    """

    def __init__(self, actor: SquashedGaussianActor) -> None:
        self.actor, self.hidden = actor, ManualNetwork(actor.latent_pi)
        self.heads = JoinedLinear([actor.mu, actor.log_std])  # type: ignore[list-item]
        self.next_obs: TensorObs | None = None  # of the batch at hand
        self.next_sample: Sample | None = None
        self.sample: Sample | None = None

    def begin(self, next_obs: TensorObs) -> None:
        """Start a gradient step, which will sample for these observations, too."""
        self.next_obs = next_obs

    def action_log_prob(self, obs: TensorObs) -> tuple[Tensor, Tensor]:
        """Return reparameterised actions [B, A] and their log-densities [B]."""
        if not torch.is_grad_enabled():
            sample = self.next_sample if obs is self.next_obs else None
            self.next_sample = None
            sample = self._sampled(obs) if sample is None else sample
            return sample.actions, sample.log_probs
        assert self.next_obs is not None
        with torch.no_grad():
            both = self._sampled(obs, self.next_obs)
        n_rows = len(both.actions) // 2
        self.sample, self.next_sample = both.rows(slice(n_rows)), both.rows(slice(n_rows, None))
        return self.sample.actions.requires_grad_(), self.sample.log_probs.requires_grad_()

    def _sampled(self, *observations: TensorObs) -> Sample:
        features = torch.cat([self.actor.extract_features(obs) for obs in observations])
        values = self.hidden.forward(features)
        mean, unbounded = self.heads.forward(values[-1]).chunk(2, 1)
        log_std = unbounded.clamp(actors.LOG_STD_MIN, actors.LOG_STD_MAX)
        shape = (len(mean) // len(observations), mean.shape[1])
        noise = torch.cat([torch.randn(shape) for _ in observations])  # the numbers of one pass for each
        actions, log_probs, scaled = squash(mean, log_std, noise)
        return Sample(actions, log_probs, values, scaled, log_std == unbounded)

    def backward(self, grad_actions: Tensor) -> None:
        """Replace the gradients of the parameters.

        :param grad_actions: gradient of the loss with respect to the actions, [B, A]
        """
        assert self.sample is not None
        sample, self.sample = self.sample, None
        grad_log_probs = sample.log_probs.grad
        assert grad_log_probs is not None
        grad_mean, grad_log_std = squash_backward(
            sample.actions, sample.scaled, grad_actions, grad_log_probs.unsqueeze(-1)
        )
        gradient = torch.cat([grad_mean, grad_log_std.mul_(sample.within)], 1)
        self.hidden.backward(sample.values, self.heads.backward(sample.values[-1], gradient))

"""Distributions of PyTorch that scripts assign to `distribution`, of classes here and of their own."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch import distributions as torch_distributions

from rlzoo import PPO, UserError
from rlzoo.distributions import (
    Bernoulli,
    Categorical,
    DiagGaussian,
    Distribution,
    MaskableCategoricalDistribution,
    MaskableMultiCategoricalDistribution,
    MultiCategorical,
    SquashedDiagGaussian,
    StateDependentNoise,
    kl_divergence,
    sum_independent_dims,
)
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy, log_prob_and_entropy

LOGITS = torch.tensor([[-99.0, 0.0, 1.0], [2.0, -99.0, 0.5]])
NORMAL = torch_distributions.Normal(torch.tensor([[0.5, -1.0]] * 3), torch.tensor([[0.1, 2.0]] * 3))


@pytest.mark.parametrize("kind", [Categorical, MaskableCategoricalDistribution])
def test_choices_follow_an_assigned_distribution(kind: type[Categorical]) -> None:
    distribution = kind(3).proba_distribution(torch.zeros(2, 3, requires_grad=True))
    assert distribution.entropy().allclose(torch.tensor(3.0).log())
    distribution.distribution = given = torch_distributions.Categorical(logits=LOGITS)
    assert distribution.mode().tolist() == [2, 0]
    draws = torch.stack([distribution.sample() for _ in range(200)])
    assert set(draws[:, 0].tolist()) == {1, 2} and set(draws[:, 1].tolist()) == {0, 2}
    actions = torch.tensor([1, 2])
    torch.testing.assert_close(distribution.log_prob(actions), given.log_prob(actions))
    torch.testing.assert_close(distribution.entropy(), given.entropy())
    torch.testing.assert_close(distribution.distribution.probs, given.probs)


def test_a_mask_applies_to_an_assigned_distribution() -> None:
    distribution = MaskableCategoricalDistribution(3).proba_distribution(torch.zeros(2, 3))
    distribution.distribution = torch_distributions.Categorical(logits=LOGITS)
    distribution.apply_masking(np.array([[True, True, False]] * 2))
    assert distribution.mode().tolist() == [1, 0]


@pytest.mark.parametrize("kind", [MultiCategorical, MaskableMultiCategoricalDistribution])
@pytest.mark.parametrize("name", ["distribution", "distributions"])
def test_lists_of_choices_follow_assigned_ones(kind: type[MultiCategorical], name: str) -> None:
    distribution = kind([3, 3])
    given = [torch_distributions.Categorical(logits=LOGITS), torch_distributions.Categorical(logits=-LOGITS)]
    setattr(distribution, name, given)
    assert distribution.mode().tolist() == [[2, 0], [0, 1]]
    actions = torch.tensor([[1, 0], [2, 1]])
    expected = sum(one.log_prob(column) for one, column in zip(given, actions.T, strict=True))
    torch.testing.assert_close(distribution.log_prob(actions), expected)
    torch.testing.assert_close(distribution.entropy(), given[0].entropy() + given[1].entropy())


def test_bits_follow_an_assigned_distribution() -> None:
    distribution = Bernoulli(3).proba_distribution(torch.zeros(2, 3))
    distribution.distribution = given = torch_distributions.Bernoulli(logits=LOGITS)
    assert distribution.mode().tolist() == [[0, 0, 1], [1, 0, 1]] and not distribution.sample()[0, 0]
    ones = torch.ones(2, 3)
    torch.testing.assert_close(distribution.log_prob(ones), given.log_prob(ones).sum(dim=1))
    torch.testing.assert_close(distribution.entropy(), given.entropy().sum(dim=1))


def test_gaussians_follow_an_assigned_distribution() -> None:
    plain = DiagGaussian(2).proba_distribution(torch.zeros(3, 2), torch.zeros(2))
    plain.distribution = NORMAL
    assert plain.mode().equal(NORMAL.mean)
    actions = plain.sample()
    log_prob, entropy = NORMAL.log_prob(actions).sum(dim=1), NORMAL.entropy().sum(dim=1)
    torch.testing.assert_close(plain.log_prob(actions), log_prob)
    torch.testing.assert_close(plain.entropy(), entropy)
    with torch.no_grad():
        torch.testing.assert_close(log_prob_and_entropy(plain, actions), (log_prob, entropy))
    draws = torch.stack([plain.sample() for _ in range(2_000)])
    torch.testing.assert_close(draws.std(dim=0), NORMAL.scale, rtol=0.1, atol=0.0)
    squashed = SquashedDiagGaussian(2).proba_distribution(torch.zeros(3, 2), torch.zeros(2))
    squashed.distribution = NORMAL
    assert squashed.mode().equal(NORMAL.mean.tanh()) and kl_divergence(squashed, squashed).abs().max() < 1e-6


def test_gradients_reach_what_was_assigned() -> None:
    mean = torch.zeros(3, 2, requires_grad=True)
    plain = DiagGaussian(2)
    plain.distribution = torch_distributions.Normal(mean, 1.0)
    plain.log_prob(torch.ones(3, 2)).sum().backward()
    assert mean.grad is not None and mean.grad.eq(1).all()


def test_state_dependent_noise_follows_an_assigned_one() -> None:
    noise = StateDependentNoise(2)
    _, log_std = noise.proba_distribution_net(4)
    noise.proba_distribution(torch.zeros(3, 2), log_std, torch.zeros(3, 4))
    noise.distribution = NORMAL
    assert noise.mode().equal(NORMAL.mean) and noise.sample().equal(NORMAL.mean)  # latent features are 0
    torch.testing.assert_close(noise.entropy(), NORMAL.entropy().sum(dim=1))


def test_gaussians_refuse_another_family() -> None:
    with pytest.raises(UserError, match="expected a Normal, not a Laplace"):
        DiagGaussian(2).distribution = torch_distributions.Laplace(0.0, 1.0)  # type: ignore[assignment]


class OnlyLast(Categorical):
    """A Categorical that scripts derive: it assigns its distribution."""

    def proba_distribution(self, action_logits: Tensor) -> OnlyLast:
        self.distribution = torch_distributions.Categorical(logits=action_logits + torch.tensor([0.0, 99.0]))
        return self


class Derived(ActorCriticPolicy):
    def _get_action_dist_from_latent(self, latent_pi: Tensor) -> Distribution:
        return OnlyLast(2).proba_distribution(self.action_net(latent_pi))


class Assigning(ActorCriticPolicy):
    def _get_action_dist_from_latent(self, latent_pi: Tensor) -> Distribution:
        distribution: Any = super()._get_action_dist_from_latent(latent_pi)
        logits = distribution.distribution.logits + torch.tensor([0.0, 99.0])
        distribution.distribution = torch_distributions.Categorical(logits=logits)
        return distribution


@pytest.mark.parametrize("policy", [Derived, Assigning])
def test_assigned_distributions_choose_actions(policy: type[ActorCriticPolicy]) -> None:
    model = PPO(policy, "CartPole-v1", n_steps=16, batch_size=8, n_epochs=1).learn(16)
    assert model.rollout_buffer.actions.all() and not model.rollout_buffer.log_probs.any()
    assert model.predict(np.zeros((5, 4), np.float32))[0].tolist() == [1] * 5


class Beta(Distribution):
    """Actions in (0, 1), as scripts derive them from `Distribution`."""

    def __init__(self, action_dim: int) -> None:
        super().__init__()
        self.action_dim = action_dim

    def proba_distribution_net(self, latent_dim: int) -> nn.Module:
        return nn.Linear(latent_dim, 2 * self.action_dim)

    def proba_distribution(self, params: Tensor) -> Beta:
        alpha, beta = torch.chunk(nn.functional.softplus(params) + 1, 2, dim=-1)
        self.distribution: Any = torch_distributions.Beta(alpha, beta)
        return self

    def log_prob(self, actions: Tensor) -> Tensor:
        return sum_independent_dims(self.distribution.log_prob(actions.clamp(1e-5, 1 - 1e-5)))

    def entropy(self) -> Tensor:
        return sum_independent_dims(self.distribution.entropy())

    def sample(self) -> Tensor:
        sampled: Tensor = self.distribution.rsample()
        return sampled

    def mode(self) -> Tensor:
        mean: Tensor = self.distribution.mean
        return mean


class BetaPolicy(ActorCriticPolicy):
    def _build(self, lr_schedule: Any) -> None:
        assert isinstance(self.action_space, spaces.Box)
        self.action_dist: Distribution = Beta(self.action_space.shape[0])
        super()._build(lr_schedule)


class BetaOfLatent(BetaPolicy):
    def _get_action_dist_from_latent(self, latent_pi: Tensor) -> Distribution:
        return self.action_dist.proba_distribution(self.action_net(latent_pi))


@pytest.mark.parametrize("policy", [BetaPolicy, BetaOfLatent])
def test_a_distribution_that_stores_another_trains(policy: type[BetaPolicy]) -> None:
    model = PPO(policy, "Pendulum-v1", seed=0, n_steps=16, batch_size=8, n_epochs=1)
    before = model.policy.action_net.weight.clone()
    model.learn(16)
    assert not before.equal(model.policy.action_net.weight)
    actions = model.rollout_buffer.actions
    assert actions.min() > 0 and actions.max() < 1
    obs = torch.zeros(1, 3)
    kept = model.policy.get_distribution(obs)
    mean = kept.mode().clone()
    model.policy.get_distribution(obs + 1)
    assert kept.mode().equal(mean)
    copied = copy.deepcopy(model.policy)
    assert copied.get_distribution(obs).mode().equal(mean)

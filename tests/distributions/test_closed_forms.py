"""Each distribution against torch.distributions and against its own samples."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from gymnasium import spaces
from torch import distributions as reference

from rlzoo.core.errors import UserError
from rlzoo.distributions import (
    Bernoulli,
    Categorical,
    DiagGaussian,
    MultiCategorical,
    SquashedDiagGaussian,
    StateDependentNoise,
    kl_divergence,
    make_proba_distribution,
    sum_independent_dims,
)

BATCH = 5


def gaussian():
    mean, log_std = torch.randn(BATCH, 3), torch.randn(3)
    mine = DiagGaussian(3).proba_distribution(mean, log_std)
    return mine, reference.Independent(reference.Normal(mean, log_std.exp()), 1)


def categorical():
    logits = torch.randn(BATCH, 4)
    return Categorical(4).proba_distribution(logits), reference.Categorical(logits=logits)


def bernoulli():
    logits = torch.randn(BATCH, 6)
    theirs = reference.Independent(reference.Bernoulli(logits=logits), 1)
    return Bernoulli(6).proba_distribution(logits), theirs


def noise(**kwargs):
    dist = StateDependentNoise(2, **kwargs)
    _, log_std = dist.proba_distribution_net(7, log_std_init=-0.5, latent_sde_dim=3)
    mean, latent = torch.randn(BATCH, 2), torch.randn(BATCH, 3)
    std = (latent.square() @ dist.get_std(log_std).square() + dist.epsilon).sqrt()
    mine = dist.proba_distribution(mean, log_std.detach(), latent)
    return mine, reference.Independent(reference.Normal(mean, std.detach()), 1)


@pytest.mark.parametrize("pair", [gaussian, categorical, bernoulli, noise])
def test_log_prob_entropy_and_kl_agree_with_torch(pair):
    torch.manual_seed(0)
    mine, theirs = pair()
    actions = theirs.sample()
    assert torch.allclose(mine.log_prob(actions), theirs.log_prob(actions), atol=1e-5)
    assert torch.allclose(mine.entropy(), theirs.entropy(), atol=1e-5)
    other_mine, other_theirs = pair()
    expected = reference.kl_divergence(theirs, other_theirs)
    assert torch.allclose(kl_divergence(mine, other_mine), expected, atol=1e-4)
    assert torch.allclose(kl_divergence(mine, copy.copy(mine)), torch.zeros(BATCH), atol=1e-6)


def test_multi_categorical_is_the_sum_of_its_parts():
    logits = torch.randn(BATCH, 5)
    mine = MultiCategorical([2, 3]).proba_distribution(logits)
    parts = [reference.Categorical(logits=logits[:, :2]), reference.Categorical(logits=logits[:, 2:])]
    actions = torch.stack([part.sample() for part in parts], dim=1)
    expected = sum(part.log_prob(column) for part, column in zip(parts, actions.unbind(1), strict=True))
    assert torch.allclose(mine.log_prob(actions), expected, atol=1e-5)
    assert torch.allclose(mine.entropy(), sum(part.entropy() for part in parts), atol=1e-5)
    other_logits = torch.randn(BATCH, 5)
    others = [
        reference.Categorical(logits=other_logits[:, :2]),
        reference.Categorical(logits=other_logits[:, 2:]),
    ]
    expected_kl = sum(reference.kl_divergence(a, b) for a, b in zip(parts, others, strict=True))
    assert torch.allclose(
        mine.kl(MultiCategorical([2, 3]).proba_distribution(other_logits)), expected_kl, atol=1e-5
    )
    assert torch.equal(mine.mode(), torch.stack([logits[:, :2].argmax(1), logits[:, 2:].argmax(1)], dim=1))


def test_squashed_gaussian_is_a_tanh_of_a_gaussian():
    mean, log_std = torch.randn(BATCH, 3), torch.full((3,), -0.3)
    mine = SquashedDiagGaussian(3).proba_distribution(mean, log_std)
    normal = reference.Normal(mean, log_std.exp())
    theirs = reference.Independent(reference.TransformedDistribution(normal, [reference.TanhTransform()]), 1)
    actions = theirs.sample().clamp(-0.999, 0.999)
    assert torch.allclose(mine.log_prob(actions), theirs.log_prob(actions), atol=1e-3)
    assert mine.entropy() is None
    assert torch.equal(mine.mode(), torch.tanh(mean))
    sampled, log_prob = mine.log_prob_from_params(mean, log_std)
    assert torch.allclose(log_prob, theirs.log_prob(sampled), atol=1e-3)


def test_squashed_log_prob_is_finite_at_the_bounds():
    mine = SquashedDiagGaussian(1).proba_distribution(torch.zeros(2, 1), torch.zeros(1))
    assert torch.isfinite(mine.log_prob(torch.tensor([[1.0], [-1.0]]))).all()
    far = torch.full((2, 1), 30.0)  # tanh is 1 to rounding: 1 - tanh^2 would be log(0)
    assert torch.isfinite(mine.log_prob(torch.tanh(far), far)).all()


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_categorical_samples_have_their_probabilities(scale):
    torch.manual_seed(1)
    logits = torch.tensor([0.0, math.log(2.0), math.log(5.0), -math.inf]) + scale
    n = 40_000
    samples = Categorical(4).proba_distribution(logits.expand(n, 4)).sample()
    frequencies = torch.bincount(samples, minlength=4) / n
    assert torch.allclose(frequencies, torch.tensor([1, 2, 5, 0]) / 8, atol=0.012)


def test_bernoulli_samples_have_their_probabilities():
    torch.manual_seed(1)
    logits = torch.tensor([-2.0, 0.0, 1.0]).expand(40_000, 3)
    mine = Bernoulli(3).proba_distribution(logits)
    assert torch.allclose(mine.sample().mean(dim=0), logits[0].sigmoid(), atol=0.012)
    assert torch.equal(mine.mode()[0], torch.tensor([0.0, 0.0, 1.0]))


def test_impossible_choices_leave_entropy_and_kl_finite():
    logits = torch.tensor([[0.0, 0.0, -math.inf]], requires_grad=True)
    mine = Categorical(3).proba_distribution(logits)
    assert mine.entropy().item() == pytest.approx(math.log(2.0))
    assert mine.kl(Categorical(3).proba_distribution(logits)).item() == 0.0
    (mine.log_prob(torch.tensor([1])) + mine.entropy()).sum().backward()
    assert torch.isfinite(logits.grad).all()


def test_categorical_gradients_have_their_closed_form():
    """d log p(a) / d logits = e_a - p and d H / d logits = -p (log p + H), with e_a the one-hot action."""
    logits = torch.randn(BATCH, 4, dtype=torch.double, requires_grad=True)
    actions, weight = torch.randint(0, 4, (BATCH,)), torch.randn(BATCH, dtype=torch.double)
    mine = Categorical(4).proba_distribution(logits)
    entropy = mine.entropy()
    (weight * mine.log_prob(actions) + 2 * entropy).sum().backward()
    p, one_hot = logits.softmax(dim=1), torch.eye(4)[actions]
    expected = weight[:, None] * (one_hot - p) - 2 * p * (p.log() + entropy[:, None])
    assert torch.allclose(logits.grad, expected)


def test_categorical_reads_under_no_grad_keep_gradients():
    logits = torch.randn(BATCH, 4, requires_grad=True)
    mine = Categorical(4).proba_distribution(logits)
    with torch.no_grad():
        mine.entropy()
    mine.log_prob(torch.zeros(BATCH)).sum().backward()
    assert logits.grad.any()


def test_log_softmax_is_computed_once_for_a_loss(monkeypatch):
    mine = Categorical(4).proba_distribution(torch.randn(BATCH, 4, requires_grad=True))
    calls, log_softmax = [], torch.Tensor.log_softmax
    monkeypatch.setattr(
        torch.Tensor, "log_softmax", lambda *args, **kwargs: calls.append(1) or log_softmax(*args, **kwargs)
    )
    mine.log_prob(torch.zeros(BATCH)), mine.entropy()
    assert len(calls) == 1


def test_gaussian_gradients_have_their_closed_form():
    """With z = (a - mean) / std: z / std for the mean, z^2 - 1 for the log-std, whose entropy has slope 1."""
    mean = torch.randn(BATCH, 3, dtype=torch.double, requires_grad=True)
    log_std = torch.randn(3, dtype=torch.double, requires_grad=True)
    actions, weight = torch.randn(BATCH, 3), torch.randn(BATCH, dtype=torch.double)
    mine = DiagGaussian(3).proba_distribution(mean, log_std)
    (weight * mine.log_prob(actions) + 2 * mine.entropy()).sum().backward()
    z = (actions - mean) / log_std.exp()
    assert torch.allclose(mean.grad, weight[:, None] * z / log_std.exp())
    assert torch.allclose(log_std.grad, (weight[:, None] * (z.square() - 1)).sum(dim=0) + 2 * BATCH)


class TestStateDependentNoise:
    def test_noise_has_the_stated_variance_over_matrices(self):
        torch.manual_seed(0)
        dist = StateDependentNoise(2)
        _, log_std = dist.proba_distribution_net(3, log_std_init=-1.0)
        n = 20_000
        latent = torch.randn(1, 3)
        dist.sample_weights(log_std.detach(), batch_size=n)
        noise_of_one_state = dist.get_noise(latent.expand(n, 3))
        expected = (latent.square() @ dist.get_std(log_std).square()).sqrt().squeeze()
        assert torch.allclose(noise_of_one_state.std(dim=0), expected, rtol=0.03)

    def test_noise_is_a_function_of_the_state_until_redrawn(self):
        dist, _ = noise()
        assert torch.equal(dist.sample(), dist.sample())
        before = dist.sample()
        dist.sample_weights(torch.zeros(3, 2))
        assert not torch.equal(before, dist.sample())

    def test_each_environment_has_its_own_matrix(self):
        dist = StateDependentNoise(2)
        dist.sample_weights(torch.zeros(3, 2), batch_size=2)
        same_state = torch.ones(2, 3)
        rows = dist.get_noise(same_state)
        assert not torch.equal(rows[0], rows[1])
        shared = dist.get_noise(torch.ones(5, 3))
        assert torch.allclose(shared, (torch.ones(5, 3) @ dist.exploration_mat))

    def test_one_std_per_feature_when_not_full(self):
        dist = StateDependentNoise(2, full_std=False)
        _, log_std = dist.proba_distribution_net(3)
        assert log_std.shape == (3, 1)
        assert dist.get_std(log_std).shape == (3, 2)

    def test_expln_joins_smoothly_and_grows_slowly(self):
        dist = StateDependentNoise(1, use_expln=True)
        log_std = torch.tensor([[-1.0], [0.0], [3.0]], requires_grad=True)
        std = dist.get_std(log_std)
        assert torch.allclose(std.flatten(), torch.tensor([math.exp(-1), 1.0, 1 + math.log(4.0)]))
        std.sum().backward()
        assert torch.allclose(log_std.grad.flatten(), torch.tensor([math.exp(-1), 1.0, 0.25]))

    def test_squashed_actions_stay_inside(self):
        dist, theirs = noise(squash_output=True)
        actions = dist.sample()
        assert (actions.abs() < 1).all()
        before_tanh = torch.atanh(actions)
        slope = torch.log(1 - actions.square()).sum(dim=1)
        assert torch.allclose(dist.log_prob(actions), theirs.log_prob(before_tanh) - slope, atol=1e-3)

    @pytest.mark.parametrize("learn_features", [False, True])
    def test_features_learn_from_the_noise_only_when_asked(self, learn_features):
        dist = StateDependentNoise(2, learn_features=learn_features)
        _, log_std = dist.proba_distribution_net(3)
        latent = torch.randn(BATCH, 3, requires_grad=True)
        dist.proba_distribution(torch.zeros(BATCH, 2), log_std, latent).entropy().sum().backward()
        assert log_std.grad.abs().sum() > 0
        assert (latent.grad is not None) == learn_features


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        (spaces.Box(-1, 1, (2,)), DiagGaussian),
        (spaces.Discrete(3), Categorical),
        (spaces.MultiDiscrete([2, 3]), MultiCategorical),
        (spaces.MultiBinary(4), Bernoulli),
    ],
)
def test_each_action_space_has_its_distribution(space, kind):
    assert type(make_proba_distribution(space)) is kind


def test_spaces_without_a_distribution_are_refused():
    with pytest.raises(UserError, match="use_sde needs continuous"):
        make_proba_distribution(spaces.Discrete(2), use_sde=True)
    with pytest.raises(UserError, match="Tuple"):
        make_proba_distribution(spaces.Tuple([spaces.Discrete(2)]))
    with pytest.raises(UserError, match="one class"):
        kl_divergence(categorical()[0], gaussian()[0])


def test_gradients_flow_through_gaussian_samples():
    mean, log_std = torch.zeros(BATCH, 2, requires_grad=True), torch.zeros(2, requires_grad=True)
    DiagGaussian(2).proba_distribution(mean, log_std).sample().sum().backward()
    assert torch.equal(mean.grad, torch.ones(BATCH, 2))
    assert log_std.grad.abs().sum() > 0


def test_sum_independent_dims():
    assert torch.equal(sum_independent_dims(torch.ones(2, 3)), torch.tensor([3.0, 3.0]))
    assert sum_independent_dims(torch.ones(4)).item() == 4.0

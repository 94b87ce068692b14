"""Distributions as those of PyTorch, and those that are public beside the policies' own."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlzoo.distributions import (
    Bernoulli,
    Categorical,
    DiagGaussian,
    MaskableBernoulliDistribution,
    MaskableCategorical,
    MaskableCategoricalDistribution,
    MaskableMultiCategoricalDistribution,
    MultiCategorical,
    SquashedDiagGaussian,
    StateDependentNoise,
    TanhBijector,
)


def test_gaussians_are_those_of_pytorch():
    mean, log_std, actions = torch.randn(5, 2), torch.tensor([0.3, -1.0]), torch.randn(5, 2)
    plain = DiagGaussian(2).proba_distribution(mean, log_std)
    torch.testing.assert_close(plain.distribution.log_prob(actions).sum(1), plain.log_prob(actions))
    torch.testing.assert_close(plain.distribution.entropy().sum(1), plain.entropy())
    squashed = SquashedDiagGaussian(2).proba_distribution(mean, log_std)
    assert torch.equal(squashed.distribution.loc, mean)
    noise = StateDependentNoise(2)
    _, log_std = noise.proba_distribution_net(3)
    noise.proba_distribution(mean, log_std, torch.rand(5, 3))
    torch.testing.assert_close(noise.distribution.scale, noise.stddev)


def test_choices_are_those_of_pytorch():
    logits, choices = torch.randn(5, 6), torch.randint(6, (5,))
    one = Categorical(6).proba_distribution(logits)
    torch.testing.assert_close(one.distribution.log_prob(choices), one.log_prob(choices))
    several = MultiCategorical([2, 4]).proba_distribution(logits)
    assert [part.probs.shape for part in several.distributions] == [(5, 2), (5, 4)]
    bits = Bernoulli(6).proba_distribution(logits)
    ones = torch.ones(5, 6)
    torch.testing.assert_close(bits.distribution.log_prob(ones).sum(1), bits.log_prob(ones))
    masked = MaskableCategoricalDistribution(6).proba_distribution(logits)
    masked.apply_masking(np.eye(6, dtype=bool)[:5])
    torch.testing.assert_close(masked.distribution.probs, torch.eye(6)[:5])


def test_one_distribution_gives_the_probability_of_many_choices():
    distribution = Categorical(3).proba_distribution(torch.tensor([[0.1, 0.7, 0.2]]).log())
    expected = torch.tensor([[0.7], [0.2]])
    torch.testing.assert_close(distribution.log_prob(torch.tensor([[1], [2]])).exp(), expected)


def test_tanh_is_inverted_and_its_slope_known():
    x = torch.linspace(-3, 3, 7)
    bijector = TanhBijector()
    torch.testing.assert_close(TanhBijector.inverse(bijector.forward(x)), x, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(bijector.atanh(torch.tanh(x)), x, rtol=1e-4, atol=1e-4)
    slope = torch.log(1 - torch.tanh(x) ** 2 + 1e-6)
    torch.testing.assert_close(bijector.log_prob_correction(x), slope)
    assert TanhBijector.inverse(torch.tensor([1.0, -1.0])).isfinite().all()


def test_a_later_mask_replaces_an_earlier_one():
    probs = torch.tensor([[0.5, 0.3, 0.2]])
    distribution = MaskableCategorical(probs=probs)
    distribution.apply_masking([True, True, False])
    torch.testing.assert_close(distribution.probs, torch.tensor([[0.625, 0.375, 0.0]]))
    assert distribution.entropy().isfinite().all()
    distribution.apply_masking([False, False, True])
    torch.testing.assert_close(distribution.probs, torch.tensor([[0.0, 0.0, 1.0]]))
    assert distribution.entropy() == 0
    distribution.apply_masking(None)
    torch.testing.assert_close(distribution.probs, probs)


@pytest.mark.parametrize(
    "make",
    [lambda: MaskableMultiCategoricalDistribution([2, 2]), lambda: MaskableBernoulliDistribution(2)],
)
def test_masked_choices_want_their_parameters_first(make):
    for use in (lambda d: d.sample(), lambda d: d.entropy(), lambda d: d.apply_masking(None)):
        with pytest.raises(AssertionError, match=r"call proba_distribution\(\) first"):
            use(make())


def test_masked_logits_of_another_layout_are_rows():
    distribution = MaskableCategoricalDistribution(3).proba_distribution(torch.randn(2, 3, 3))
    assert distribution.sample().shape == (6,)
    assert MaskableBernoulliDistribution(2).proba_distribution(torch.zeros(4)).sample().shape == (1, 2)
    with pytest.raises(RuntimeError):
        MaskableCategoricalDistribution(3).proba_distribution(torch.zeros(1, 2))

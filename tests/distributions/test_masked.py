"""Distributions with forbidden choices equal those over the allowed choices alone."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.distributions import Categorical, kl_divergence
from rlzoo.distributions.masked import (
    MaskableBernoulliDistribution,
    MaskableCategoricalDistribution,
    MaskableMultiCategoricalDistribution,
    make_masked_proba_distribution,
)

BATCH = 5
MASK = torch.tensor([True, False, True, True, False, True])
LEFT = MASK.nonzero().flatten()


def logits(n: int = 6) -> torch.Tensor:
    return torch.randn(BATCH, n, requires_grad=True)


def masked(params: torch.Tensor) -> Any:
    return MaskableCategoricalDistribution(6).proba_distribution(params).apply_masking(MASK.expand(BATCH, 6))


def test_it_is_the_categorical_of_what_is_allowed() -> None:
    torch.manual_seed(0)
    params = logits()
    mine, alone = masked(params), Categorical(4).proba_distribution(params[:, LEFT])
    actions = torch.tensor([0, 1, 2, 3, 3])
    assert torch.allclose(mine.log_prob(LEFT[actions]), alone.log_prob(actions), atol=1e-6)
    assert torch.allclose(mine.entropy(), alone.entropy(), atol=1e-6)
    assert torch.equal(mine.mode(), LEFT[alone.mode()])
    assert torch.equal(mine.probs[:, ~MASK], torch.zeros(BATCH, 2))
    other = logits()
    expected = alone.kl(Categorical(4).proba_distribution(other[:, LEFT]))
    assert torch.allclose(kl_divergence(mine, masked(other)), expected, atol=1e-5)


def test_masked_gradients_are_zero_for_invalid_actions() -> None:
    torch.manual_seed(0)
    params = logits()
    alone = params.detach()[:, LEFT].requires_grad_()
    actions = torch.tensor([0, 1, 2, 3, 3])
    for loss_of in (
        lambda dist, index: dist.log_prob(index).sum() + dist.entropy().sum(),
        lambda dist, index: dist.kl(copy.copy(dist)).sum() + dist.probs.square().sum(),
    ):
        params.grad = alone.grad = None
        loss_of(masked(params), LEFT[actions]).backward()
        loss_of(Categorical(4).proba_distribution(alone), actions).backward()
        assert params.grad is not None and alone.grad is not None
        assert torch.equal(params.grad[:, ~MASK], torch.zeros(BATCH, 2))
        assert torch.allclose(params.grad[:, LEFT], alone.grad, atol=1e-6)


def test_one_choice_left_is_certain() -> None:
    params = logits(3)
    dist = MaskableCategoricalDistribution(3).proba_distribution(params)
    dist.apply_masking(np.array([[False, True, False]] * BATCH))
    assert dist.sample().tolist() == dist.mode().tolist() == [1] * BATCH
    assert torch.equal(dist.log_prob(torch.ones(BATCH)), torch.zeros(BATCH))
    assert torch.equal(dist.entropy(), torch.zeros(BATCH))
    (dist.log_prob(torch.ones(BATCH)).sum() + dist.entropy().sum()).backward()
    assert params.grad is not None and torch.equal(params.grad, torch.zeros(BATCH, 3))


def test_samples_have_their_probabilities() -> None:
    torch.manual_seed(1)
    n = 40_000
    dist = MaskableCategoricalDistribution(4).proba_distribution(
        torch.tensor([0.0, 9.0, 1.0, 2.0]).expand(n, 4)
    )
    dist.apply_masking(torch.tensor([True, False, True, True]).expand(n, 4))
    frequencies = torch.bincount(dist.sample(), minlength=4) / n
    expected = torch.tensor([0.0, 1.0, 2.0]).softmax(0)
    assert frequencies[1] == 0
    assert torch.allclose(frequencies[[0, 2, 3]], expected, atol=0.012)


def test_masks_replace_each_other_and_none_lifts_them() -> None:
    params = logits(3)
    dist = MaskableCategoricalDistribution(3).proba_distribution(params)
    free = dist.probs
    dist.apply_masking(torch.tensor([True, False, False]).expand(BATCH, 3))
    assert torch.equal(dist.mode(), torch.zeros(BATCH, dtype=torch.long))
    dist.apply_masking(torch.tensor([False, False, True]).expand(BATCH, 3))
    assert torch.equal(dist.mode(), torch.full((BATCH,), 2))
    assert torch.equal(dist.apply_masking(None).probs, free)
    dist.apply_masking(torch.tensor([True, False, False]).expand(BATCH, 3))
    assert torch.equal(dist.proba_distribution(params).probs, free)  # of the next batch nothing is known


def test_several_choices_are_masked_side_by_side() -> None:
    torch.manual_seed(0)
    params = logits(5)
    mask = torch.tensor([True, False, False, True, True]).expand(BATCH, 5)
    mine = MaskableMultiCategoricalDistribution([2, 3]).proba_distribution(params).apply_masking(mask)
    first = MaskableCategoricalDistribution(2).proba_distribution(params[:, :2]).apply_masking(mask[:, :2])
    second = MaskableCategoricalDistribution(3).proba_distribution(params[:, 2:]).apply_masking(mask[:, 2:])
    actions = torch.tensor([[0, 1], [0, 2], [0, 1], [0, 2], [0, 2]])
    expected = first.log_prob(actions[:, 0]) + second.log_prob(actions[:, 1])
    assert torch.equal(mine.log_prob(actions), expected)
    assert torch.allclose(mine.entropy(), first.entropy() + second.entropy())
    sampled = torch.stack([mine.sample() for _ in range(50)])
    assert (sampled[..., 0] == 0).all() and (sampled[..., 1] > 0).all()
    free = MaskableMultiCategoricalDistribution([2, 3]).proba_distribution(params)
    assert torch.equal(mine.apply_masking(None).entropy(), free.entropy())


def test_bits_have_two_choices_each() -> None:
    params = logits(4)
    mask = torch.tensor([True, True, False, True]).expand(BATCH, 4)  # the second bit must be a one
    dist = MaskableBernoulliDistribution(2).proba_distribution(params).apply_masking(mask)
    log_odds = params[:, 1] - params[:, 0]
    expected = torch.stack([log_odds.sigmoid(), torch.ones(BATCH)], dim=1)
    assert torch.allclose(dist.probs, expected, atol=1e-6)
    ones = torch.ones(BATCH, 2)
    assert torch.allclose(dist.log_prob(ones), torch.nn.functional.logsigmoid(log_odds), atol=1e-6)
    assert (dist.sample()[:, 1] == 1).all()


@pytest.mark.parametrize(
    ("space", "kind", "n_logits"),
    [
        (spaces.Discrete(4), MaskableCategoricalDistribution, 4),
        (spaces.MultiDiscrete([[2, 3], [4, 2]]), MaskableMultiCategoricalDistribution, 11),
        (spaces.MultiBinary((2, 2)), MaskableBernoulliDistribution, 8),
    ],
)
def test_a_space_has_its_distribution(space: Any, kind: type, n_logits: int) -> None:
    dist = make_masked_proba_distribution(space)
    assert type(dist) is kind
    assert dist.proba_distribution_net(7).out_features == n_logits


def test_a_box_cannot_be_masked() -> None:
    with pytest.raises(UserError, match="Box space cannot be masked; those of Discrete"):
        make_masked_proba_distribution(spaces.Box(-1, 1, (2,)))
    with pytest.raises(NotImplementedError):  # as of sb3-contrib
        make_masked_proba_distribution(spaces.Box(-1, 1, (2,)))

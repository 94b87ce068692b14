"""Advantages and returns against the definitions, written out term by term."""

from __future__ import annotations

import numpy as np
import pytest

from rlzoo.core.returns import bootstrap_values, explained_variance, gae


def advantage_by_definition(rewards, values, next_values, terminated, truncated, gamma, lam, t):
    """Eq. 16 of the paper, summed forward from step t of one environment until its episode ends."""
    total, weight = 0.0, 1.0
    for k in range(t, len(rewards)):
        future = 0.0 if terminated[k] else next_values[k]
        total += weight * (rewards[k] + gamma * future - values[k])
        weight *= gamma * lam
        if terminated[k] or truncated[k]:
            break
    return total


@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
def test_gae_is_the_sum_of_its_definition(lam):
    rng = np.random.default_rng(0)
    shape = (12, 3)
    rewards, values, next_values = (rng.normal(size=shape).astype(np.float32) for _ in range(3))
    terminated, truncated = rng.random(shape) < 0.2, rng.random(shape) < 0.2
    advantages, returns = gae(rewards, values, next_values, terminated, truncated, 0.9, lam)
    expected = [
        [
            advantage_by_definition(
                *(column[:, env] for column in (rewards, values, next_values, terminated, truncated)),
                0.9,
                lam,
                t,
            )
            for env in range(3)
        ]
        for t in range(12)
    ]
    np.testing.assert_allclose(advantages, expected, atol=1e-5)
    np.testing.assert_allclose(returns, advantages + values, atol=1e-6)
    assert advantages.dtype == returns.dtype == np.float32


def test_gae_bootstraps_truncation_not_termination():
    rewards, values = np.ones((1, 2), np.float32), np.zeros((1, 2), np.float32)
    next_values = np.full((1, 2), 10, np.float32)
    terminated, truncated = np.array([[True, False]]), np.array([[False, True]])
    _, returns = gae(rewards, values, next_values, terminated, truncated, 0.5, 1.0)
    assert returns.tolist() == [[1.0, 6.0]]


def test_both_flags_at_once_count_as_termination():
    one = np.ones((1, 1), np.float32)
    _, returns = gae(one, 0 * one, 9 * one, one > 0, one > 0, 0.5, 1.0)
    assert returns.item() == 1.0


def test_following_values_shift_by_one_row_and_take_final_values():
    values = np.array([[1, 2], [3, 4]], np.float32)
    following = bootstrap_values(
        values, np.array([5, 6], np.float32), np.array([70], np.float32), (np.array([0]), np.array([1]))
    )
    assert following.tolist() == [[3, 70], [5, 6]]


def test_explained_variance():
    targets = np.array([1.0, 2.0, 4.0], np.float32)
    assert explained_variance(targets, targets) == 1
    assert explained_variance(np.zeros(3, np.float32), targets) == pytest.approx(0)
    assert explained_variance(-targets, targets) == pytest.approx(-3)
    assert np.isnan(explained_variance(targets, np.ones(3, np.float32)))

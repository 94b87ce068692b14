"""The sum tree against plain sums over the same weights."""

from __future__ import annotations

import numpy as np
import pytest

from rlzoo.buffers.replay.sum_tree import BRANCHES, SHORT, SumTree

SIZES = (1, 2, BRANCHES, BRANCHES + 1, 7 * BRANCHES + 3, SHORT, SHORT + 1, SHORT * BRANCHES + 5)


@pytest.mark.parametrize("n_leaves", SIZES)
def test_every_index_is_found_exactly_as_often_as_it_weighs(n_leaves: int) -> None:
    weights = np.random.default_rng(n_leaves).integers(0, 5, n_leaves)
    weights[-1] = 3
    tree = SumTree(n_leaves)
    tree.set(np.arange(n_leaves), weights)
    assert tree.total == weights.sum()
    found = tree.find(np.arange(weights.sum()) + 0.5)
    np.testing.assert_array_equal(np.bincount(found, minlength=n_leaves), weights)
    # the borders: a sum that lies exactly between two indices belongs to the second
    np.testing.assert_array_equal(tree.find(np.arange(weights.sum(), dtype=float)), found)


def test_sums_follow_many_random_updates() -> None:
    rng = np.random.default_rng(0)
    tree, naive = SumTree(5000), np.zeros(5000)
    for n in (1, 3, 64, 5000, 200, 1):
        indices, values = rng.integers(0, 5000, n), rng.random(n) * rng.integers(0, 2, n)
        tree.set(indices, values)
        for index, value in zip(indices, values, strict=True):
            naive[index] = value
        np.testing.assert_array_equal(tree.get(np.arange(5000)), naive)
        assert tree.total == pytest.approx(naive.sum(), rel=1e-12)
        if tree.total:
            sums = rng.random(500) * tree.total
            expected = np.searchsorted(naive.cumsum(), sums, side="right")
            np.testing.assert_array_equal(tree.find(sums), expected)


def test_one_number_for_all() -> None:
    tree = SumTree(100)
    tree.set(np.arange(40, 60), 2.5)
    assert tree.total == 50.0
    assert set(tree.find(np.linspace(0, 49.9, 200))) == set(range(40, 60))


def test_rounding_never_finds_an_index_without_weight() -> None:
    rng = np.random.default_rng(1)
    tree = SumTree(3000)
    weights = np.where(rng.random(3000) < 0.3, 10.0 ** rng.integers(-12, 12, 3000), 0.0)
    tree.set(np.arange(3000), weights)
    sums = np.concatenate(
        [weights.cumsum(), np.nextafter(weights.cumsum(), 0), rng.random(3000) * tree.total]
    )
    found = tree.find(np.clip(sums, 0.0, np.nextafter(tree.total, 0.0)))
    assert (found < 3000).all()
    assert (weights[found] > 0).all()

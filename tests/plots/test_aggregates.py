"""Figures over training seeds, against those worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rlzoo.core.errors import UserError
from rlzoo.plots.aggregates import (
    aggregate,
    bootstrap_interval,
    iqm,
    median_of_tasks,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    stratified_bootstrap,
)

ELEVEN = [492.6, 500.0, 488.5, 500.0, 447.0, 500.0, 500.0, 500.0, 496.4, 500.0, 490.0]


def test_one_seed_has_no_spread():
    one = aggregate([3.5])
    assert (one.mean, one.median, one.iqm) == (3.5, 3.5, 3.5)
    assert one.std is one.mean_interval is one.iqm_interval is None


def test_three_seeds():
    three = aggregate([10.0, 2.0, 3.0])
    assert (three.mean, three.median, three.iqm) == (5.0, 3.0, 5.0)  # nothing can be cut off
    assert three.std == pytest.approx(((5**2 + 3**2 + 2**2) / 2) ** 0.5)
    # all three of a resample are the smallest with probability 1/27, which is more than 2.5%
    assert three.mean_interval == three.iqm_interval == (2.0, 10.0)


def test_equal_values_have_an_interval_without_width():
    same = aggregate([500.0] * 5)
    assert same.std == 0 and same.mean_interval == same.iqm_interval == (500.0, 500.0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.0], 7.0),
        ([1.0, 3.0, 8.0], 4.0),
        ([100.0, 1.0, 3.0, -100.0], 2.0),
        ([-50.0, 1.0, 2.0, 6.0, 99.0], 3.0),  # one at each end
        ([0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 9.0, 9.0], 2.5),  # two at each end
    ],
)
def test_iqm(values, expected):
    assert iqm(np.array(values)) == expected


def test_iqm_is_of_each_line():
    lines = np.array([[4.0, 1.0, 2.0, 90.0], [0.0, 0.0, 0.0, 1.0]])
    assert iqm(lines, axis=1).tolist() == [3.0, 0.0] and iqm(lines.T, axis=0).tolist() == [3.0, 0.0]


def test_iqm_of_a_matrix_pools_runs_and_tasks():
    assert iqm(np.array([[4.0, 1.0], [2.0, 90.0]])) == 3.0 and isinstance(iqm([[1, 2]]), float)


def test_an_interval_is_that_of_all_resamples():
    """The chance of k ones in four draws from {0, 0, 0, 1} is binomial, so both ends are known."""
    # P(0 ones) = 0.316, P(at most 2) = 0.949, P(at most 3) = 0.996
    assert bootstrap_interval([0.0, 1.0, 0.0, 0.0], lambda drawn: drawn.mean(axis=-1)) == (0.0, 0.75)


def test_figures_are_those_of_rliable():
    """By get_interval_estimates of rliable 1.2.0 with 10,000 resamples; three calls of it differ by 0.2."""
    figures = aggregate(ELEVEN)
    assert figures.mean == pytest.approx(492.227272727) and figures.iqm == pytest.approx(497.0)
    assert figures.mean_interval == pytest.approx((482.18, 498.65), abs=0.25)
    assert figures.iqm_interval == pytest.approx((487.15, 500.0), abs=0.25)


def test_figures_are_the_same_each_time_and_in_each_order():
    np.random.seed(1)
    first = aggregate(ELEVEN)
    np.random.seed(2)
    assert aggregate(ELEVEN) == first
    assert aggregate(ELEVEN[::-1]) == first


def test_the_global_generator_is_left_alone():
    np.random.seed(3)
    expected = np.random.random()
    np.random.seed(3)
    aggregate(ELEVEN)
    assert np.random.random() == expected


# -- several environments: [n_runs, n_tasks] ----------------------------------------------------

TWO_TASKS = np.array([[0.0, 1.0], [0.2, 0.6], [0.4, 1.2]])


def test_median_is_that_of_the_means_of_tasks():
    assert median_of_tasks(TWO_TASKS) == pytest.approx((0.2 + 2.8 / 3) / 2)


def test_optimality_gap_ignores_what_lies_above_gamma():
    assert optimality_gap(TWO_TASKS) == pytest.approx(1 - (0.0 + 0.2 + 0.4 + 1.0 + 0.6 + 1.0) / 6)
    assert optimality_gap(TWO_TASKS, gamma=2.0) == pytest.approx(2 - 3.4 / 6)


def test_performance_profile_counts_scores_above_a_threshold():
    assert performance_profile(TWO_TASKS, [-1.0, 0.0, 0.5, 1.2]).tolist() == pytest.approx([1, 5 / 6, 0.5, 0])


def test_improvement_counts_ties_one_half():
    assert probability_of_improvement([1.0, 2.0], [1.0, 3.0]) == pytest.approx((0.5 + 0 + 1 + 0) / 4)
    assert probability_of_improvement([1.0, 2.0], [1.0, 2.0]) == 0.5
    x, y = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [0.5, 1.0]])
    assert probability_of_improvement(x, y) == 0.5  # 1 on the first task, 0 on the second


def test_improvement_needs_the_same_tasks():
    with pytest.raises(UserError, match="2 and of 1 tasks"):
        probability_of_improvement(TWO_TASKS, [1.0])


def test_stratified_bootstrap_draws_runs_within_their_task():
    scores = np.array([[0.0, 10.0], [0.0, 10.0], [0.0, 10.0]])
    low, high = stratified_bootstrap(scores, np.mean, n_resamples=50)
    assert low == high == 5.0  # every resample has as many of each task


def test_stratified_bootstrap_draws_each_task_by_itself():
    scores = np.array([[0.0, 0.0], [1.0, 1.0]])
    low, high = stratified_bootstrap(scores, lambda drawn: np.ptp(drawn.mean(axis=0)), n_resamples=99)
    assert low == 0 and high == 1  # the same runs of both tasks would never differ


def test_stratified_bootstrap_of_one_task_is_the_plain_bootstrap():
    low, high = stratified_bootstrap(sorted(ELEVEN), np.mean)
    assert (low, high) == aggregate(ELEVEN).mean_interval


def test_stratified_bootstrap_is_the_same_each_time():
    scores = np.random.RandomState(0).rand(6, 2)
    first = stratified_bootstrap(scores, np.mean, 99)
    np.random.seed(1)
    assert stratified_bootstrap(scores, np.mean, 99) == first
    assert stratified_bootstrap(scores, np.mean, 99, seed=1) != first


def test_stratified_bootstrap_of_curves_has_their_shape():
    scores = np.random.RandomState(0).rand(5, 2, 7)
    low, high = stratified_bootstrap(scores, lambda drawn: iqm(drawn.reshape(10, 7), axis=0), 20)
    assert low.shape == high.shape == (7,) and (low <= high).all()


def test_stratified_bootstrap_refuses_wrong_input():
    with pytest.raises(UserError, match="between 0 and 1, not 95"):
        stratified_bootstrap(TWO_TASKS, iqm, confidence=95)
    with pytest.raises(UserError, match="n_runs, n_tasks"):
        stratified_bootstrap([], iqm)


def test_iqm_needs_a_score():
    with pytest.raises(UserError, match="at least one score"):
        iqm([])

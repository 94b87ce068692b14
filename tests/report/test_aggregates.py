"""Figures over training seeds, against those worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rlzoo.report.aggregates import aggregate, bootstrap_interval, interquartile_mean

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
def test_interquartile_mean(values, expected):
    assert interquartile_mean(np.array(values)) == expected


def test_interquartile_mean_is_of_each_line():
    lines = np.array([[4.0, 1.0, 2.0, 90.0], [0.0, 0.0, 0.0, 1.0]])
    assert interquartile_mean(lines).tolist() == [3.0, 0.0]


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

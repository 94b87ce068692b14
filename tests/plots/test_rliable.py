"""Aggregates and intervals against the package rliable, where it is installed.

rliable 1.2.0 does not import beside pandas 3; `pip install "rlzoo[bench]"` has what works. Seen to pass with
rliable 1.2.0, arch 7.2.0, pandas 2.3.3, NumPy 2.4.6 and SciPy 1.17.1.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from rlzoo.plots.aggregates import (
    bootstrap_interval,
    iqm,
    median_of_tasks,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    stratified_bootstrap,
)

SEED = 7
RESAMPLES = 300
EXACT = {"rel": 0, "abs": 1e-6}


@pytest.fixture(scope="module")
def rliable():
    try:
        from rliable import library, metrics
    except (ImportError, TypeError) as error:  # TypeError: arch beside pandas 3
        pytest.skip(f"rliable cannot be imported: {error}")
    return SimpleNamespace(library=library, metrics=metrics)


@pytest.fixture(params=[(3, 1), (5, 4), (10, 7)], ids=["3x1", "5x4", "10x7"])
def scores(request):
    """Scores with ties, some above 1: [n_runs, n_tasks]."""
    return np.round(np.random.RandomState(1).gamma(2.0, 0.4, request.param), 1)


def intervals(rliable, scores, statistic):
    """What rliable draws after its generator, which is NumPy's global one, was seeded."""
    state = np.random.get_state()
    np.random.seed(SEED)
    _, found = rliable.library.get_interval_estimates({"it": scores}, statistic, reps=RESAMPLES)
    np.random.set_state(state)
    return found["it"]


def test_point_estimates_are_those_of_rliable(rliable, scores):
    metrics = rliable.metrics
    assert iqm(scores) == pytest.approx(metrics.aggregate_iqm(scores), **EXACT)
    assert median_of_tasks(scores) == pytest.approx(metrics.aggregate_median(scores), **EXACT)
    assert scores.mean() == pytest.approx(metrics.aggregate_mean(scores), **EXACT)
    for gamma in (0.5, 1.0):
        theirs = metrics.aggregate_optimality_gap(scores, gamma)
        assert optimality_gap(scores, gamma) == pytest.approx(theirs, **EXACT)


def test_improvement_is_that_of_rliable(rliable, scores):
    other = np.round(scores[::-1] * 0.9, 1)[:-1]  # another number of runs
    theirs = rliable.metrics.probability_of_improvement(scores, other)
    assert probability_of_improvement(scores, other) == pytest.approx(theirs, **EXACT)
    assert probability_of_improvement(scores, scores) == 0.5


def test_intervals_are_those_of_rliable(rliable, scores):
    def all_four(drawn):
        return np.array([median_of_tasks(drawn), iqm(drawn), drawn.mean(), optimality_gap(drawn)])

    def theirs(drawn):
        metrics = rliable.metrics
        return np.array(
            [
                metrics.aggregate_median(drawn),
                metrics.aggregate_iqm(drawn),
                metrics.aggregate_mean(drawn),
                metrics.aggregate_optimality_gap(drawn),
            ]
        )

    ours = stratified_bootstrap(scores, all_four, RESAMPLES, seed=SEED)
    assert np.stack(ours) == pytest.approx(intervals(rliable, scores, theirs), **EXACT)


def test_intervals_of_improvement_are_those_of_rliable(rliable, scores):
    pair = (scores, scores[:-1] * 0.8)
    theirs = intervals(rliable, pair, rliable.metrics.probability_of_improvement)
    ours = stratified_bootstrap(pair, probability_of_improvement, RESAMPLES, seed=SEED)
    assert np.ravel(ours) == pytest.approx(np.ravel(theirs), **EXACT)


def test_profiles_are_those_of_rliable(rliable, scores):
    thresholds = np.linspace(0, 1.5, 31)
    state = np.random.get_state()
    np.random.seed(SEED)
    values, bands = rliable.library.create_performance_profile({"it": scores}, thresholds, reps=RESAMPLES)
    np.random.set_state(state)
    assert performance_profile(scores, thresholds) == pytest.approx(values["it"], **EXACT)
    ours = stratified_bootstrap(
        scores, lambda drawn: performance_profile(drawn, thresholds), RESAMPLES, seed=SEED
    )
    assert np.stack(ours) == pytest.approx(bands["it"], **EXACT)


def test_sample_efficiency_is_that_of_rliable(rliable):
    curves = np.random.RandomState(2).rand(5, 3, 6)  # [n_runs, n_tasks, n_evaluations]

    def theirs(drawn):
        return np.array([rliable.metrics.aggregate_iqm(drawn[..., i]) for i in range(drawn.shape[-1])])

    def ours(drawn):
        return iqm(drawn.reshape(-1, drawn.shape[-1]), axis=0)

    assert ours(curves) == pytest.approx(theirs(curves), **EXACT)
    found = stratified_bootstrap(curves, ours, RESAMPLES, seed=SEED)
    assert np.stack(found) == pytest.approx(intervals(rliable, curves, theirs), **EXACT)


def test_intervals_of_one_task_are_close_to_those_of_rliable(rliable):
    """Other resamples: the bands of learning curves draw whole runs, and all of them at once."""
    runs = np.random.RandomState(3).normal(100, 10, 12)
    ours = bootstrap_interval(runs, lambda drawn: drawn.mean(axis=1))
    state = np.random.get_state()
    np.random.seed(SEED)
    _, found = rliable.library.get_interval_estimates(
        {"it": runs[:, None]}, lambda drawn: np.array([drawn.mean()]), reps=10_000
    )
    np.random.set_state(state)
    assert np.ravel(ours) == pytest.approx(np.ravel(found["it"]), abs=0.3)

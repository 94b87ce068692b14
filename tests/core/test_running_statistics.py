from __future__ import annotations

import numpy as np
import pytest

from rlzoo.core.running_statistics import RunningMeanStd


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_batches_give_the_moments_of_all_samples(batch: int) -> None:
    samples = np.random.default_rng(0).normal(3.0, 2.0, (70, 4)).astype(np.float32)
    running = RunningMeanStd(epsilon=1e-8, shape=(4,))
    for start in range(0, len(samples), batch):
        running.update(samples[start : start + batch])
    np.testing.assert_allclose(running.mean, samples.mean(axis=0, dtype=np.float64), rtol=1e-6)
    np.testing.assert_allclose(running.var, samples.var(axis=0, dtype=np.float64), rtol=1e-5)
    assert running.count == pytest.approx(70)
    assert running.mean.dtype == np.float64


def test_start_values_count_as_epsilon_samples() -> None:
    running = RunningMeanStd(epsilon=1.0)
    running.update(np.array([2.0]))
    # one sample of mean 0 and variance 1, one of 2: mean 1, variance (1 + 0 + 4) / 2 - 1
    assert running.mean == pytest.approx(1.0)
    assert running.var == pytest.approx(1.5)


def test_a_large_offset_does_not_drown_the_variance() -> None:
    samples = 1e6 + np.random.default_rng(0).normal(size=(1000, 1))
    running = RunningMeanStd(epsilon=1e-12, shape=(1,))
    for sample in samples:
        running.update(sample[None])
    np.testing.assert_allclose(running.var, samples.var(axis=0), rtol=1e-2)


def test_combining_equals_seeing_all_samples() -> None:
    samples = np.random.default_rng(1).normal(size=(30, 2))
    one, other, both = (RunningMeanStd(epsilon=1e-9, shape=(2,)) for _ in range(3))
    one.update(samples[:10])
    other.update(samples[10:])
    both.update(samples)
    one.combine(other)
    np.testing.assert_allclose(one.mean, both.mean, rtol=1e-6)
    np.testing.assert_allclose(one.var, both.var, rtol=1e-6)


def test_update_from_moments_equals_update() -> None:
    samples = np.random.default_rng(2).normal(size=(16, 3))
    by_samples, by_moments = RunningMeanStd(shape=(3,)), RunningMeanStd(shape=(3,))
    by_samples.update(samples)
    by_moments.update_from_moments(samples.mean(axis=0), samples.var(axis=0), len(samples))
    np.testing.assert_allclose(by_samples.mean, by_moments.mean)
    np.testing.assert_allclose(by_samples.var, by_moments.var)


def test_a_copy_is_independent() -> None:
    running = RunningMeanStd(shape=(2,))
    running.update(np.ones((5, 2)))
    copy = running.copy()
    running.update(np.zeros((5, 2)))
    np.testing.assert_allclose(copy.mean, 1.0, rtol=1e-4)
    assert copy.count != running.count

"""Running statistics as parts of networks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.networks.running_normalizer import ObservationNormalizer, RunningNormalizer


def test_the_statistics_are_those_of_everything_shown():
    rng = np.random.default_rng(0)
    samples = rng.normal([1e3, -2], [0.5, 3], size=(100, 2)).astype(np.float32)
    normalizer = RunningNormalizer((2,))
    for start, end in ((0, 1), (1, 2), (2, 50), (50, 100)):
        normalizer.update(torch.from_numpy(samples[start:end]))
    exact = samples.astype(np.float64)
    assert normalizer.mean.numpy() == pytest.approx(exact.mean(axis=0), rel=1e-12)
    assert normalizer.var.numpy() == pytest.approx(exact.var(axis=0), rel=1e-9)
    scaled = normalizer(torch.from_numpy(samples))
    assert scaled.numpy() == pytest.approx((exact - exact.mean(axis=0)) / exact.std(axis=0), abs=1e-3)
    assert scaled.dtype == torch.float32


def test_before_anything_is_shown_numbers_are_clipped_alone():
    normalizer = RunningNormalizer((), -2.0, 3.0)
    x = torch.tensor([-5.0, 0.1, 7.0])
    assert normalizer(x).tolist() == pytest.approx([-2, 0.1, 3])
    assert normalizer.restore(x).tolist() == pytest.approx([-2, 0.1, 3])


def test_normalizer_inverts_and_handles_zero_variance():
    normalizer = RunningNormalizer()
    normalizer.update(torch.tensor([3.0, 5.0, 10.0]))
    x = torch.tensor([-1.0, 4.0])
    torch.testing.assert_close(normalizer.restore(normalizer(x)), x)
    constant = RunningNormalizer()
    constant.update(torch.full((5,), 2.0))
    assert constant(torch.tensor(2.0)) == 0 and math.isfinite(float(constant(torch.tensor(3.0))))


def test_the_parts_of_a_dict_that_are_vectors_are_scaled():
    space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (3, 36, 36), np.uint8),
            "choice": spaces.Discrete(3),
            "vector.x": spaces.Box(-1, 1, (2,)),
        }
    )
    normalizer = ObservationNormalizer(space, -5, 5)
    parts = {"image": torch.ones(4, 3, 36, 36), "choice": torch.eye(3)[[0, 1, 2, 2]]}
    vectors = torch.tensor([[0.0, 10], [1, 20], [2, 30], [3, 40]])
    normalizer.update({**parts, "vector.x": vectors})
    scaled = normalizer({**parts, "vector.x": vectors})
    assert all(torch.equal(scaled[key], part) for key, part in parts.items())
    expected = (vectors - vectors.mean(dim=0)) / vectors.std(dim=0, correction=0)
    torch.testing.assert_close(scaled["vector.x"], expected)


def test_what_has_no_vector_is_refused():
    for space in (spaces.Discrete(3), spaces.Box(0, 255, (3, 36, 36), np.uint8)):
        with pytest.raises(UserError, match="normalize_observations"):
            ObservationNormalizer(space, -5, 5)

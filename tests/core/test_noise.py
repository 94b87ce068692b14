"""Action noise has the statistics it promises, and goes on from its state to the bit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rlzoo.core.action_noise import (
    AdaptiveParamNoiseSpec,
    LinearNormalActionNoise,
    NormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
    VectorizedActionNoise,
)
from rlzoo.core.errors import CheckpointError, UserError


@pytest.fixture(autouse=True)
def seeded():
    np.random.seed(0)


def draws(noise, n):
    return np.stack([noise() for _ in range(n)])


def test_normal_noise_has_its_mean_and_deviation():
    samples = draws(NormalActionNoise([0.5, -1.0], [0.1, 2.0]), 20_000)
    assert samples.dtype == np.float32 and samples.shape == (20_000, 2)
    assert samples.mean(axis=0) == pytest.approx([0.5, -1.0], abs=0.05)
    assert samples.std(axis=0) == pytest.approx([0.1, 2.0], rel=0.02)
    assert abs(np.corrcoef(samples[1:, 0], samples[:-1, 0])[0, 1]) < 0.03
    assert abs(np.corrcoef(samples.T)[0, 1]) < 0.03


def test_scalar_noise_broadcasts_and_keeps_dtype():
    noise = NormalActionNoise(np.zeros(3), 0.1, dtype=np.float64)()
    assert noise.shape == (3,) and noise.dtype == np.float64 and len(set(noise)) == 3


def test_ornstein_uhlenbeck_noise_drifts_around_its_mean():
    theta, dt, sigma = 2.0, 0.05, 0.3
    noise = OrnsteinUhlenbeckActionNoise(np.full(200, 1.0), np.full(200, sigma), theta, dt)
    draws(noise, 200)  # forget the beginning
    samples = draws(noise, 1000).astype(np.float64)
    decay = 1 - theta * dt  # x is an autoregressive process of order one with this coefficient
    assert samples.mean() == pytest.approx(1.0, abs=0.02)
    assert samples.std() == pytest.approx(sigma * math.sqrt(dt / (1 - decay**2)), rel=0.03)
    centred = samples - samples.mean()
    for lag in (1, 5):
        assert (centred[lag:] * centred[:-lag]).mean() / centred.var() == pytest.approx(decay**lag, abs=0.03)


def test_ornstein_uhlenbeck_without_noise_decays_to_mean():
    noise = OrnsteinUhlenbeckActionNoise([3.0], [0.0], theta=0.5, dt=0.1, initial_noise=[1.0])
    expected = [3 - 2 * 0.95**n for n in (1, 2, 3)]
    assert draws(noise, 3)[:, 0] == pytest.approx(expected)
    noise.reset()
    assert draws(noise, 3)[:, 0] == pytest.approx(expected)
    default = OrnsteinUhlenbeckActionNoise([3.0], [0.0], theta=0.5, dt=0.1)
    assert default()[0] == pytest.approx(0.15), "an episode begins at zero"


def test_the_deviation_of_linear_noise_falls_and_then_stays():
    noise = LinearNormalActionNoise(np.zeros(20_000), 1.0, max_steps=4, final_sigma=0.2)
    deviations = [noise().std() for _ in range(7)]
    assert deviations == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2], rel=0.03)
    silent = LinearNormalActionNoise([0.5], [1.0], max_steps=1)
    silent()
    assert silent()[0] == 0.5, "without a final sigma the noise ends"


def test_vectorized_noise_resets_only_ended_episodes():
    noise = VectorizedActionNoise(OrnsteinUhlenbeckActionNoise([0.0, 0.0], [0.0, 0.0], 1.0, 0.5, [1, 2]), 3)
    assert noise().tolist() == [[0.5, 1.0]] * 3
    noise.reset(np.array([1]))
    assert noise().tolist() == [[0.25, 0.5], [0.5, 1.0], [0.25, 0.5]]
    noise.reset()
    assert noise().tolist() == [[0.5, 1.0]] * 3
    rows = VectorizedActionNoise(NormalActionNoise([0.0], [1.0]), 3)()
    assert rows.shape == (3, 1) and len(np.unique(rows)) == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: NormalActionNoise([0.0], [0.3]),
        lambda: OrnsteinUhlenbeckActionNoise([0.0, 0.1], [0.3, 0.2]),
        lambda: LinearNormalActionNoise([0.0], [0.3], max_steps=6),
        lambda: VectorizedActionNoise(OrnsteinUhlenbeckActionNoise([0.0, 0.1], [0.3, 0.2]), 4),
        lambda: VectorizedActionNoise(LinearNormalActionNoise([0.0], [0.3], max_steps=6), 2),
    ],
)
def test_noise_goes_on_from_its_state_to_the_bit(make):
    noise = make()
    draws(noise, 3)
    state, generator = noise.state_dict(), np.random.get_state()
    expected = draws(noise, 5)
    again = make()
    again.load_state_dict(state)
    np.random.set_state(generator)
    assert np.array_equal(draws(again, 5), expected)


def test_the_state_of_another_noise_is_refused():
    drifting = OrnsteinUhlenbeckActionNoise([0.0], [0.3])
    for state in ({}, {"step": 3}, {"noise": np.zeros(2)}, None):
        with pytest.raises(CheckpointError):
            drifting.load_state_dict(state)
    with pytest.raises(CheckpointError, match="2 environments, not for 3"):
        VectorizedActionNoise(drifting, 2).load_state_dict(VectorizedActionNoise(drifting, 3).state_dict())
    with pytest.raises(CheckpointError):
        NormalActionNoise([0.0], [0.3]).load_state_dict({"step": 1})


def test_parameter_noise_spec_adapts_to_distance():
    spec = AdaptiveParamNoiseSpec(initial_stddev=0.2, desired_action_stddev=0.1, adoption_coefficient=1.5)
    spec.adapt(0.05)
    assert spec.get_stats() == {"param_noise_stddev": pytest.approx(0.3)}
    spec.adapt(0.11)
    spec.adapt(0.11)
    assert spec.current_stddev == pytest.approx(0.2 / 1.5)
    again = AdaptiveParamNoiseSpec()
    again.load_state_dict(spec.state_dict())
    assert again.current_stddev == spec.current_stddev


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: NormalActionNoise([0.0], [-1.0]), "sigma of the noise must be at least 0"),
        (lambda: NormalActionNoise([0.0], ["much"]), "must be numbers"),
        (lambda: NormalActionNoise([float("nan")], [1.0]), "finite"),
        (lambda: NormalActionNoise([0.0, 0.0], [1.0, 1.0, 1.0]), r"mean \(2,\), sigma \(3,\)"),
        (lambda: NormalActionNoise([0.0], [1.0], dtype=np.int64), "floating"),
        (lambda: OrnsteinUhlenbeckActionNoise([0.0], [1.0], dt=0), "dt above 0"),
        (lambda: OrnsteinUhlenbeckActionNoise([0.0] * 3, [1.0], initial_noise=[1, 2]), "initial_noise"),
        (lambda: LinearNormalActionNoise([0.0], [1.0], max_steps=0), "max_steps"),
        (lambda: VectorizedActionNoise(NormalActionNoise, 2), "base_noise"),
        (lambda: VectorizedActionNoise(NormalActionNoise([0.0], [1.0]), 0), "n_envs"),
        (lambda: AdaptiveParamNoiseSpec(adoption_coefficient=0.9), "adoption_coefficient above 1"),
    ],
)
def test_mistakes_are_named(make, text):
    with pytest.raises(UserError, match=text):
        make()


def test_noise_of_each_environment_can_be_replaced():
    vector = VectorizedActionNoise(NormalActionNoise([0.0], [1.0]), 2)
    quiet = [NormalActionNoise([value], [0.0]) for value in (1.0, 2.0)]
    vector.noises = quiet
    assert vector().tolist() == [[1.0], [2.0]]
    vector.base_noise = NormalActionNoise([3.0], [0.0])
    assert vector().tolist() == [[3.0], [3.0]]
    with pytest.raises(AssertionError, match="2, one for each environment, not 1"):
        vector.noises = quiet[:1]
    for wrong in ([None, None], [OrnsteinUhlenbeckActionNoise([0.0], [1.0])] * 2):
        with pytest.raises(TypeError, match="NormalActionNoise of one environment"):
            vector.noises = wrong


def test_shapes_of_mean_and_deviation_are_broadcast():
    assert NormalActionNoise(np.zeros(3), np.ones(1))().shape == (3,)
    assert OrnsteinUhlenbeckActionNoise(np.zeros(1), np.ones(3))().shape == (3,)

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from rlzoo import DDPG, DQN, SAC
from rlzoo.core.action_noise import (
    AdaptiveParamNoiseSpec,
    LinearNormalActionNoise,
    NormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
)
from rlzoo.core.errors import UserError
from rlzoo.experiment.noise_config import plan_noise

ACTIONS = spaces.Box(-1, 1, (2,))


def make(algorithm=SAC, n_calls=100, **values):
    return plan_noise(values, algorithm).make(ACTIONS, n_calls)


def test_normal_noise():
    noise = make(noise_type="normal", noise_std=0.3)["action_noise"]
    assert isinstance(noise, NormalActionNoise)
    np.testing.assert_array_equal(noise.mean, np.zeros(2))
    np.testing.assert_allclose(noise.sigma, np.full(2, 0.3))


def test_drifting_noise():
    noise = make(noise_type="ornstein-uhlenbeck", noise_std=0.5)["action_noise"]
    assert isinstance(noise, OrnsteinUhlenbeckActionNoise)
    np.testing.assert_allclose(noise.sigma, np.full(2, 0.5))


@pytest.mark.parametrize(
    ("values", "final"),
    [
        ({"noise_type": "normal", "noise_std_final": 0.1}, 0.1),
        ({"noise_type": "lin-normal"}, 0.0),
        ({"noise_type": "normal-lin", "noise_std_final": 0.2}, 0.2),
    ],
)
def test_noise_that_fades(values, final):
    noise = make(noise_std=0.5, n_calls=10, **values)["action_noise"]
    assert isinstance(noise, LinearNormalActionNoise)
    assert noise.max_steps == 10
    np.testing.assert_allclose(noise.final_sigma, np.full(2, final))


def test_noise_on_parameters():
    spec = make(DDPG, noise_type="adaptive-param", noise_std=0.2)["param_noise"]
    assert isinstance(spec, AdaptiveParamNoiseSpec)
    assert (spec.initial_stddev, spec.desired_action_stddev) == (0.2, 0.2)


@pytest.mark.parametrize("values", [{}, {"noise_type": None, "noise_std": 0.1}, {"noise_type": "none"}])
def test_no_noise(values):
    assert plan_noise(values, SAC) is None
    assert plan_noise(values, DQN) is None


@pytest.mark.parametrize(
    ("algorithm", "values", "text"),
    [
        (SAC, {"noise_type": "gaussian", "noise_std": 0.1}, "unknown noise_type 'gaussian'"),
        (SAC, {"noise_type": "ornstein_uhlenbeck", "noise_std": 0.1}, "did you mean 'ornstein-uhlenbeck'"),
        (SAC, {"noise_type": "normal"}, "needs noise_std"),
        (SAC, {"noise_std": 0.1}, "noise_std is of no use without noise_type"),
        (SAC, {"noise_type": "normal", "noise_std": "high"}, "noise_std must be a number"),
        (
            SAC,
            {"noise_type": "ornstein-uhlenbeck", "noise_std": 0.1, "noise_std_final": 0},
            "noise_std_final is for normal noise",
        ),
        (SAC, {"noise_type": "adaptive-param", "noise_std": 0.1}, "SAC has no noise on parameters"),
        (DQN, {"noise_type": "normal", "noise_std": 0.1}, "DQN has no action noise"),
        (DDPG, {"noise_type": "adaptive-param", "noise_std": 0}, "noise_std must be above 0"),
        (
            SAC,
            {"noise_type": "normal", "noise_std": 0.1, "action_noise": NormalActionNoise(0, 1)},
            "noise_type and action_noise say the same",
        ),
    ],
)
def test_mistakes(algorithm, values, text):
    with pytest.raises(UserError, match=text):
        plan_noise(values, algorithm)

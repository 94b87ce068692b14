"""Retrace against its definition (Munos et al. 2016, eq. 4) and in cases with a known answer."""

from __future__ import annotations

import numpy as np
import pytest

from rlzoo.core.returns import retrace

RNG = np.random.default_rng(0)
N_STEPS, N_ENVS = 7, 3


def arrays():
    shape = (N_STEPS, N_ENVS)
    rewards, q, following = (RNG.normal(size=shape).astype(np.float32) for _ in range(3))
    ratios = RNG.exponential(size=shape).astype(np.float32)
    return rewards, q, following, ratios


def by_definition(rewards, q, following, ratios, terminated, truncated, gamma):
    """Q_t + sum over s >= t of gamma^(s-t) (c_{t+1} ... c_s) (r_s + gamma V_{s+1} - Q_s), c = min(1, rho)."""
    targets = np.zeros(rewards.shape)
    for env in range(rewards.shape[1]):
        for t in range(rewards.shape[0]):
            total, weight = float(q[t, env]), 1.0
            for s in range(t, rewards.shape[0]):
                if s > t:
                    weight *= gamma * min(1.0, ratios[s, env])
                bootstrap = 0.0 if terminated[s, env] else gamma * following[s, env]
                total += weight * (rewards[s, env] + bootstrap - q[s, env])
                if terminated[s, env] or truncated[s, env]:
                    break
            targets[t, env] = total
    return targets


def test_targets_are_the_definition():
    rewards, q, following, ratios = arrays()
    terminated, truncated = np.zeros((2, N_STEPS, N_ENVS), bool)
    terminated[2, 0] = terminated[N_STEPS - 1, 1] = True
    truncated[4, 1] = truncated[3, 2] = True
    found = retrace(rewards, q, following, ratios, terminated, truncated, 0.9)
    expected = by_definition(rewards, q, following, ratios, terminated, truncated, 0.9)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert found.dtype == np.float32


def test_without_trust_in_the_behaviour_targets_are_one_step():
    rewards, q, following, _ = arrays()
    never = np.zeros((N_STEPS, N_ENVS), bool)
    found = retrace(rewards, q, following, np.zeros_like(q), never, never, 0.9)
    np.testing.assert_allclose(found, rewards + 0.9 * following, rtol=1e-6)


@pytest.mark.parametrize("ratio", [1.0, 5.0])
def test_on_policy_with_one_action_targets_are_returns(ratio):
    """Q = V where there is one action, so the corrections telescope."""
    rewards, q, _, _ = arrays()
    never = np.zeros((N_STEPS, N_ENVS), bool)
    last = np.array([1.0, -2.0, 0.5], np.float32)
    following = np.concatenate([q[1:], last[None]])
    found = retrace(rewards, q, following, np.full_like(q, ratio), never, never, 0.8)
    expected, following_return = np.zeros_like(q), last
    for t in reversed(range(N_STEPS)):
        expected[t] = following_return = rewards[t] + 0.8 * following_return
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)

"""The physics of exported pages against those of Gymnasium."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlzoo.export.html_page import LIMITS

STEPS = """
const environment = ENVIRONMENTS[input.env_id];
const shown = input.steps.map(([state, action]) => {
  const result = environment.step(state, action);
  return [environment.observe(state), environment.observe(result.state), result.reward, result.terminated];
});
output = {limit: environment.limit, shown};
"""


def play(env: gym.Env, seed: int, repeat: int) -> Iterator[tuple[list[Any], list[Any]]]:
    """The steps of one episode of random actions, each held for `repeat` steps.

    Each is a pair: the state (in which small differences would grow) and the action; what Gymnasium makes of
    them.
    """
    obs, _ = env.reset(seed=seed)
    env.action_space.seed(seed)
    terminated, truncated, n, action = False, False, 0, None
    while not (terminated or truncated):
        state = np.asarray(env.unwrapped.state, float).tolist()
        action = env.action_space.sample() if n % repeat == 0 else action
        before, n = obs.tolist(), n + 1
        obs, reward, terminated, truncated, _ = env.step(action)
        yield [state, np.asarray(action).tolist()], [before, obs.tolist(), float(reward), bool(terminated)]


@pytest.mark.filterwarnings("ignore:.*CartPole-v0 is out of date:DeprecationWarning")
@pytest.mark.parametrize("env_id", LIMITS)
def test_physics_are_those_of_gymnasium(env_id, run_in_node):
    env = gym.make(env_id)
    steps = [step for seed, repeat in [(0, 1), (1, 7), (2, 30), (3, 3)] for step in play(env, seed, repeat)]
    given, theirs = zip(*steps, strict=True)
    ours = run_in_node(("environments.js",), STEPS, {"env_id": env_id, "steps": given})
    assert env.spec.max_episode_steps == LIMITS[env_id] == ours["limit"]
    for mine, wanted in zip(ours["shown"], theirs, strict=True):
        np.testing.assert_allclose(mine[0] + mine[1], wanted[0] + wanted[1], atol=1e-6)
        assert mine[2] == pytest.approx(wanted[2], abs=1e-6) and mine[3] == wanted[3]
    env.close()


RESETS = """
output = input.map((name) => Array.from({length: 200}, () => {
  const environment = ENVIRONMENTS[name];
  return environment.observe(environment.reset(Math.random));
}));
"""


@pytest.mark.filterwarnings("ignore:.*CartPole-v0 is out of date:DeprecationWarning")
def test_episodes_begin_as_in_gymnasium(run_in_node):
    for env_id, shown in zip(LIMITS, run_in_node(("environments.js",), RESETS, list(LIMITS)), strict=True):
        env = gym.make(env_id)
        begun = np.array([env.reset(seed=seed)[0] for seed in range(200)])
        span = begun.max(axis=0) - begun.min(axis=0) + 1e-9
        assert (np.abs(np.min(shown, axis=0) - begun.min(axis=0)) <= 0.15 * span).all()
        assert (np.abs(np.max(shown, axis=0) - begun.max(axis=0)) <= 0.15 * span).all()
        env.close()

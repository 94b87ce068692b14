"""Environments with invalid actions: what they forbid, and that seeds fix it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlzoo.core.errors import UserError
from rlzoo.envs.examples.toy_invalid_actions import (
    InvalidActionEnvDiscrete,
    InvalidActionEnvMultiBinary,
    InvalidActionEnvMultiDiscrete,
)
from rlzoo.envs.single_env.check_env import check_env
from rlzoo.envs.single_env.registration import ensure_registered

CASES = {
    "discrete": (lambda: InvalidActionEnvDiscrete(dim=8, n_invalid_actions=5), 8),
    "multi_discrete": (lambda: InvalidActionEnvMultiDiscrete(dims=[2, 4], n_invalid_actions=3), 6),
    "multi_binary": (lambda: InvalidActionEnvMultiBinary(dims=3, n_invalid_actions=2), 6),
}


def right_choices(name: str, state: Any) -> np.ndarray:
    """Where the right choices are among all."""
    firsts = {"discrete": [0], "multi_discrete": [0, 2], "multi_binary": [0, 2, 4]}[name]
    return np.array(firsts) + np.ravel(state)


@pytest.mark.parametrize("name", CASES)
def test_the_right_choice_is_never_among_the_forbidden(name: str) -> None:
    make, n_choices = CASES[name]
    env = make()
    check_env(env)
    observation, _ = env.reset(seed=0)
    seen = np.zeros(n_choices, int)
    for _ in range(300):
        masks = env.action_masks()
        assert masks.shape == (n_choices,) and masks.dtype == bool
        assert (~masks).sum() == env.n_invalid_actions
        assert masks[right_choices(name, observation)].all()
        seen += ~masks
        observation, reward, _, truncated, _ = env.step(observation)
        assert reward == 1.0
        if truncated:
            observation, _ = env.reset()
    assert (seen > 30).all()  # every choice is forbidden now and then


@pytest.mark.parametrize("name", CASES)
def test_a_seed_fixes_observations_and_masks(name: str) -> None:
    def episode(seed: int) -> list[Any]:
        env = CASES[name][0]()
        observation, _ = env.reset(seed=seed)
        told = [(np.ravel(observation).tolist(), env.action_masks().tolist())]
        for _ in range(20):
            observation = env.step(observation)[0]
            told.append((np.ravel(observation).tolist(), env.action_masks().tolist()))
        return told

    assert episode(1) == episode(1) != episode(2)


def test_masks_are_not_written_over() -> None:
    env = InvalidActionEnvDiscrete(dim=8, n_invalid_actions=5)
    env.reset(seed=0)
    kept = env.action_masks()
    before = kept.copy()
    for _ in range(5):
        env.step(0)
    np.testing.assert_array_equal(kept, before)


def test_something_must_be_left() -> None:
    InvalidActionEnvDiscrete(dim=4, n_invalid_actions=3)
    InvalidActionEnvMultiDiscrete(dims=[2, 3], n_invalid_actions=3)
    InvalidActionEnvMultiBinary(dims=2, n_invalid_actions=2)
    for make in (
        lambda: InvalidActionEnvDiscrete(dim=4, n_invalid_actions=4),
        lambda: InvalidActionEnvMultiDiscrete(dims=[2, 3], n_invalid_actions=4),
        lambda: InvalidActionEnvMultiBinary(dims=2, n_invalid_actions=3),
    ):
        with pytest.raises(UserError, match=r"n_invalid_actions must be from 0 to [32], not [43]"):
            make()


@pytest.mark.parametrize("kind", ["Discrete", "MultiDiscrete", "MultiBinary"])
def test_ids(kind: str) -> None:
    ensure_registered(f"InvalidAction{kind}-v0")
    env = gym.make(f"InvalidAction{kind}-v0")
    env.reset(seed=0)
    assert not env.get_wrapper_attr("action_masks")().all()
    if kind == "Discrete":
        env = gym.make("InvalidActionDiscrete-v0", dim=5, n_invalid_actions=1)
        env.reset(seed=0)
        assert env.get_wrapper_attr("action_masks")().sum() == 4

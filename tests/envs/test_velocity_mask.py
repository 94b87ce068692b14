"""Environments without velocities, by wrapper and by id."""

from __future__ import annotations

import importlib.util

import gymnasium as gym
import numpy as np
import pytest

from rlzoo.core.errors import UserError
from rlzoo.envs.examples.toy import IdentityEnv
from rlzoo.envs.examples.velocity_mask import VELOCITIES, MaskVelocityWrapper
from rlzoo.envs.make_vec_env import make_vec_env
from rlzoo.envs.single_env.registration import ensure_registered, known_env_ids

BOX2D = importlib.util.find_spec("Box2D") is not None
IDS = {
    "CartPoleNoVel-v1": "CartPole-v1",
    "MountainCarNoVel-v0": "MountainCar-v0",
    "MountainCarContinuousNoVel-v0": "MountainCarContinuous-v0",
    "PendulumNoVel-v1": "Pendulum-v1",
    "LunarLanderNoVel-v3": "LunarLander-v3",
    "LunarLanderContinuousNoVel-v3": "LunarLanderContinuous-v3",
}


@pytest.mark.parametrize("env_id", IDS)
def test_observations_are_the_same_but_for_the_velocities(env_id: str) -> None:
    if env_id.startswith("LunarLander") and not BOX2D:
        pytest.skip("needs Box2D")
    ensure_registered(env_id)
    hidden = list(VELOCITIES[env_id.partition("NoVel")[0]])
    masked, full = gym.make(env_id), gym.make(IDS[env_id])
    assert masked.observation_space == full.observation_space
    (seen, _), (expected, _) = masked.reset(seed=3), full.reset(seed=3)
    moved = np.zeros(expected.shape, bool)
    for _ in range(30):
        expected = expected.copy()
        moved |= expected != 0
        expected[hidden] = 0
        np.testing.assert_array_equal(seen, expected)
        assert seen.dtype == expected.dtype and masked.observation_space.contains(seen)
        action = full.action_space.sample()
        seen, reward, *ended, _ = masked.step(action)
        expected, other_reward, *other_ended, _ = full.step(action)
        assert (reward, ended) == (other_reward, other_ended)
        if any(ended):
            break
    assert moved[hidden].all()  # there was something to hide


@pytest.mark.parametrize("env_id", IDS)
def test_the_id_keeps_limits_and_arguments(env_id: str) -> None:
    ensure_registered(env_id)
    masked, full = gym.spec(env_id), gym.spec(IDS[env_id])
    for name in ("max_episode_steps", "reward_threshold", "kwargs", "entry_point"):
        assert getattr(masked, name) == getattr(full, name)
    assert env_id in known_env_ids()


def test_an_old_version_is_answered_with_todays() -> None:
    with pytest.raises(UserError, match="LunarLanderNoVel-v3"):
        ensure_registered("LunarLanderNoVel-v2")


def test_velocities_of_ones_own_environment() -> None:
    env = MaskVelocityWrapper(gym.make("Acrobot-v1"), velocities=[4, 5])
    env.reset(seed=0)
    seen = env.step(0)[0]
    assert seen[4] == seen[5] == 0 and (seen[:4] != 0).all()
    with pytest.raises(UserError, match=r"knows the velocities of CartPole.* for Acrobot give"):
        MaskVelocityWrapper(gym.make("Acrobot-v1"))
    with pytest.raises(UserError, match="indices of an observation of 6 numbers"):
        MaskVelocityWrapper(gym.make("Acrobot-v1"), velocities=[6])
    with pytest.raises(UserError, match="Box vector"):
        MaskVelocityWrapper(IdentityEnv(3))


def test_the_wrapper_knows_ids_with_velocities() -> None:
    env = MaskVelocityWrapper(gym.make("Pendulum-v1"))
    assert env.reset(seed=0)[0][2] == 0


@pytest.mark.parametrize("backend", ["dummy", "subproc", "auto"])
def test_vectors_hide_them_too(backend: str) -> None:
    venv = make_vec_env("CartPoleNoVel-v1", 2, seed=0, backend=backend)
    venv.reset()
    obs = venv.step(np.zeros(2, np.int64))[0]
    assert (obs[:, [1, 3]] == 0).all() and (obs[:, [0, 2]] != 0).all()
    venv.close()

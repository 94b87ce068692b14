"""The test environments keep the rules and pay what they say."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlzoo.core.errors import UserError
from rlzoo.envs.examples.toy import (
    BitFlippingEnv,
    Catch,
    FakeImageEnv,
    IdentityEnv,
    IdentityEnvBox,
    IdentityEnvMultiBinary,
    IdentityEnvMultiDiscrete,
    NanAndInfEnv,
    SimpleMultiObsEnv,
)
from rlzoo.envs.single_env.check_env import check_env


@pytest.mark.parametrize(
    "env",
    [
        IdentityEnv(4),
        IdentityEnvBox(),
        IdentityEnvMultiDiscrete(3),
        IdentityEnvMultiBinary(3),
        FakeImageEnv(),
        FakeImageEnv(discrete=False, channel_first=True, n_channels=3),
        SimpleMultiObsEnv(),
        SimpleMultiObsEnv(discrete_actions=False, channel_last=False),
        BitFlippingEnv(),
        BitFlippingEnv(continuous=True),
        BitFlippingEnv(discrete_obs_space=True),
        BitFlippingEnv(image_obs_space=True),
        BitFlippingEnv(image_obs_space=True, channel_first=False),
        Catch(),
    ],
)
def test_keeps_the_rules(env: gym.Env[Any, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env)


@pytest.mark.parametrize(
    "env", [IdentityEnv(4), IdentityEnvBox(), IdentityEnvMultiDiscrete(3), IdentityEnvMultiBinary(4)]
)
def test_identity_pays_for_the_observation(env: IdentityEnv) -> None:
    observation, _ = env.reset(seed=0)
    for step in range(1, 101):
        observation, reward, terminated, truncated, _ = env.step(observation)
        assert reward == 1.0
        assert not terminated
        assert truncated == (step == 100)
    env.reset(seed=0)
    rewards = [env.step(env.action_space.sample())[1] for _ in range(50)]
    assert np.mean(np.array(rewards, dtype=float)) < 0.6


def test_identity_box_allows_eps() -> None:
    env = IdentityEnvBox(eps=0.1)
    observation, _ = env.reset(seed=0)
    observation, reward, *_ = env.step(observation + 0.09)
    assert reward == 1.0
    assert env.step(observation - 0.11)[1] == 0.0


def test_identity_takes_one_of_dim_and_space() -> None:
    assert IdentityEnv().action_space == gym.spaces.Discrete(1)
    with pytest.raises(UserError):
        IdentityEnv(dim=2, space=gym.spaces.Discrete(2))


def test_attributes_say_where_an_episode_stands() -> None:
    identity = IdentityEnv(3)
    for _ in range(2):
        identity.reset()
    assert identity.num_resets == 2
    assert FakeImageEnv(n_channels=2, channel_first=True).observation_shape == (2, 84, 84)
    grid = SimpleMultiObsEnv(num_col=3, num_row=2, random_start=False)
    grid.reset()
    *_, info = grid.step(2)
    state = (grid.state, grid.count, grid.max_state, grid.action2str[2], info)
    assert state == (1, 1, 5, "right", {"got_to_end": False})
    assert (grid.num_col, grid.num_row, grid.max_count, grid.img_size) == (3, 2, 100, [64, 64, 1])


def test_bits_are_drawn() -> None:
    env = BitFlippingEnv(n_bits=4, render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert picture is not None and picture.shape == (8, 32, 3)
    np.testing.assert_array_equal(picture[0, ::8, 0] // 255, env.state)


@pytest.mark.parametrize("discrete", [True, False])
def test_multi_obs_grid_is_walked(discrete: bool) -> None:
    env = SimpleMultiObsEnv(random_start=False, discrete_actions=discrete)
    right, down = (2, 1) if discrete else (np.array([1.0, 0.5]), np.array([0.0, 1.0]))
    observation, _ = env.reset(seed=0)
    assert observation["vec"].tolist() == [1, 0, 0, 0, 1, 0, 0, 0]
    assert observation["img"][:16, :16].min() == 255
    assert observation["img"][16:].max() == 0
    for action in (right, right, right, right, down, down):
        observation, reward, terminated, _, _ = env.step(action)
        assert not terminated
        assert reward == -0.1
    observation, reward, terminated, _, _ = env.step(down)
    assert terminated
    assert reward == 1.0


@pytest.mark.parametrize("continuous", [True, False])
@pytest.mark.parametrize("form", [{}, {"discrete_obs_space": True}, {"image_obs_space": True}])
def test_bits_are_flipped(continuous: bool, form: dict[str, bool]) -> None:
    env = BitFlippingEnv(n_bits=4, continuous=continuous, max_steps=20, **form)
    env.reset(seed=1)
    env.state[:] = [1, 0, 1, 0]
    flip = [np.array([-1.0, 0.1, 0.0, -1.0]), np.array([-1.0, -1.0, -1.0, 1.0])] if continuous else [1, 3]
    observation, reward, terminated, truncated, info = env.step(flip[0])
    assert (reward, terminated, truncated, info["is_success"]) == (-1.0, False, False, False)
    first = observation
    observation, reward, terminated, truncated, info = env.step(flip[1])
    assert (reward, terminated, info["is_success"]) == (0.0, True, True)
    assert np.array_equal(observation["achieved_goal"], observation["desired_goal"])
    achieved = np.stack([first["achieved_goal"], observation["achieved_goal"]])
    desired = np.stack([observation["desired_goal"]] * 2)
    assert env.compute_reward(achieved, desired, [{}, {}]).tolist() == [-1.0, 0.0]


def test_bits_are_truncated() -> None:
    env = BitFlippingEnv(n_bits=3)
    env.reset(seed=0)
    env.state[:] = 0
    assert [env.step(0)[3] for _ in range(3)] == [False, False, True]
    with pytest.raises(UserError):
        BitFlippingEnv(discrete_obs_space=True, image_obs_space=True)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_comes_when_told(value: float) -> None:
    env = NanAndInfEnv(value=value, at_step=2)
    env.reset()
    assert np.isfinite(env.step(np.zeros(1))[0]).all()
    assert not np.isfinite(env.step(np.zeros(1))[0]).any()
    env = NanAndInfEnv(value=value, at_step=1, in_reward=True)
    env.reset()
    assert not np.isfinite(float(env.step(np.zeros(1))[1]))


def play_catch(env: Catch, follow: bool, n_episodes: int) -> float:
    total = 0.0
    rng = np.random.default_rng(0)
    for episode in range(n_episodes):
        env.reset(seed=episode)
        done = False
        while not done:
            action = 1 + np.sign(env.ball[1] - env.paddle) if follow else rng.integers(3)
            _, reward, done, _, _ = env.step(action)
            total += float(reward)
    return total / n_episodes


def test_catch_can_be_won_always_but_not_by_chance() -> None:
    env = Catch()
    assert play_catch(env, follow=True, n_episodes=100) == 1.0
    assert -0.8 < play_catch(env, follow=False, n_episodes=200) < -0.2


def test_catch_shows_ball_and_paddle() -> None:
    env = Catch(render_mode="rgb_array")
    observation, _ = env.reset(seed=0)
    assert (observation == 255).sum() == 49
    assert (observation == 128).sum() == 3 * 49
    assert env.render().shape == (84, 84, 3)

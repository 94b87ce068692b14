from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rlzoo.core.errors import EnvironmentFailed, UserError
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.native import NATIVE_ENVS, NativeCartPole, cartpole_step


def test_one_step_equals_gymnasiums() -> None:
    env = gym.make("CartPole-v1").unwrapped
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        state = rng.uniform([-2.4, -3, -0.2, -3], [2.4, 3, 0.2, 3])
        action = int(rng.integers(2))
        env.state = state  # type: ignore[attr-defined]
        env.steps_beyond_terminated = None  # type: ignore[attr-defined]
        env.step(action)
        mine = cartpole_step(tuple(state.tolist()), 10.0 if action else -10.0)
        np.testing.assert_allclose(mine, env.state, rtol=0, atol=1e-14)  # type: ignore[attr-defined]


@pytest.mark.parametrize("env_id", sorted(NATIVE_ENVS))
def test_whole_episodes_equal_gymnasiums_with_the_same_seeds(env_id: str) -> None:
    native = NativeCartPole(env_id, 3)
    python = DummyVecEnv([lambda: gym.make(env_id)] * 3)
    for venv in (native, python):
        venv.seed(11)
    np.testing.assert_array_equal(native.reset(), python.reset())
    rng = np.random.default_rng(0)
    n_ended = n_truncated = 0
    for _ in range(1200):
        # environment 0 acts at random; the others balance, long enough to meet the time limit
        obs = np.array(native.get_attr("state"))
        action = (obs[:, 2] + 0.5 * obs[:, 3] + 0.02 * obs[:, 1] > 0).astype(np.int64)
        action[0] = rng.integers(2)
        mine, theirs = native.step_arrays(action), python.step_arrays(action)
        np.testing.assert_allclose(mine.obs, theirs.obs, rtol=0, atol=1e-5)
        np.testing.assert_array_equal(mine.rewards, theirs.rewards)
        np.testing.assert_array_equal(mine.terminated, theirs.terminated)
        np.testing.assert_array_equal(mine.truncated, theirs.truncated)
        np.testing.assert_array_equal(mine.ended, theirs.ended)
        if len(mine.ended):
            np.testing.assert_allclose(mine.final_obs, theirs.final_obs, rtol=0, atol=1e-5)
        n_ended += len(mine.ended)
        n_truncated += int(mine.truncated.sum())
    assert n_ended > 20
    assert n_truncated >= 2
    assert mine.obs.dtype == np.float32
    assert native.observation_space == python.observation_space
    assert native.action_space == python.action_space


def test_an_episode_can_terminate_and_be_truncated_at_once() -> None:
    venv = NativeCartPole("CartPole-v0", 1)
    venv.seed(0)
    venv.reset()
    for _ in range(199):
        venv.set_attr("state", (0.0, 0.0, 0.0, 0.0))
        assert len(venv.step_arrays(np.array([1])).ended) == 0
    venv.set_attr("state", (2.4, 3.0, 0.0, 0.0))
    step = venv.step_arrays(np.array([1]))
    assert step.terminated[0]
    assert step.truncated[0]


def test_each_environment_has_its_own_random_stream() -> None:
    one, other = NativeCartPole("CartPole-v1", 3), NativeCartPole("CartPole-v1", 1)
    one.seed(5)
    other.seed(7)
    states = one.reset()
    assert len({tuple(row) for row in states.tolist()}) == 3
    np.testing.assert_array_equal(states[2:], other.reset())


@pytest.mark.parametrize("action", [2, -1])
def test_an_action_out_of_range_names_environment_and_step(action: int) -> None:
    venv = NativeCartPole("CartPole-v1", 2)
    venv.reset()
    venv.step(np.array([0, 1]))
    with pytest.raises(
        EnvironmentFailed, match=rf"environment 1 failed at step 2: {action} is not in Discrete"
    ) as error:
        venv.step(np.array([0, action]))
    assert (error.value.env_index, error.value.step) == (1, 2)


def test_wrong_calls_are_refused() -> None:
    venv = NativeCartPole("CartPole-v1", 2)
    with pytest.raises(UserError, match="reset"):
        venv.step(np.zeros(2, dtype=int))
    venv.reset()
    with pytest.raises(UserError, match="step_async"):
        venv.wait_arrays()
    for wrong in (np.zeros(3, dtype=int), np.zeros((2, 1), dtype=int), np.array(0)):
        with pytest.raises(UserError, match="shape"):
            venv.step(wrong)
    for name in ("nothing", "num_envs", "reset_infos"):
        with pytest.raises(AttributeError):
            venv.get_attr(name)
    assert venv.get_attr("spec")[0].id == "CartPole-v1"


def test_it_draws_itself() -> None:
    venv = NativeCartPole("CartPole-v1", 2)
    venv.seed(0)
    venv.reset()
    venv.set_attr("state", (1.0, 0.0, 0.1, 0.0), indices=1)
    first, second = venv.get_images()
    assert first is not None
    assert second is not None
    assert first.shape == second.shape == (400, 600, 3)
    assert (first != second).any()
    venv.close()
    venv.close()


def test_single_envs_go_on_where_the_native_ones_stand() -> None:
    for env_id in NATIVE_ENVS:
        native, turned = NativeCartPole(env_id, 2), NativeCartPole(env_id, 2)
        for venv in (native, turned):
            venv.seed(3)
            venv.reset()
        for step in range(300):
            actions = np.array([0 if step < 30 else step % 2, step % 2])
            if step == 20:  # in the middle of episodes, and of a step
                turned.step_async(actions)
                assert [type(env.unwrapped).__name__ for env in turned.envs] == ["CartPoleEnv"] * 2
                other = turned.wait_arrays()
            else:
                other = turned.step_arrays(actions)
            mine = native.step_arrays(actions)
            np.testing.assert_array_equal(mine.obs, other.obs)
            np.testing.assert_array_equal(mine.ended, other.ended)
            np.testing.assert_array_equal(mine.truncated, other.truncated)
        assert "envs" not in vars(native)


def test_turning_real_keeps_the_time_limit() -> None:
    venv = NativeCartPole("CartPole-v0", 1)
    venv.reset()
    for step in range(200):
        venv.set_attr("state", (0.0, 0.0, 0.0, 0.0))
        if step == 150:
            assert venv.env_method("render")[0].shape == (400, 600, 3)
        assert venv.step_arrays(np.array([1])).truncated[0] == (step == 199)


def test_seeds_and_options_outlive_the_turn_into_real_envs() -> None:
    native, turned = NativeCartPole("CartPole-v1", 2), NativeCartPole("CartPole-v1", 2)
    for venv in (native, turned):
        venv.seed(8)
        venv.set_options({"low": 0.01, "high": 0.02})
    turned.set_attr("gravity", 9.8)
    with pytest.raises(UserError, match="reset"):
        turned.step(np.zeros(2, dtype=int))
    np.testing.assert_array_equal(native.reset(), turned.reset())


def test_questions_about_single_envs_leave_them_native() -> None:
    native = NativeCartPole("CartPole-v1", 2)
    native.reset()
    assert native.has_attr("length")
    assert not native.has_attr("action_masks")
    assert native.env_is_wrapped(gym.wrappers.TimeLimit) == [True, True]
    assert native.get_attr("render_mode") == ["rgb_array", "rgb_array"]
    assert "envs" not in vars(native)
    native.set_attr("gravity", 1.0, indices=1)
    assert native.get_attr("gravity") == [9.8, 1.0]


def test_reset_options_are_gymnasiums() -> None:
    venv = NativeCartPole("CartPole-v1", 1)
    venv.set_options({"unknown": 1})
    assert np.abs(venv.reset()).max() <= 0.05
    venv.set_options({"low": 1.0, "high": -1.0})
    with pytest.raises(EnvironmentFailed, match=r"environment 0 failed in reset\(\) at step 0: ValueError"):
        venv.reset()

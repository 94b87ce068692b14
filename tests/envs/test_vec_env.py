from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.native import NativeCartPole
from rlzoo.envs.vec_env.subproc import SubprocVecEnv
from rlzoo.envs.vec_env.vec_env import (
    VecEnv,
    VecEnvWrapper,
    VecStep,
    env_state,
    is_vecenv_wrapped,
    load_env_state,
    unwrap_vec_wrapper,
)
from rlzoo.envs.vec_wrappers.vec_frame_stack import VecFrameStack
from rlzoo.envs.vec_wrappers.vec_monitor import VecMonitor
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize, sync_envs_normalization, unwrap_vec_normalize


class TupleFace(VecEnv):
    """A user's VecEnv that writes only `step_wait`: environment 0 is truncated, 1 terminates, 2 goes on."""

    last: Any = np.array([9.0], dtype=np.float32)

    def __init__(self) -> None:
        super().__init__(3, spaces.Box(-1, 1, (1,), np.float32), spaces.Discrete(2))

    def reset(self) -> np.ndarray:
        return np.zeros((3, 1), dtype=np.float32)

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self) -> Any:
        infos = [
            {"terminal_observation": self.last, "TimeLimit.truncated": True},
            {"terminal_observation": -self.last, "TimeLimit.truncated": False},
            {"x": 1},
        ]
        obs = np.array([[1], [2], [3]], dtype=np.float32)
        return obs, np.array([1.0, 2.0, 3.0]), np.array([True, True, False]), infos


def test_array_api_derives_from_step_wait() -> None:
    step = TupleFace().step_arrays(np.zeros(3))
    assert step.terminated.tolist() == [False, True, False]
    assert step.truncated.tolist() == [True, False, False]
    assert step.ended.tolist() == [0, 1]
    np.testing.assert_array_equal(step.final_obs, [[9.0], [-9.0]])
    assert step.rewards.dtype == np.float32
    assert step.infos[2] == {"x": 1}


def test_truncation_without_final_observation_raises() -> None:
    class Forgetful(TupleFace):
        def step_wait(self) -> Any:
            obs, rewards, dones, _ = super().step_wait()
            return obs, rewards, dones, [{"TimeLimit.truncated": True}, {}, {}]

    with pytest.raises(UserError, match="terminal_observation"):
        Forgetful().step_arrays(np.zeros(3))


def test_a_class_with_neither_face_says_so() -> None:
    class Nothing(VecEnv):
        def reset(self) -> Any: ...

        def step_async(self, actions: np.ndarray) -> None: ...

    env = Nothing(1, spaces.Discrete(2), spaces.Discrete(2))
    with pytest.raises(NotImplementedError, match="neither step_wait nor wait_arrays"):
        env.step(np.zeros(1))


class DoubleReward(VecEnvWrapper):
    def step_wait(self) -> Any:
        obs, rewards, dones, infos = self.venv.step_wait()
        return obs, 2 * rewards, dones, infos


class DoubleNormalized(VecNormalize):
    """Overrides what VecNormalize derives from `wait_arrays`."""

    def step_wait(self) -> Any:
        obs, rewards, dones, infos = super().step_wait()
        return obs, rewards + 100, dones, infos


def test_a_wrapper_that_writes_only_step_wait_has_both_faces() -> None:
    venv = DoubleReward(NativeCartPole("CartPole-v1", 2))
    venv.reset()
    assert venv.step_arrays(np.zeros(2, dtype=int)).rewards.tolist() == [2.0, 2.0]
    assert venv.step(np.zeros(2, dtype=int))[1].tolist() == [2.0, 2.0]
    outer = VecMonitor(DoubleReward(VecMonitor(venv)))
    outer.reset()
    lengths = {}
    while not lengths:
        step = outer.step_arrays(np.zeros(2, dtype=int))
        lengths = {i: step.infos[i]["episode"] for i in step.ended.tolist()}
    for episode in lengths.values():
        assert episode["r"] == 4 * episode["l"]


def test_a_subclass_of_vec_normalize_may_override_step_wait() -> None:
    class Both(DoubleNormalized):
        pass

    for cls in (DoubleNormalized, Both):
        venv = cls(NativeCartPole("CartPole-v1", 2), norm_reward=False)
        venv.reset()
        assert venv.step_arrays(np.zeros(2, dtype=int)).rewards.tolist() == [101.0, 101.0]
        assert venv.step(np.zeros(2, dtype=int))[1].tolist() == [101.0, 101.0]


def test_a_mixin_that_is_no_vec_env_counts_too() -> None:
    class Mixin:
        def step_wait(self) -> Any:
            obs, rewards, dones, infos = super().step_wait()  # type: ignore[misc]
            return obs, rewards - 1, dones, infos

    class Mixed(Mixin, VecMonitor):
        pass

    venv = Mixed(NativeCartPole("CartPole-v1", 1))
    venv.reset()
    assert venv.step_arrays(np.zeros(1, dtype=int)).rewards.tolist() == [0.0]


def test_subclass_may_override_either_step_api() -> None:
    class Arrays(TupleFace):
        def wait_arrays(self) -> VecStep:
            step = super().wait_arrays()
            step.rewards = step.rewards * 10
            return step

    assert Arrays().step(np.zeros(3))[1].tolist() == [10.0, 20.0, 30.0]


def test_the_tuple_face_gives_copies_and_fresh_infos() -> None:
    venv = NativeCartPole("CartPole-v1", 2)
    venv.seed(0)
    venv.reset()
    obs, rewards, dones, infos = venv.step(np.ones(2, dtype=int))
    kept = obs.copy()
    infos[0]["mine"] = 1
    rewards[:] = 7
    later = venv.step(np.ones(2, dtype=int))
    np.testing.assert_array_equal(obs, kept)
    assert "mine" not in later[3][0]
    assert later[1].tolist() == [1.0, 1.0]
    assert dones.dtype == bool
    assert infos[1] == {"TimeLimit.truncated": False}


@pytest.mark.parametrize(
    "make",
    [
        lambda: NativeCartPole("CartPole-v1", 2),
        lambda: DummyVecEnv([lambda: gym.make("CartPole-v1")] * 2),
        lambda: SubprocVecEnv([lambda: gym.make("CartPole-v1")] * 2, start_method="fork"),
        lambda: VecFrameStack(NativeCartPole("CartPole-v1", 2), 3),
        lambda: VecFrameStack(NativeCartPole("CartPole-v1", 2), 3, "first"),
        lambda: VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")] * 2), norm_obs=False),
    ],
)
def test_steps_leave_first_observations_alone(make: Any) -> None:
    venv = make()
    first = venv.reset()
    before = first.copy()
    obs, *_ = venv.step(np.array([0, 1]))
    assert np.array_equal(first, before) and not np.array_equal(obs, first)
    venv.close()


def test_attributes_are_found_through_wrappers() -> None:
    venv = VecFrameStack(VecNormalize(VecMonitor(NativeCartPole("CartPole-v1", 1)), gamma=0.5), 2)
    assert venv.gamma == 0.5
    assert venv.max_episode_steps == 500
    assert venv.normalize_obs is not None  # a method of a class further in
    assert venv.unwrapped.max_episode_steps == 500
    assert "save" in unwrap_vec_normalize(venv).class_attributes
    with pytest.raises(AttributeError, match="nowhere"):
        _ = venv.nowhere


def test_attribute_of_two_wrapped_envs_is_ambiguous() -> None:
    inner = VecNormalize(VecNormalize(NativeCartPole("CartPole-v1", 1), gamma=0.5), gamma=0.9)
    venv = VecFrameStack(inner, 2)
    assert inner.gamma == 0.9
    with pytest.raises(AttributeError, match=r"gamma is ambiguous.*VecNormalize"):
        _ = venv.gamma


def test_a_wrapper_survives_copy_before_it_has_an_environment() -> None:
    shell = VecMonitor.__new__(VecMonitor)
    with pytest.raises(AttributeError):
        _ = shell.anything
    assert isinstance(copy.copy(shell), VecMonitor)


def test_wrappers_are_found_by_class() -> None:
    normalize = VecNormalize(VecMonitor(NativeCartPole("CartPole-v1", 1)))
    venv = VecFrameStack(normalize, 2)
    assert unwrap_vec_normalize(venv) is normalize
    assert unwrap_vec_wrapper(venv, VecFrameStack) is venv
    assert is_vecenv_wrapped(venv, VecMonitor)
    assert not is_vecenv_wrapped(normalize, VecFrameStack)
    assert unwrap_vec_normalize(normalize.venv) is None
    assert unwrap_vec_normalize(None) is None


def test_normalisation_is_copied_to_an_evaluation_environment() -> None:
    train = VecNormalize(NativeCartPole("CartPole-v1", 2))
    held_out = VecNormalize(NativeCartPole("CartPole-v1", 1), training=False)
    train.reset()
    train.step_arrays(np.ones(2, dtype=int))
    sync_envs_normalization(train, held_out)
    np.testing.assert_array_equal(held_out.obs_rms.mean, train.obs_rms.mean)
    before = held_out.obs_rms.mean.copy()
    train.step_arrays(np.ones(2, dtype=int))
    np.testing.assert_array_equal(held_out.obs_rms.mean, before)
    with pytest.raises(UserError, match="1 VecNormalize"):
        sync_envs_normalization(train, NativeCartPole("CartPole-v1", 1))


def test_the_state_of_all_wrappers_goes_into_one_dict_and_back() -> None:
    def make() -> VecEnv:
        return VecFrameStack(VecNormalize(VecMonitor(NativeCartPole("CartPole-v1", 2))), 2)

    trained, fresh = make(), make()
    trained.reset()
    trained.step_arrays(np.ones(2, dtype=int))
    state = env_state(trained)
    assert set(state) == {
        f"0.VecNormalize.{name}.{field}"
        for name in ("obs_rms", "ret_rms")
        for field in ("mean", "var", "count")
    }
    load_env_state(fresh, state)
    assert unwrap_vec_normalize(fresh).obs_rms.count == unwrap_vec_normalize(trained).obs_rms.count
    with pytest.raises(UserError, match="VecNormalize"):
        load_env_state(fresh, {})
    assert env_state(NativeCartPole("CartPole-v1", 1)) == {}


def test_options_and_indices_are_checked() -> None:
    venv = NativeCartPole("CartPole-v1", 2)
    with pytest.raises(UserError, match="1 dicts for 2"):
        venv.set_options([{}])
    with pytest.raises(UserError, match="index 2 is out of range"):
        venv.get_attr("state", 2)
    venv.set_options({"low": 0.0, "high": 0.0})
    assert not venv.reset().any()
    assert venv.reset().any()  # options are for one reset


def test_rendering_tiles_images_and_opens_windows() -> None:
    venv = VecMonitor(DummyVecEnv([lambda: gym.make("CartPole-v1", render_mode="rgb_array")] * 3))
    venv.reset()
    image = venv.render()
    single = venv.get_images()[0]
    assert image is not None
    assert single is not None
    assert image.shape == (2 * single.shape[0], 2 * single.shape[1], 3)
    np.testing.assert_array_equal(image[: single.shape[0], : single.shape[1]], single)
    assert not image[single.shape[0] :, single.shape[1] :].any()
    assert venv.render("human") is None
    venv.close()
    plain = DummyVecEnv([lambda: gym.make("CartPole-v1")])
    with pytest.warns(UserWarning, match="render_mode"):
        assert plain.render() is None
    with pytest.warns(UserWarning, match="rgb_array"):
        plain.render("rgb_array")


def test_wrapper_that_overrides_step_is_trained_on() -> None:
    class Halving(VecEnvWrapper):
        def step(self, actions: Any) -> Any:
            obs, rewards, dones, infos = self.venv.step(actions)
            return obs, rewards / 2, dones, infos

    class Outer(Halving):
        def reset(self) -> Any:
            return super().reset()

    for wrapper in (Halving, Outer):
        venv = wrapper(NativeCartPole("CartPole-v1", 2))
        venv.reset()
        assert venv.step_arrays(np.array([0, 1])).rewards.tolist() == [0.5, 0.5]
        assert venv.step(np.array([0, 1]))[1].tolist() == [0.5, 0.5]


def test_vec_env_that_returns_no_infos_is_stepped() -> None:
    class Bare(VecEnv):
        def __init__(self) -> None:
            space = spaces.Box(-1, 1, (2,), np.float32)
            super().__init__(2, space, spaces.Discrete(2))

        def reset(self) -> Any:
            return np.zeros((2, 2), np.float32)

        def step_async(self, actions: Any) -> None:
            pass

        def step_wait(self) -> Any:
            return self.reset(), np.ones(2), np.zeros(2, bool), []

    step = VecEnvWrapper(Bare()).step(np.zeros(2, int))
    assert step[3] == [{"TimeLimit.truncated": False}] * 2

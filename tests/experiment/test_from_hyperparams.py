from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import rlzoo
from rlzoo import (
    DummyVecEnv,
    FrameSkip,
    RawStatisticsCallback,
    StopTrainingOnMaxEpisodes,
    VecFrameStack,
    VecNormalize,
    create_test_env,
    get_callback_list,
    get_class_by_name,
    get_wrapper_class,
)
from rlzoo.core.errors import UserError


@pytest.mark.parametrize(
    ("entry", "depth"),
    [
        ("rl_zoo3.wrappers.FrameSkip", 1),
        (FrameSkip, 1),
        ({"rl_zoo3.wrappers.FrameSkip": {"skip": 3}}, 1),
        ([{FrameSkip: {"skip": 3}}, "rlzoo.TimeFeatureWrapper"], 2),
    ],
)
def test_wrappers_of_an_entry_are_one_function(entry, depth):
    env = get_wrapper_class({"env_wrapper": entry, "policy": "MlpPolicy"})(gym.make("Pendulum-v1"))
    found = []
    while isinstance(env, gym.Wrapper):
        found.append(type(env).__name__)
        env = env.env
    assert found[:depth] == ["TimeFeatureWrapper", "FrameSkip"][-depth:]


def test_wrappers_of_vectors_and_none():
    entry = {"vec_env_wrapper": {VecFrameStack: {"n_stack": 3}}}
    venv = get_wrapper_class(entry, "vec_env_wrapper")(DummyVecEnv([lambda: gym.make("Pendulum-v1")]))
    assert venv.observation_space.shape == (9,)
    assert get_wrapper_class({}) is None
    assert get_wrapper_class({"env_wrapper": None}) is None


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("rlzoo.FrameSkp", "did you mean 'FrameSkip'"),
        (dict, "derived from"),
        ({FrameSkip: {"skp": 1}}, "skip"),
    ],
)
def test_wrong_wrappers_are_named(entry, message):
    with pytest.raises(UserError, match=message):
        get_wrapper_class({"env_wrapper": entry})


def test_callbacks_of_an_entry_may_be_objects():
    mine = StopTrainingOnMaxEpisodes(3)
    entry = [
        mine,
        "rl_zoo3.callbacks.RawStatisticsCallback",
        {StopTrainingOnMaxEpisodes: {"max_episodes": 2}},
    ]
    found = get_callback_list({"callback": entry})
    assert found[0] is mine
    assert [type(callback) for callback in found[1:]] == [RawStatisticsCallback, StopTrainingOnMaxEpisodes]
    assert get_callback_list({}) == get_callback_list({"callback": None}) == []


def test_classes_are_found_by_their_names():
    assert get_class_by_name("stable_baselines3.PPO") is rlzoo.PPO
    assert get_class_by_name("collections.OrderedDict").__name__ == "OrderedDict"
    for name in ("PPO", "nowhere.PPO", "os.getcwd", "rlzoo.PPOO"):
        with pytest.raises(UserError, match=name.rpartition(".")[2]):
            get_class_by_name(name)


def test_test_env_is_made_as_for_training(tmp_path):
    values = {
        "normalize": True,
        "frame_stack": 2,
        "env_wrapper": "rlzoo.TimeFeatureWrapper",
        "n_timesteps": 10,
        "policy": "MlpPolicy",
    }
    learned = create_test_env("Pendulum-v1", 2, should_render=False, hyperparams=values, seed=1)
    normalize = rlzoo.unwrap_vec_normalize(learned)
    normalize.obs_rms.mean[:] = 7
    VecNormalize.save(normalize, tmp_path / "vecnormalize.npz")
    venv = create_test_env(
        "Pendulum-v1", 2, str(tmp_path), should_render=False, hyperparams=values, env_kwargs={"g": 5.0}
    )
    assert venv.observation_space.shape == (8,)
    assert rlzoo.unwrap_vec_normalize(venv).obs_rms.mean == pytest.approx(np.full(4, 7))
    assert not rlzoo.unwrap_vec_normalize(venv).training
    with pytest.raises(UserError, match="no normalisation statistics"):
        create_test_env("Pendulum-v1", 1, str(tmp_path / "x"), should_render=False, hyperparams=values)


def test_dict_observations_are_flattened():
    env = rlzoo.flatten_dict_observations(gym.make("BitFlipping-v0"))
    assert isinstance(env.observation_space, gym.spaces.Box | gym.spaces.MultiBinary)
    with pytest.raises(UserError, match="Dict"):
        rlzoo.flatten_dict_observations(gym.make("CartPole-v1"))

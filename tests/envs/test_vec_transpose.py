from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.envs.examples.toy import FakeImageEnv, SimpleMultiObsEnv
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.native import NativeCartPole
from rlzoo.envs.vec_wrappers.vec_transpose import VecTransposeImage


def image_env() -> FakeImageEnv:
    return FakeImageEnv(screen_height=40, screen_width=50, n_channels=3)


def test_channels_come_first_without_a_copy() -> None:
    inner = DummyVecEnv([image_env] * 2)
    venv = VecTransposeImage(inner)
    assert venv.observation_space.shape == (3, 40, 50)
    assert venv.observation_space.dtype == np.uint8
    obs = venv.reset()
    assert obs.shape == (2, 3, 40, 50)
    obs = venv.step_arrays(np.zeros(2, int)).obs
    raw = inner._obs.batch
    assert np.shares_memory(obs, raw)
    assert obs[1, 2, 5, 7] == raw[1, 5, 7, 2]
    assert venv.observation_space.contains(np.ascontiguousarray(obs[0]))


def test_last_observations_are_transposed_too() -> None:
    venv = VecTransposeImage(DummyVecEnv([image_env]))
    venv.reset()
    while True:
        obs, _, dones, infos = venv.step(np.array([venv.action_space.sample()]))
        if dones[0]:
            break
    assert obs.shape == (1, 3, 40, 50)
    assert infos[0]["terminal_observation"].shape == (3, 40, 50)


def test_of_a_dict_only_the_images_turn() -> None:
    venv = VecTransposeImage(DummyVecEnv([lambda: SimpleMultiObsEnv(channel_last=True)]))
    assert isinstance(venv.observation_space, spaces.Dict)
    inner = venv.venv.observation_space["img"].shape  # type: ignore[index]
    assert venv.observation_space["img"].shape == (inner[2], inner[0], inner[1])
    assert venv.reset()["img"].shape == (1, inner[2], inner[0], inner[1])
    assert venv.observation_space["vec"] == venv.venv.observation_space["vec"]  # type: ignore[index]


def test_images_with_channels_first_are_refused() -> None:
    made = DummyVecEnv([lambda: FakeImageEnv(screen_height=40, screen_width=50, channel_first=True)])
    for error in (UserError, AssertionError):
        with pytest.raises(error, match="skip=True"):
            VecTransposeImage(made)
    assert VecTransposeImage(made, skip=True).reset().shape == (1, 1, 40, 50)


def test_skipping_changes_nothing() -> None:
    venv = VecTransposeImage(DummyVecEnv([image_env]), skip=True)
    assert venv.observation_space.shape == (40, 50, 3)
    assert venv.reset().shape == (1, 40, 50, 3)


def test_vectors_are_refused() -> None:
    with pytest.raises(UserError, match="needs images"):
        VecTransposeImage(NativeCartPole("CartPole-v1"))


def test_single_images_and_batches() -> None:
    image = np.arange(24).reshape(2, 3, 4)
    assert VecTransposeImage.transpose_image(image).shape == (4, 2, 3)
    assert VecTransposeImage.transpose_image(image[None]).shape == (1, 4, 2, 3)
    assert VecTransposeImage.transpose_image(image)[3, 1, 2] == image[1, 2, 3]

"""Which observations are images, and how policies read those that are floats or have their channels last."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import rlzoo
from rlzoo.core.errors import UnsupportedSpace, UserError
from rlzoo.core.preprocessing import preprocess_obs
from rlzoo.envs.examples.toy import FakeImageEnv
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.networks import torch_layers
from rlzoo.networks.torch_layers import CombinedExtractor, FlattenExtractor, NatureCNN, features_of
from rlzoo.policies.actor_critic_policies import ActorCriticCnnPolicy

FIRST = spaces.Box(0.0, 1.0, (3, 40, 44), np.float32)
LAST = spaces.Box(0.0, 1.0, (40, 44, 3), np.float32)
BYTES = spaces.Box(0, 255, (3, 40, 44), np.uint8)
VECTOR = spaces.Box(-1.0, 1.0, (2,), np.float32)


def test_float_images_with_both_axis_orders_read_the_same() -> None:
    torch.manual_seed(0)
    first, last = NatureCNN(FIRST, 8, normalized_image=True), NatureCNN(LAST, 8, normalized_image=True)
    last.load_state_dict(first.state_dict())
    images = torch.rand(2, *FIRST.shape)
    torch.testing.assert_close(first(images), last(images.permute(0, 2, 3, 1)))


def test_images_are_rearranged_as_bytes_with_the_same_features(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = []

    def watch(obs: torch.Tensor, *arguments: Any) -> torch.Tensor:
        prepared.append(obs)
        return preprocess_obs(obs, *arguments)

    monkeypatch.setattr(torch_layers, "preprocess_obs", watch)
    cnn = NatureCNN(BYTES, 8)
    images = torch.randint(0, 256, (4, *BYTES.shape), dtype=torch.uint8)
    features = features_of(cnn, images, BYTES)
    assert prepared[0].is_contiguous(memory_format=torch.channels_last)
    assert prepared[0].dtype is torch.uint8
    assert torch.equal(features, cnn(preprocess_obs(images, BYTES)))


def test_own_extractors_and_hooks_get_images_as_they_are_stored() -> None:
    class Own(NatureCNN):
        def forward(self, observations: torch.Tensor) -> torch.Tensor:
            return observations.view(len(observations), -1)  # refuses channels last

    images = torch.randint(0, 256, (4, *BYTES.shape), dtype=torch.uint8)
    assert features_of(Own(BYTES, 8), images, BYTES).shape == (4, 3 * 40 * 44)
    strides = []
    hooked = NatureCNN(BYTES, 8)
    hooked.register_forward_pre_hook(lambda _, inputs: strides.append(inputs[0].stride()))
    features_of(hooked, images, BYTES)
    assert strides == [images.stride()]


@pytest.mark.parametrize("space", [FIRST, LAST, spaces.Box(-10.0, 10.0, (7, 36, 36), np.float32)])
def test_float_images_need_normalize_images_false(space: spaces.Box) -> None:
    def policy(normalize_images: bool) -> ActorCriticCnnPolicy:
        return ActorCriticCnnPolicy(
            space, spaces.Discrete(2), lambda _: 1e-3, normalize_images=normalize_images
        )

    for error in (UserError, AssertionError):
        with pytest.raises(error, match="normalize_images=False"):
            policy(True)
    observation = space.sample()
    values = policy(False).predict_values(torch.as_tensor(observation)[None])
    assert values.shape == (1, 1)


def test_an_own_extractor_is_not_told_of_normalised_images() -> None:
    class Own(NatureCNN):
        def __init__(self, observation_space: gym.Space[Any], features_dim: int = 8) -> None:
            super().__init__(observation_space, features_dim, normalized_image=True)

    policy = ActorCriticCnnPolicy(
        FIRST, spaces.Discrete(2), lambda _: 1e-3, normalize_images=False, features_extractor_class=Own
    )
    assert policy.features_extractor.features_dim == 8


def test_a_dict_extracts_float_images_when_they_are_normalised() -> None:
    small = spaces.Box(0.0, 1.0, (3, 4, 5), np.float32)
    space = spaces.Dict({"bytes": BYTES, "scaled": FIRST, "small": small, "vector": VECTOR})
    kinds = {
        normalized: [
            type(part).__name__ for part in CombinedExtractor(space, 8, normalized).extractors.values()
        ]
        for normalized in (False, True)
    }
    assert kinds[False] == ["NatureCNN", "Flatten", "Flatten", "Flatten"]
    assert kinds[True] == ["NatureCNN", "NatureCNN", "Flatten", "Flatten"]


def test_a_cnn_policy_learns_behind_vec_normalize() -> None:
    venv = VecNormalize(
        DummyVecEnv([lambda: FakeImageEnv(screen_height=36, screen_width=36, channel_first=True)])
    )
    kwargs = {"normalize_images": False, "features_extractor_kwargs": {"features_dim": 8}}
    model = rlzoo.A2C("CnnPolicy", venv, policy_kwargs=kwargs).learn(10)
    assert model.predict(venv.reset())[0].shape == (1,)


def test_the_smallest_axis_of_an_image_is_its_channels() -> None:
    def first(shape: tuple[int, ...]) -> bool:
        return rlzoo.is_image_space_channels_first(spaces.Box(0, 255, shape, np.uint8))

    assert first((3, 40, 40)) and first((40, 40, 40)) and not first((40, 40, 3))
    with pytest.warns(UserWarning, match="in the middle"):
        assert not first((40, 3, 40))


def test_a_mix_of_single_and_batched_entries_is_refused() -> None:
    space = spaces.Dict({"a": VECTOR, "b": VECTOR})
    one, two = np.zeros(2), np.zeros((2, 2))
    assert not rlzoo.is_vectorized_observation({"a": one, "b": one}, space)
    assert rlzoo.is_vectorized_observation({"a": two, "b": two}, space)
    with pytest.raises(ValueError, match=r"a mix .* 'a' \(2,\), 'b' \(2, 2\)"):
        rlzoo.is_vectorized_observation({"a": one, "b": two}, space)


@pytest.mark.parametrize(
    "refused",
    [
        lambda: rlzoo.get_action_dim(spaces.Text(3)),
        lambda: rlzoo.get_obs_shape(spaces.Tuple([VECTOR])),
        lambda: rlzoo.check_for_nested_spaces(spaces.Dict({"a": spaces.Tuple([VECTOR])})),
        lambda: rlzoo.is_vectorized_observation(0, spaces.Tuple([VECTOR])),
        lambda: FlattenExtractor(spaces.Dict({"a": VECTOR})),
        lambda: rlzoo.SAC("MlpPolicy", "CartPole-v1"),
    ],
)
def test_unsupported_spaces_are_assertion_errors_too(refused: Any) -> None:
    for error in (UnsupportedSpace, AssertionError, NotImplementedError, ValueError):
        with pytest.raises(error, match=r"support|cannot read"):
            refused()

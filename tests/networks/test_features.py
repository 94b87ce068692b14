"""`features_of` against what the modules of an extractor make of preprocessed observations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rlzoo.core.preprocessing import preprocess_obs
from rlzoo.networks.torch_layers import CombinedExtractor, FlattenExtractor, features_of

VECTOR = spaces.Box(-1.0, 1.0, (3,), np.float32)
WIDE = spaces.Box(-1e9, 1e9, (2, 2), np.float64)
BITS = spaces.MultiBinary(4)
COUNTS = spaces.Box(0, 100_000, (2,), np.int64)
SMALL_FLOATS = spaces.Box(-1.0, 1.0, (2,), np.float16)
IMAGE = spaces.Box(0, 255, (3, 40, 40), np.uint8)
CHOICE = spaces.Discrete(3)

SPACES = {
    "vector": VECTOR,
    "scalar": spaces.Box(-1.0, 1.0, (), np.float32),
    "doubles": WIDE,
    "bits": BITS,
    "an image as a vector": IMAGE,
    "a choice": CHOICE,
    "a Dict of bits": spaces.Dict(a=BITS, b=BITS, c=BITS),
    "a Dict of doubles": spaces.Dict(a=WIDE, b=WIDE),
    "a Dict of several dtypes": spaces.Dict(a=COUNTS, b=SMALL_FLOATS),
    "a Dict with an image": spaces.Dict(a=VECTOR, b=IMAGE),
    "a Dict with a choice": spaces.Dict(a=VECTOR, b=CHOICE),
}


def batch_of(space: spaces.Space[Any], n: int = 5) -> Any:
    space.seed(0)
    samples = [space.sample() for _ in range(n)]
    if isinstance(space, spaces.Dict):
        return {key: torch.as_tensor(np.stack([sample[key] for sample in samples])) for key in space}
    return torch.as_tensor(np.stack(samples))


def extractor_for(space: spaces.Space[Any]) -> nn.Module:
    return CombinedExtractor(space) if isinstance(space, spaces.Dict) else FlattenExtractor(space)


@pytest.mark.parametrize("normalize_images", [True, False])
@pytest.mark.parametrize("kind", SPACES)
def test_features_are_equal_to_those_of_the_modules(kind: str, normalize_images: bool) -> None:
    space = SPACES[kind]
    extractor, obs = extractor_for(space), batch_of(space)
    features = features_of(extractor, obs, space, normalize_images)
    expected = extractor(preprocess_obs(obs, space, normalize_images))
    assert features.dtype == torch.float32
    assert torch.equal(features, expected)


def test_an_extractor_of_the_users_and_hooks_are_called() -> None:
    class Doubled(FlattenExtractor):
        def forward(self, observations: Tensor) -> Tensor:
            return 2 * super().forward(observations)

    obs = batch_of(VECTOR)
    assert torch.equal(features_of(Doubled(VECTOR), obs, VECTOR), 2 * obs)
    called = []
    for space in (VECTOR, SPACES["a Dict of bits"]):
        extractor = extractor_for(space)
        extractor.register_forward_hook(lambda *_: called.append("extractor"))
        features_of(extractor, batch_of(space), space)
    combined = CombinedExtractor(SPACES["a Dict of bits"])
    combined.extractors["b"].register_forward_hook(lambda *_: called.append("part"))
    features_of(combined, batch_of(SPACES["a Dict of bits"]), SPACES["a Dict of bits"])
    assert called == ["extractor", "extractor", "part"]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_choices_become_one_hot_vectors(dtype):
    discrete = spaces.Discrete(4, start=2)
    expected = torch.eye(4)[[3, 0]]
    assert preprocess_obs(torch.tensor([5, 2], dtype=dtype), discrete).equal(expected)
    assert preprocess_obs(torch.tensor([[5], [2]], dtype=dtype), discrete).equal(expected)
    pairs = spaces.MultiDiscrete([3, 2], start=[1, 0])
    vectors = preprocess_obs(torch.tensor([[1, 1], [3, 0]], dtype=dtype), pairs)
    assert vectors.tolist() == [[1, 0, 0, 0, 1], [0, 0, 1, 1, 0]] and vectors.dtype is torch.float32


@pytest.mark.parametrize("choice", [1, 6])
def test_choices_outside_of_their_space_are_refused(choice):
    with pytest.raises(RuntimeError, match="out of bounds"):
        preprocess_obs(torch.tensor([choice]), spaces.Discrete(4, start=2))

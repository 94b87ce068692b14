from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlzoo.networks.discriminator import Discriminator

OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "vector": spaces.Box(-np.inf, np.inf, (3,), np.float32),
    "discrete": spaces.Discrete(4),
    "image": spaces.Box(0, 255, (1, 36, 36), np.uint8),
    "dict": spaces.Dict(
        v=spaces.Box(-1, 1, (2,)), i=spaces.Box(0, 255, (1, 36, 36), np.uint8), d=spaces.Discrete(3)
    ),
    "choices": spaces.Dict(d=spaces.Discrete(3)),
}
ACTIONS: dict[str, spaces.Space[Any]] = {
    "box": spaces.Box(np.array([0, -5], np.float32), np.array([1, 5], np.float32)),
    "unbounded": spaces.Box(-np.inf, np.inf, (2, 2), np.float32),
    "discrete": spaces.Discrete(3, start=4),
}


def rows(space: spaces.Space[Any], n_rows: int = 6) -> Any:
    space.seed(0)
    samples = [space.sample() for _ in range(n_rows)]
    if isinstance(space, spaces.Dict):
        return {key: torch.from_numpy(np.stack([sample[key] for sample in samples])) for key in space}
    return torch.from_numpy(np.stack(samples))


@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize("action", ACTIONS)
def test_every_space_gets_a_logit_per_row(observation: str, action: str) -> None:
    network = Discriminator(OBSERVATIONS[observation], ACTIONS[action], 8)
    obs, actions = rows(OBSERVATIONS[observation]), rows(ACTIONS[action])
    network.update_statistics(obs)
    logits = network(obs, actions)
    assert logits.shape == (6,) and torch.isfinite(logits).all()
    logits.sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_vectors_are_scaled_by_what_was_seen() -> None:
    torch.manual_seed(0)
    network = Discriminator(OBSERVATIONS["vector"], ACTIONS["discrete"], 8)
    obs = torch.randn(50, 3)
    actions = torch.full((50,), 5)
    network.update_statistics(obs)
    expected = network(obs, actions)
    moved = Discriminator(OBSERVATIONS["vector"], ACTIONS["discrete"], 8)
    moved.net = network.net
    moved.update_statistics(1000 + 50 * obs)
    torch.testing.assert_close(moved(1000 + 50 * obs, actions), expected, rtol=1e-2, atol=1e-3)


def test_a_bounded_box_is_scaled_to_one() -> None:
    network = Discriminator(OBSERVATIONS["vector"], ACTIONS["box"], 8)
    scaled = network._inputs(torch.tensor([[0.0, -5.0], [1.0, 0.0]]))
    assert scaled.tolist() == [[-1.0, -1.0], [1.0, 0.0]]

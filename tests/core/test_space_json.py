"""Spaces survive the way through JSON unchanged, and a damaged description is one clear error."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.io.space_json import space_from_json, space_to_json

ASYMMETRIC = spaces.Box(np.array([-1.1, -np.inf, 0], np.float32), np.array([0.3, 2, np.inf], np.float32))
SPACES = [
    spaces.Box(-1, 1, (3,)),
    spaces.Box(0, 255, (84, 84, 4), np.uint8),
    spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
    spaces.Box(-(2**62), 2**62 + 1, (2,), np.int64),
    spaces.Box(-0.1, 0.1, ()),
    spaces.Box(0, 1, (0,)),
    ASYMMETRIC,
    spaces.Discrete(4),
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([2, 3, 4]),
    spaces.MultiDiscrete([[2, 3], [4, 5]], dtype=np.int32),
    spaces.MultiDiscrete([2, 3], start=[1, -2]),
    spaces.MultiBinary(5),
    spaces.MultiBinary([2, 3]),
    spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Dict({"x": ASYMMETRIC, "ü": spaces.MultiBinary(1)})}),
    spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (1,))]),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_space_survives(space: spaces.Space[Any]) -> None:
    text = json.dumps(space_to_json(space), allow_nan=False)
    again = space_from_json(json.loads(text))
    assert again == space
    assert type(again) is type(space) and again.dtype == space.dtype and again.shape == space.shape


def test_equal_bounds_take_one_number() -> None:
    assert len(json.dumps(space_to_json(SPACES[1]))) < 120


def test_the_order_of_keys_survives() -> None:
    space = spaces.Dict([("z", spaces.Discrete(2)), ("a", spaces.Discrete(3))])
    assert list(space_from_json(space_to_json(space)).spaces) == list(space.spaces)


def test_a_space_that_cannot_be_written_is_named() -> None:
    with pytest.raises(UserError, match="Text space"):
        space_to_json(spaces.Dict({"a": spaces.Text(5)}))


BOX = {"type": "Box", "dtype": "float32", "shape": [2], "low": 0, "high": 1}


@pytest.mark.parametrize(
    "tree",
    [
        None, 3, "Box", [], {}, {"type": "Box"}, {"type": "os.system"}, {"type": ["Box"]}, {"type": {}},
        {**BOX, "shape": [10**12]}, {**BOX, "shape": [2**13, 2**14]}, {**BOX, "shape": [-1]},
        {**BOX, "shape": [True]}, {**BOX, "shape": "2"}, {**BOX, "shape": [0, 10**30]},
        {**BOX, "low": [0, 0, 0]},
        {**BOX, "low": "x"}, {**BOX, "low": None}, {**BOX, "low": 2}, {**BOX, "dtype": "object"},
        {**BOX, "dtype": "U5"}, {**BOX, "dtype": "nothing"}, {**BOX, "dtype": "uint8", "low": -1},
        {**BOX, "low": 10**400}, {"type": "Discrete", "n": 0, "start": 0},
        {"type": "Discrete", "n": 2.5, "start": 0},
        {"type": "Discrete", "n": True, "start": 0}, {"type": "MultiBinary", "shape": [2**40]},
        {"type": "MultiDiscrete", "dtype": "int64", "shape": [2], "nvec": [1], "start": 0},
        {"type": "MultiDiscrete", "dtype": "int64", "shape": [1], "nvec": [-1], "start": 0},
        {"type": "Dict", "spaces": [["a"]]}, {"type": "Dict", "spaces": {"a": BOX}},
        {"type": "Dict", "spaces": 1},
        {"type": "Dict", "spaces": [[["a"], BOX]]}, {"type": "Tuple", "spaces": [None]},
        {"type": "Tuple", "spaces": [{**BOX, "shape": [2**23]}] * 3},
    ],
    ids=lambda tree: str(tree)[:60],
)  # fmt: skip
def test_a_damaged_description_is_one_clear_error(tree: Any) -> None:
    with pytest.raises(CheckpointError) as caught:
        space_from_json(tree)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def test_a_description_nested_too_deeply() -> None:
    tree: Any = {"type": "Discrete", "n": 2, "start": 0}
    for _ in range(2000):
        tree = {"type": "Tuple", "spaces": [tree]}
    with pytest.raises(CheckpointError, match="too deep"):
        space_from_json(tree)

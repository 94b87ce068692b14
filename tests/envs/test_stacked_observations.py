from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.envs.make_vec_env import make_vec_env
from rlzoo.envs.vec_wrappers.stacked_observations import StackedObservations
from rlzoo.envs.vec_wrappers.vec_frame_stack import VecFrameStack

VECTOR = spaces.Box(-9, 9, (2,), np.float32)
IMAGE = spaces.Box(0, 255, (40, 50, 3), np.uint8)


@pytest.mark.parametrize(
    ("space", "order", "expected"),
    [
        (VECTOR, None, (False, -1, (6,), -1)),
        (VECTOR, "first", (True, 1, (6,), 0)),
        (IMAGE, None, (False, -1, (40, 50, 9), -1)),
        (IMAGE, "first", (True, 1, (120, 50, 3), 0)),
        (spaces.Box(0, 255, (3, 40, 50), np.uint8), None, (True, 1, (9, 40, 50), 0)),
    ],
)
def test_axis_of_a_stack_follows_the_order(space: Any, order: str | None, expected: Any) -> None:
    assert StackedObservations.compute_stacking(3, space, order) == expected
    stacked = StackedObservations(2, 3, space, order)
    assert stacked.stacked_obs.shape == (2, *expected[2])
    assert stacked.stacked_observation_space.shape == stacked.stacked_shape == expected[2]
    with pytest.raises(UserError, match="'middle'"):
        StackedObservations.compute_stacking(3, space, "middle")


def test_stacks_begin_anew_where_an_episode_ended() -> None:
    stacked = StackedObservations(2, 2, spaces.Dict({"v": VECTOR}), {"v": "last"})
    ones = np.ones((2, 2), np.float32)
    assert stacked.reset({"v": ones})["v"].tolist() == [[0, 0, 1, 1]] * 2
    infos: list[dict[str, Any]] = [{}, {"terminal_observation": {"v": 5 * ones[0]}}]
    obs, same = stacked.update({"v": 2 * ones}, np.array([False, True]), infos)
    assert obs["v"].tolist() == [[1, 1, 2, 2], [0, 0, 2, 2]]
    assert same[1]["terminal_observation"]["v"].tolist() == [1, 1, 5, 5]
    assert stacked.stacked_obs["v"].tolist() == obs["v"].tolist()
    with pytest.warns(UserWarning, match="terminal_observation"):
        obs, _ = stacked.update({"v": 3 * ones}, np.array([True, False]), [{}, {}])
    assert obs["v"].tolist() == [[0, 0, 3, 3], [2, 2, 3, 3]]


def test_vec_frame_stack_shows_its_stacks() -> None:
    venv = VecFrameStack(make_vec_env("Pendulum-v1", 2, seed=0), 3)
    obs = venv.reset()
    np.testing.assert_array_equal(venv.stacked_obs.stacked_obs, obs)
    np.testing.assert_array_equal(venv.stackedobs, obs)
    shown = venv.stacked_obs
    obs = venv.step(np.zeros((2, 1)))[0]
    np.testing.assert_array_equal(shown.stacked_obs, obs)
    assert shown.stacked_observation_space == venv.observation_space

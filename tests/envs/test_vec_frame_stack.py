from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.vec_frame_stack import VecFrameStack


class Film(gym.Env[Any, Any]):
    """Every pixel of frame t (from 1) is t; a film has `length` frames."""

    def __init__(self, shape: tuple[int, ...], length: int, with_vector: bool = False) -> None:
        image = spaces.Box(0, 255, shape, np.uint8)
        vector = spaces.Box(-1, 50, (2,), np.float32)
        self.observation_space = spaces.Dict({"image": image, "vector": vector}) if with_vector else image
        self.action_space = spaces.Discrete(2)
        self.shape, self.length = shape, length

    def observe(self) -> Any:
        frame = np.full(self.shape, self.t, dtype=np.uint8)
        if isinstance(self.observation_space, spaces.Dict):
            return {"image": frame, "vector": np.array([self.t, -1], dtype=np.float32)}
        return frame

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 1
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return self.observe(), 0.0, self.t == self.length, False, {}


def films(shape: tuple[int, ...], *lengths: int, **kwargs: Any) -> VecEnv:
    return DummyVecEnv([lambda n=n: Film(shape, n, **kwargs) for n in lengths])


def times(stack: np.ndarray, axis: int) -> list[int]:
    """Which frames lie in a stack, oldest first."""
    other = tuple(i for i in range(stack.ndim) if i != axis)
    assert (stack.min(axis=other) == stack.max(axis=other)).all()
    return stack.max(axis=other).tolist()


@pytest.mark.parametrize(
    ("shape", "order", "axis", "stacked"),
    [
        ((8, 8, 1), None, 2, (8, 8, 3)),
        ((8, 8, 1), "last", 2, (8, 8, 3)),
        ((1, 8, 8), None, 0, (3, 8, 8)),
        ((8, 8, 1), "first", 0, (24, 8, 1)),
    ],
)
def test_stacks_hold_the_last_frames(shape: Any, order: Any, axis: int, stacked: Any) -> None:
    venv = VecFrameStack(films(shape, 5, 9), 3, channels_order=order)
    assert venv.observation_space.shape == stacked
    assert venv.observation_space.dtype == np.uint8
    repeat = shape[axis]

    def seen(stack: np.ndarray) -> list[int]:
        return times(stack, axis)[::repeat]

    assert seen(venv.reset()[0]) == [0, 0, 1]
    actions = np.zeros(2, dtype=int)
    assert seen(venv.step_arrays(actions).obs[0]) == [0, 1, 2]
    assert seen(venv.step_arrays(actions).obs[0]) == [1, 2, 3]
    assert seen(venv.step_arrays(actions).obs[0]) == [2, 3, 4]
    end = venv.step_arrays(actions)
    assert end.ended.tolist() == [0]
    assert seen(end.final_obs[0]) == [3, 4, 5]
    assert seen(end.obs[0]) == [0, 0, 1]
    assert seen(end.obs[1]) == [3, 4, 5]
    infos = venv.step(actions)[3]
    assert "terminal_observation" not in infos[0]
    assert seen(venv.reset()[1]) == [0, 0, 1]


def test_colour_channels_stay_together() -> None:
    venv = VecFrameStack(films((8, 8, 3), 9), 2)
    venv.reset()
    obs = venv.step_arrays(np.zeros(1, dtype=int)).obs
    assert times(obs[0], 2) == [1, 1, 1, 2, 2, 2]


def test_dicts_are_stacked_by_key() -> None:
    venv = VecFrameStack(films((8, 8, 1), 3, with_vector=True), 2, {"image": "first"})
    assert isinstance(venv.observation_space, spaces.Dict)
    assert venv.observation_space["image"].shape == (16, 8, 1)
    assert venv.observation_space["vector"].shape == (4,)
    assert venv.reset()["vector"].tolist() == [[0, 0, 1, -1]]
    actions = np.zeros(1, dtype=int)
    assert venv.step_arrays(actions).obs["vector"].tolist() == [[1, -1, 2, -1]]
    end = venv.step_arrays(actions)
    assert end.final_obs["vector"].tolist() == [[2, -1, 3, -1]]
    assert end.obs["vector"].tolist() == [[0, 0, 1, -1]]
    assert times(end.final_obs["image"][0], 0) == [2] * 8 + [3] * 8


def test_stacked_bounds_are_those_of_the_frames() -> None:
    venv = VecFrameStack(DummyVecEnv([lambda: gym.make("Pendulum-v1")]), 3)
    assert venv.observation_space.high.tolist() == [1, 1, 8] * 3  # type: ignore[attr-defined]
    assert venv.observation_space.contains(venv.reset()[0])


def test_what_cannot_be_stacked_is_refused() -> None:
    with pytest.raises(UserError, match="Box"):
        VecFrameStack(DummyVecEnv([lambda: gym.make("FrozenLake-v1")]), 2)
    with pytest.raises(UserError, match="'middle'"):
        VecFrameStack(films((8, 8, 1), 3), 2, "middle")
    with pytest.raises(UserError, match="Dict"):
        VecFrameStack(films((8, 8, 1), 3), 2, {"image": "first"})
    with pytest.raises(UserError, match="at least 1"):
        VecFrameStack(films((8, 8, 1), 3), 0)

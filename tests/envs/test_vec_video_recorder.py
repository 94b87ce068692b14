from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import imageio_ffmpeg
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.tile_images import tile_images
from rlzoo.envs.vec_wrappers.vec_video_recorder import VecVideoRecorder


class Lamp(gym.Env[Any, Any]):
    """Draws one colour; brighter from step to step."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    render_mode = "rgb_array"

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def render(self) -> Any:
        return np.full((33, 47, 3), 20 * self.t, dtype=np.uint8)


def frames(path: Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    reader = imageio_ffmpeg.read_frames(str(path))
    meta = next(reader)
    return meta, [np.frombuffer(frame, dtype=np.uint8) for frame in reader]


def test_videos_begin_at_the_trigger_and_have_their_length(tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    venv = VecVideoRecorder(
        DummyVecEnv([Lamp] * 2), folder, lambda step: step in (0, 6), video_length=4, name_prefix="lamp"
    )
    venv.reset()
    for _ in range(12):
        venv.step_arrays(np.zeros(2, dtype=int))
    venv.close()
    venv.close()
    assert sorted(path.name for path in folder.iterdir()) == [
        "lamp-step-0-to-step-4.mp4",
        "lamp-step-6-to-step-10.mp4",
    ]
    for path, first in zip(sorted(folder.iterdir()), (0, 6), strict=True):
        meta, pictures = frames(path)
        assert meta["fps"] == 10
        assert meta["size"] == (48, 66)  # two lamps, one above the other, padded to even sizes
        assert len(pictures) == 5
        brightness = [float(np.median(picture)) for picture in pictures]
        np.testing.assert_allclose(brightness, [20 * (first + t) for t in range(5)], atol=8)


def test_a_video_that_is_not_full_is_kept(tmp_path: Path) -> None:
    venv = VecVideoRecorder(DummyVecEnv([Lamp]), tmp_path, lambda step: step == 0, video_length=100)
    venv.reset()
    venv.step(np.zeros(1, dtype=int))
    venv.close()
    assert len(frames(tmp_path / "rl-video-step-0-to-step-100.mp4")[1]) == 2


def test_environments_that_do_not_draw_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="rgb_array"):
        VecVideoRecorder(DummyVecEnv([lambda: gym.make("CartPole-v1")]), tmp_path, lambda step: True)


def test_tiles_lie_row_by_row() -> None:
    images = [np.full((2, 3, 3), value, dtype=np.uint8) for value in range(1, 6)]
    tiled = tile_images(images)
    assert tiled.shape == (6, 6, 3)
    assert tiled[::2, ::3, 0].tolist() == [[1, 2], [3, 4], [5, 0]]

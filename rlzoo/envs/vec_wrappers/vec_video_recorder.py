"""Record videos of a vectorised environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from pathlib import Path

import imageio_ffmpeg
import numpy as np

from rlzoo.core.errors import UserError
from rlzoo.core.observations import Obs
from rlzoo.envs.vec_env.tile_images import tile_images
from rlzoo.envs.vec_env.vec_env import VecEnv, VecEnvWrapper, VecStep


class VecVideoRecorder(VecEnvWrapper):
    """Record all environments, tiled, to `<name_prefix>-step-<first>-to-step-<last>.mp4`.

    >>> venv = VecVideoRecorder(make_vec_env("Pendulum-v1"), "videos", lambda step: step == 0)

    The ffmpeg binary comes with imageio-ffmpeg.

    :param venv: a vectorised environment made with render_mode="rgb_array"
    :param video_folder: folder of the videos; created if missing
    :param record_video_trigger: called with the number of steps so far; True starts a video
    :param video_length: steps in a video; `close` ends a video early
    :param name_prefix: start of the file names
    :raises UserError: the environments have another render mode
    """

    def __init__(
        self,
        venv: VecEnv,
        video_folder: str | os.PathLike[str],
        record_video_trigger: Callable[[int], bool],
        video_length: int = 200,
        name_prefix: str = "rl-video",
    ) -> None:
        super().__init__(venv)
        if venv.render_mode != "rgb_array":
            raise UserError(f"videos need environments of render_mode='rgb_array', not {venv.render_mode!r}")
        venv.unwrapped.prepare_rendering()
        self.video_folder = Path(video_folder)
        self.video_folder.mkdir(parents=True, exist_ok=True)
        self.record_video_trigger = record_video_trigger
        self.video_length = video_length
        self.name_prefix = name_prefix
        self.frames_per_sec = int(venv.metadata.get("render_fps") or 30)
        self.step_id = 0
        self.recording = False
        self.recorded_frames = 0
        self.video_path: Path | None = None
        self._file: Generator[None, np.ndarray | None, None] | None = None

    @property
    def video_name(self) -> str:
        """File name of the last video."""
        return "" if self.video_path is None else self.video_path.name

    def reset(self) -> Obs:
        obs = self.venv.reset()
        if self.record_video_trigger(self.step_id):
            self.start_video_recorder()
        return obs

    def wait_arrays(self) -> VecStep:
        step = self.venv.wait_arrays()
        self.step_id += 1
        if self.recording:
            self._capture()
            if self.recorded_frames > self.video_length:
                self.close_video_recorder()
        elif self.record_video_trigger(self.step_id):
            self.start_video_recorder()
        return step

    def start_video_recorder(self) -> None:
        """Start a video with the current frame; end the one being recorded."""
        self.close_video_recorder()
        first, last = self.step_id, self.step_id + self.video_length
        self.video_path = self.video_folder / f"{self.name_prefix}-step-{first}-to-step-{last}.mp4"
        self.recording = True
        self._capture()

    def _capture(self) -> None:
        images = [image for image in self.venv.get_images() if image is not None]
        if not images:
            raise UserError("the environments render no images: no video can be recorded")
        frame = _even(tile_images(images))
        if self._file is None:
            height, width = frame.shape[:2]
            self._file = imageio_ffmpeg.write_frames(
                str(self.video_path), (width, height), fps=self.frames_per_sec, macro_block_size=1
            )
            self._file.send(None)
        self._file.send(np.ascontiguousarray(frame))
        self.recorded_frames += 1

    def close_video_recorder(self) -> None:
        """End the video being recorded, if any."""
        if self._file is not None:
            self._file.close()
        self._file = None
        self.recording = False
        self.recorded_frames = 0

    def close(self) -> None:
        self.close_video_recorder()
        self.venv.close()


def _even(frame: np.ndarray) -> np.ndarray:
    """Pad the frame to an even number of rows and columns, which the video format needs."""
    height, width = frame.shape[:2]
    return np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)))

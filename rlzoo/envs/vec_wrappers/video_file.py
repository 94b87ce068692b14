"""Frames as a video file: H.264 in mp4, which every browser plays, or an animated GIF.

Frames are piped into ffmpeg one by one, so a video of any length takes no memory here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import ffmpeg
import imageio_ffmpeg
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from rlzoo.core.errors import RunFailed, UserError, one_line
from rlzoo.io.atomic import check_writable

SUFFIXES = (".mp4", ".gif")
QUALITY = 20  # of H.264, the constant rate factor: 0 is without loss, 51 the worst
GIF_FPS = 50  # browsers show frames of less than two hundredths of a second at a tenth of their speed
MIN_HEIGHT = 320  # smaller frames are enlarged by a whole factor


def ffmpeg_binary() -> str:
    """Return the path of ffmpeg: the one of the system, else that of the package imageio-ffmpeg.

    :raises UserError: there is none
    """
    if (found := shutil.which("ffmpeg")) is not None:
        return found
    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError:
        raise UserError("videos need ffmpeg: install it, or `pip install imageio-ffmpeg`") from None


class VideoWriter:
    """Writes frames to a video file, which appears under its name when it is complete.

    The folder is made with the first frame.

    >>> with VideoWriter("ten.mp4", fps=30) as video:  # doctest: +SKIP
    ...     for _ in range(10):
    ...         video.write(np.zeros((64, 64, 3), np.uint8))

    :param path: ends in .mp4 or .gif
    :param fps: frames per second; a GIF shows at most 50
    :raises UserError: another suffix, no ffmpeg, or a folder that cannot be written to
    """

    def __init__(self, path: str | os.PathLike[str], fps: float) -> None:
        self.path = Path(path)
        if self.path.suffix not in SUFFIXES:
            raise UserError(f"a video is an .mp4 or a .gif file, not {self.path.name!r}")
        self.fps = fps
        self.n_frames = 0
        self._binary = ffmpeg_binary()
        self._partial = self.path.with_name(f".rlzoo-{os.getpid()}-{self.path.name}")
        self._shape: tuple[int, ...] = ()
        self._process: subprocess.Popen[bytes] | None = None
        check_writable(self.path)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process is

    def write(self, frame: np.ndarray) -> None:
        """Add a frame.

        :param frame: uint8 [height, width, 3], each of the size of the first
        :raises UserError: it has another shape or type
        :raises RunFailed: ffmpeg has ended, such as on a full disk
        """
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
            raise UserError(f"a frame is uint8 [height, width, 3], not {frame.dtype} {list(frame.shape)}")
        if self._process is None:
            self._shape = frame.shape
            self._process = self._start(*frame.shape[:2])
        elif frame.shape != self._shape:
            raise UserError(f"a frame of {list(frame.shape)} in a video of {list(self._shape)}")
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(np.ascontiguousarray(frame).tobytes())
        except BrokenPipeError:
            raise self._failure() from None
        self.n_frames += 1

    def close(self) -> None:
        """Complete the file; without a frame there is none.

        :raises RunFailed: ffmpeg failed
        """
        process, self._process = self._process, None
        if process is None:
            self._errors.close()
            return
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # the exit code says so, too
            process.stdin.close()
        if process.wait() != 0:
            raise self._failure()
        self._errors.close()
        os.replace(self._partial, self.path)

    def abandon(self) -> None:
        """End without a file."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
        self._errors.close()
        self._partial.unlink(missing_ok=True)

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, KeyboardInterrupt):
            self.close()
        else:
            self.abandon()

    def _start(self, height: int, width: int) -> subprocess.Popen[bytes]:
        size = f"{width}x{height}"
        frames: Any = ffmpeg.input("pipe:", format="rawvideo", pix_fmt="rgb24", s=size, r=self.fps)
        if self.path.suffix == ".gif":  # a palette for each frame, so that ffmpeg keeps no other
            split = frames.filter("fps", fps=min(self.fps, GIF_FPS)).filter_multi_output("split")
            palette = split[0].filter("palettegen", stats_mode="single")
            file = ffmpeg.filter([split[1], palette], "paletteuse", new=1).output(
                str(self._partial), format="gif"
            )
        else:
            even = frames.filter("pad", "ceil(iw/2)*2", "ceil(ih/2)*2")  # as the pixel format needs
            file = even.output(
                str(self._partial),
                format="mp4",
                vcodec="libx264",
                pix_fmt="yuv420p",
                crf=QUALITY,
                movflags="+faststart",
            )
        command = file.global_args("-loglevel", "error", "-nostdin").overwrite_output().compile(self._binary)
        # A Ctrl-C in the terminal is for the one who writes: a video that was begun is completed.
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=self._errors,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(f"cannot run ffmpeg, {self._binary}: {error.strerror}") from None

    def _failure(self) -> RunFailed:
        """What ffmpeg said before it ended; the file is given up."""
        if self._process is not None:
            self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        self.abandon()
        return RunFailed(f"ffmpeg could not write {self.path}: {one_line(said[-1] if said else 'no reason')}")


def enlarged(frame: np.ndarray) -> np.ndarray:
    """The frame, a small one enlarged by a whole factor so that it can be watched and labelled.

    >>> enlarged(np.zeros((210, 160, 3), np.uint8)).shape
    (420, 320, 3)
    """
    factor = -(-MIN_HEIGHT // len(frame))
    return frame.repeat(factor, axis=0).repeat(factor, axis=1) if factor > 1 else frame


def draw_label(frame: np.ndarray, lines: Sequence[str]) -> np.ndarray:
    """Return the frame with lines of text in its lower left corner, white on a dark shade.

    :param frame: uint8 [height, width, 3]
    :param lines: as many as fit; a line that is too wide is set smaller
    """
    image = Image.fromarray(frame)
    draw = ImageDraw.Draw(image, "RGBA")
    size = max(11, len(frame) // 26)
    while True:
        font: Any = ImageFont.load_default(size)
        left, top, right, bottom = draw.multiline_textbbox((0, 0), "\n".join(lines), font=font, spacing=2)
        if right - left <= 0.9 * frame.shape[1] or size <= 8:
            break
        size -= 1
    margin = size // 2
    corner = len(frame) - (bottom - top) - 2 * margin
    draw.rectangle((0, corner, right - left + 2 * margin, len(frame)), fill=(0, 0, 0, 150))
    draw.multiline_text(
        (margin - left, corner + margin - top), "\n".join(lines), font=font, spacing=2, fill="white"
    )
    return np.asarray(image)

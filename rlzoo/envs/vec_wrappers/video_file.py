"""Write video files: H.264 in mp4, which every browser plays, or an animated GIF.

Frames are piped to ffmpeg one by one, so memory does not grow with the length of a video.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
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
QUALITY = 20  # constant rate factor of H.264: 0 is lossless, 51 the worst
GIF_FPS = 50  # browsers show frames shorter than 0.02 s ten times slower
RECENT = 600  # seconds; an unfinished file of another process may be in use for so long
MIN_HEIGHT = 320  # smaller frames are enlarged by an integer factor


def ffmpeg_binary() -> str:
    """Return the path of ffmpeg: that of the system, else that of imageio-ffmpeg.

    :raises UserError: there is no ffmpeg
    """
    if (found := shutil.which("ffmpeg")) is not None:
        return found
    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError:
        raise UserError("videos need ffmpeg: install it, or `pip install imageio-ffmpeg`") from None


class VideoWriter:
    """Write frames to a video file, which gets its name when it is complete.

    The folder is created with the first frame.

    >>> with VideoWriter("ten.mp4", fps=30) as video:  # doctest: +SKIP
    ...     for _ in range(10):
    ...         video.write(np.zeros((64, 64, 3), np.uint8))

    :param path: a name that ends in .mp4 or .gif
    :param fps: frames per second; a GIF shows at most 50
    :raises UserError: another suffix, no ffmpeg, or a folder that cannot be written to
    """

    def __init__(self, path: str | os.PathLike[str], fps: float) -> None:
        self.path = Path(path)
        if self.path.suffix not in SUFFIXES:
            raise UserError(f"a video must be an .mp4 or .gif file, not {self.path.name!r}")
        self.fps = fps
        self.n_frames = 0
        self._binary = ffmpeg_binary()
        self._partial = self.path.with_name(f".rlzoo-{os.getpid()}-{self.path.name}")
        self._shape: tuple[int, ...] = ()
        self._process: subprocess.Popen[bytes] | None = None
        check_writable(self.path)
        _remove_leftovers(self.path)
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
        """Finish the file; without any frame, no file is written.

        :raises RunFailed: ffmpeg failed
        """
        process, self._process = self._process, None
        if process is None:
            self._errors.close()
            return
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # the exit code tells
            process.stdin.close()
        if process.wait() != 0:
            raise self._failure()
        self._errors.close()
        os.replace(self._partial, self.path)

    def abandon(self) -> None:
        """Stop and remove the unfinished file."""
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
        # In a separate session, so that Ctrl-C does not reach ffmpeg and the video can be finished.
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
        """Return the error with the last message of ffmpeg; remove the file."""
        if self._process is not None:
            self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()
        self.abandon()
        return RunFailed(f"ffmpeg could not write {self.path}: {one_line(said[-1] if said else 'no reason')}")


def _remove_leftovers(path: Path) -> None:
    """Remove unfinished files of a video whose processes were killed.

    Files of the last ten minutes stay: a process on another machine may be writing them.
    """
    for file in path.parent.glob(".rlzoo-*"):
        found = re.fullmatch(rf"\.rlzoo-(\d{{1,10}})-{re.escape(path.name)}", file.name)
        if found and not _is_running(int(found[1])):
            with suppress(OSError):
                if time.time() - file.stat().st_mtime > RECENT:
                    file.unlink()


def _is_running(process: int) -> bool:
    """Return whether there is a process of this number; True where that is not known."""
    if os.name != "posix":
        return True  # on Windows, os.kill() ends processes
    try:
        os.kill(process, 0)
    except (OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        return True  # of another user
    return True


def enlarged(frame: np.ndarray) -> np.ndarray:
    """Enlarge a small frame by an integer factor, so that it can be watched and labelled.

    >>> enlarged(np.zeros((210, 160, 3), np.uint8)).shape
    (420, 320, 3)
    """
    factor = -(-MIN_HEIGHT // len(frame))
    return frame.repeat(factor, axis=0).repeat(factor, axis=1) if factor > 1 else frame


def draw_label(frame: np.ndarray, lines: Sequence[str]) -> np.ndarray:
    """Return the frame with white lines of text on a dark box in its lower left corner.

    :param frame: uint8 [height, width, 3]
    :param lines: the font shrinks until the widest line fits
    """
    image = Image.fromarray(frame)
    draw = ImageDraw.Draw(image, "RGBA")
    size = max(11, len(frame) // 26)
    while True:
        font = ImageFont.load_default(size)
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

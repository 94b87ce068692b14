"""Video files: what ffmpeg made is what was written, and nothing half-made is left."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from rlzoo.core.errors import RunFailed, UserError
from rlzoo.envs.vec_wrappers import video_file
from rlzoo.envs.vec_wrappers.video_file import VideoWriter, draw_label, enlarged, ffmpeg_binary


def frames(n: int, height: int = 64, width: int = 96) -> list[np.ndarray]:
    """Plain frames, each of another grey."""
    return [np.full((height, width, 3), 10 * index % 250, np.uint8) for index in range(n)]


def write(path: Path, n: int = 12, fps: float = 30, height: int = 64) -> Path:
    with VideoWriter(path, fps) as video:
        for frame in frames(n, height):
            video.write(frame)
    assert video.n_frames == n
    return path


def described(path: Path) -> str:
    return subprocess.run([ffmpeg_binary(), "-i", path], capture_output=True, text=True, check=False).stderr


def test_an_mp4_is_h264_that_browsers_play(tmp_path):
    path = write(tmp_path / "new" / "video.mp4", height=63)
    assert "h264" in described(path) and "yuv420p" in described(path) and "96x64" in described(path)
    assert path.read_bytes().index(b"moov") < path.read_bytes().index(b"mdat")  # plays before it is whole
    count, seconds = imageio_ffmpeg.count_frames_and_secs(str(path))
    assert (count, seconds) == (12, pytest.approx(0.4, abs=0.02))


def test_an_mp4_keeps_every_frame_at_any_rate(tmp_path):
    path = write(
        tmp_path / "video.mp4", n=60, fps=125, height=2400
    )  # of small frames ffmpeg guesses it right
    count, seconds = imageio_ffmpeg.count_frames_and_secs(str(path))
    assert (count, seconds) == (60, pytest.approx(0.48, abs=0.001))


def test_frames_come_in_their_order(tmp_path):
    reader = imageio_ffmpeg.read_frames(str(write(tmp_path / "video.mp4")))
    next(reader)
    means = [np.frombuffer(frame, np.uint8).mean() for frame in reader]
    np.testing.assert_allclose(means, [10 * index for index in range(12)], atol=3)


def test_a_gif_repeats_its_frames_at_their_speed(tmp_path):
    image = Image.open(write(tmp_path / "video.gif", fps=20))
    assert (image.n_frames, image.size, image.info["duration"]) == (12, (96, 64), 50)
    assert Image.open(write(tmp_path / "fast.gif", n=24, fps=100)).n_frames == 12  # browsers show 50 at most


def test_what_is_no_frame_of_the_video_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"an \.mp4 or \.gif file, not 'video\.avi'"):
        VideoWriter(tmp_path / "video.avi", 30)
    for frame in (np.zeros((8, 8, 3)), np.zeros((8, 8), np.uint8), np.zeros((8, 8, 4), np.uint8)):
        with pytest.raises(UserError, match="a frame is uint8"), VideoWriter(tmp_path / "a.mp4", 30) as video:
            video.write(frame)
    with pytest.raises(UserError, match="in a video of"), VideoWriter(tmp_path / "a.mp4", 30) as video:
        video.write(frames(1)[0])
        video.write(frames(1, height=32)[0])
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_no_file_and_ctrl_c_what_was_recorded(tmp_path):
    for error, left in ((ValueError, False), (KeyboardInterrupt, True)):
        path = tmp_path / f"{error.__name__}.mp4"
        with pytest.raises(error), VideoWriter(path, 30) as video:
            video.write(frames(1)[0])
            raise error
        assert path.exists() == left
    assert len(list(tmp_path.iterdir())) == 1


def test_no_frames_make_no_file(tmp_path):
    with VideoWriter(tmp_path / "video.mp4", 30):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_ffmpeg_says_is_the_error(tmp_path, monkeypatch):
    failing = tmp_path / "ffmpeg"
    failing.write_text("#!/bin/sh\necho 'No space left on device' >&2\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setattr(video_file, "ffmpeg_binary", lambda: str(failing))
    with pytest.raises(RunFailed, match=r"ffmpeg could not write .*: No space left on device"):
        write(tmp_path / "video.mp4", n=2000)
    assert list(tmp_path.iterdir()) == [failing]


def test_without_ffmpeg_the_packages_are_named(monkeypatch):
    def missing() -> str:
        raise RuntimeError("no ffmpeg")

    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("imageio_ffmpeg.get_ffmpeg_exe", missing)
    with pytest.raises(UserError, match="videos need ffmpeg: install it, or `pip install imageio-ffmpeg`"):
        ffmpeg_binary()


def test_a_place_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot write in .*file: "):
        VideoWriter(tmp_path / "file" / "video.mp4", 30)


def test_small_frames_are_enlarged_and_large_ones_stay():
    game = np.arange(210 * 160 * 3, dtype=np.uint8).reshape(210, 160, 3)
    np.testing.assert_array_equal(enlarged(game)[::2, 1::2], game)
    large = np.zeros((400, 600, 3), np.uint8)
    assert enlarged(large) is large


def test_label_is_lower_left_and_inside_the_frame():
    frame = np.full((320, 320, 3), 200, np.uint8)
    lines = ["recurrent ppo LunarLanderContinuous-v3 with a long name", "return 123.4"]
    labelled = draw_label(frame, lines)
    assert (frame == 200).all()  # the caller's own stays
    changed = (labelled != frame).any(axis=2)
    assert changed[-1, 0] and not changed[:240].any() and not changed[:, -8:].any()
    assert (labelled[changed] > 200).all(axis=-1).any() and (labelled[changed] < 100).all(axis=-1).any()


def test_an_ffmpeg_that_does_not_run_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(video_file, "ffmpeg_binary", lambda: str(tmp_path / "ffmpeg"))
    with pytest.raises(UserError, match=r"cannot run ffmpeg, .*ffmpeg: No such file"):
        write(tmp_path / "video.mp4")
    assert list(tmp_path.iterdir()) == []


def test_file_of_a_killed_process_is_removed(tmp_path):
    process = subprocess.Popen(["true"])
    process.wait()
    left = tmp_path / f".rlzoo-{process.pid}-video.mp4"
    running = tmp_path / f".rlzoo-{os.getppid()}-video.mp4"
    other = tmp_path / f".rlzoo-{process.pid}-my-video.mp4"
    recent = tmp_path / f".rlzoo-0{process.pid}-video.mp4"
    for file in (left, running, other, recent):
        file.touch()
        if file != recent:
            os.utime(file, (0, 0))
    write(tmp_path / "video.mp4")
    assert not left.exists() and running.exists() and other.exists() and recent.exists()

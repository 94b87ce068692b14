"""`rlzoo record-video` and `rlzoo record-training`."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import imageio_ffmpeg
import numpy as np
import pytest

import rlzoo
from rlzoo.cli.main import main
from rlzoo.cli.record import record_video as cli
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import UserError
from rlzoo.envs.vec_wrappers.video_file import VideoWriter
from rlzoo.experiment.training_run import train
from rlzoo.playback import video_recording as module
from rlzoo.playback.video_recording import FrameRecorder, choose_renderer

SMALL = {"policy": "MlpPolicy", "n_timesteps": 64, "n_envs": 1, "n_steps": 32, "batch_size": 32}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of a run with two checkpoints and a final agent."""
    logs = tmp_path_factory.mktemp("logs")
    run = RunConfig(
        algo="ppo",
        env_id="CartPole-v1",
        hyperparams=SMALL,
        log_folder=str(logs),
        save_freq=32,
        eval_freq=-1,
        verbose=0,
        seed=1,
    )
    train(run)
    return logs


def n_frames(path: Path) -> int:
    return int(imageio_ffmpeg.count_frames_and_secs(str(path))[0])


def record(logs: Path, *flags: str, command: str = "record-video") -> int:
    return main([command, "--algo", "ppo", "--env", "CartPole-v1", "-f", str(logs), *flags])


def test_the_video_is_in_the_folder_of_the_run(logs):
    assert record(logs, "-n", "20") == 0
    path = logs / "ppo" / "CartPole-v1_1" / "videos" / "final-model-ppo-CartPole-v1-step-0-to-step-20.mp4"
    assert n_frames(path) == 21  # the reset is seen, too


@pytest.mark.parametrize(
    ("flags", "in_terminal", "shown"),
    [([], True, False), (["-n", "5000"], True, True), (["-n", "5000"], False, False), (["-P"], False, True)],
)
def test_long_recordings_show_progress_in_a_terminal(flags, in_terminal, shown, monkeypatch):
    parser = argparse.ArgumentParser()
    cli.build_parser(parser)
    monkeypatch.setattr("sys.stderr.isatty", lambda: in_terminal, raising=False)
    assert cli.video_config(parser.parse_args(flags)).play.progress is shown


def test_a_checkpoint_and_whole_episodes_as_a_gif(logs, tmp_path):
    assert record(logs, "--load-checkpoint", "32", "--episodes", "1", "--gif", "-o", str(tmp_path)) == 0
    (path,) = tmp_path.iterdir()
    assert path.name == "checkpoint-32-ppo-CartPole-v1-1-episodes.gif"


def test_agents_of_environments_without_pictures_are_recorded(logs, tmp_path):
    assert record(logs, "-n", "5", "--env-kwargs", "render_mode:None", "-o", str(tmp_path / "video.mp4")) == 0
    assert n_frames(tmp_path / "video.mp4") == 6


def test_a_training_is_recorded_agent_by_agent(logs, tmp_path, capsys):
    path = tmp_path / "training.mp4"
    assert record(logs, "-n", "10", "-o", str(path), command="record-training") == 0
    shown = [line.rsplit("/", 1)[1] for line in capsys.readouterr().out.splitlines() if "recording" in line]
    assert shown == ["rl_model_32_steps.zip", "rl_model_64_steps.zip", "CartPole-v1.zip"]
    assert n_frames(path) == 3 * 11


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--exp-id", "9"), "there is no run 9"),
        (("-o", "video.avi", "--load-checkpoint", "5"), "there is no"),
        (("-o", "video.avi"), "an .mp4 or a .gif file, not -o video.avi"),
        (("-o", "video.mp4", "--gif"), "a .gif file, not -o video.mp4"),
        (("--env-kwargs", "render_mode:'human'"), "needs render_mode 'rgb_array', not 'human'"),
        (("--env-kwargs", "colour:1"), "colour"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(flags, message, logs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(logs.rglob("*"))
    assert record(logs, "-n", "5", *flags) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert sorted(logs.rglob("*")) == before and list(tmp_path.iterdir()) == []


def test_a_training_that_has_not_ended_is_recorded(logs, tmp_path, capsys):
    unfinished = tmp_path / "logs"
    shutil.copytree(logs, unfinished)
    (unfinished / "ppo" / "CartPole-v1_1" / "CartPole-v1.zip").unlink()
    path = tmp_path / "training.gif"
    assert record(unfinished, "-n", "5", "-o", str(path), command="record-training") == 0
    assert "2 agents, 12 frames" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_completes_the_video_and_ends(logs, tmp_path, monkeypatch, capsys, number):
    def write(video: VideoWriter, frame: np.ndarray) -> None:
        plain_write(video, frame)
        if video.n_frames == 5:
            os.kill(os.getpid(), number)

    plain_write = VideoWriter.write
    monkeypatch.setattr(VideoWriter, "write", write)
    assert record(logs, "-n", "500", "-o", str(tmp_path / "video.mp4")) == 0
    assert f"frames are in {tmp_path / 'video.mp4'}" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["video.mp4"]
    assert n_frames(tmp_path / "video.mp4") in (5, 6)


@pytest.mark.parametrize(
    "image", [np.zeros((8, 8), np.uint8), np.zeros((8, 8, 3)), np.zeros((0, 8, 3), np.uint8)]
)
def test_images_without_colours_are_refused(image, monkeypatch):
    venv = rlzoo.make_vec_env("CartPole-v1", 1)
    monkeypatch.setattr(venv, "get_images", lambda: [image])
    with pytest.raises(UserError, match=r"renders .*; a video needs uint8 \[height, width, 3\]"):
        FrameRecorder(venv, Frames(), ["label"]).reset()  # type: ignore[arg-type]
    venv.close()


def test_environments_without_render_are_refused(monkeypatch):
    def get_images() -> list[np.ndarray]:
        raise NotImplementedError

    venv = rlzoo.make_vec_env("CartPole-v1", 1)
    monkeypatch.setattr(venv, "get_images", get_images)
    with pytest.raises(UserError, match=r"have no render\(\)"):
        FrameRecorder(venv, Frames()).reset()  # type: ignore[arg-type]
    venv.close()


class Right:
    """An agent that always goes right."""

    def predict(self, obs: Any, **kwargs: Any) -> tuple[np.ndarray, None]:
        return np.ones(len(obs), int), None


def test_record_video_takes_any_agent_and_environment(tmp_path):
    env = gym.make("CartPole-v1", render_mode="rgb_array")
    path = rlzoo.record_video(Right(), env, tmp_path / "right.mp4", n_steps=15)
    assert n_frames(path) == 16
    with pytest.raises(UserError, match="render no images"):
        rlzoo.record_video(Right(), gym.make("CartPole-v1"), tmp_path / "blind.mp4", n_steps=5)
    assert [path.name for path in tmp_path.iterdir()] == ["right.mp4"]


class Frames:
    """Keeps the frames it is given."""

    def __init__(self) -> None:
        self.frames: list[np.ndarray] = []

    def write(self, frame: np.ndarray) -> None:
        self.frames.append(frame)


def test_video_labels_show_raw_returns(monkeypatch):
    drawn: list[list[str]] = []
    monkeypatch.setattr(module, "draw_label", lambda frame, lines: drawn.append(lines) or frame)
    venv = rlzoo.make_vec_env(
        "CartPole-v1", 2, seed=0, env_kwargs={"render_mode": "rgb_array"}, backend="dummy"
    )
    video: Any = Frames()
    recorder = FrameRecorder(rlzoo.VecNormalize(venv), video, ["ppo CartPole-v1"])
    recorder.reset()
    for _ in range(3):
        recorder.step(np.array([0, 1]))
    assert drawn[:2] == [["ppo CartPole-v1", "return 0.0"], ["return 0.0"]]
    assert drawn[-2:] == [["ppo CartPole-v1", "return 3.0"], ["return 3.0"]]
    assert [frame.shape for frame in video.frames] == [(800, 600, 3)] * 4
    venv.close()


def test_mujoco_without_a_display_names_what_it_needs(monkeypatch):
    monkeypatch.setattr(module, "has_display", lambda: False)
    monkeypatch.setattr(module.sys, "modules", {})
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(module, "find_library", lambda name: None)
    with pytest.raises(UserError, match="MuJoCo needs EGL or OSMesa"):
        choose_renderer("HalfCheetah-v5")
    choose_renderer("CartPole-v1")
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    with pytest.raises(UserError, match="MuJoCo needs OSMesa"):
        choose_renderer("HalfCheetah-v5")
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    with pytest.raises(UserError, match="MUJOCO_GL=glfw needs a display"):
        choose_renderer("HalfCheetah-v5")
    monkeypatch.delenv("MUJOCO_GL")
    monkeypatch.setattr(module, "find_library", lambda name: "libOSMesa.so" if name == "OSMesa" else None)
    monkeypatch.setenv("MUJOCO_GL", "")
    monkeypatch.delenv("MUJOCO_GL")
    choose_renderer("HalfCheetah-v5")
    assert os.environ.pop("MUJOCO_GL") == "osmesa"

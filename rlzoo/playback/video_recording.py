"""`rlzoo record-video` and `rlzoo record-training`: agents at play, as video files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from ctypes.util import find_library
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch

from rlzoo.config import run as names
from rlzoo.config.hyperparams import lookup, merge
from rlzoo.config.run import PlayConfig, VideoConfig, bare_id
from rlzoo.core.errors import UserError
from rlzoo.core.observations import Obs
from rlzoo.core.runtime import set_random_seed
from rlzoo.envs.make_vec_env import as_vec_env, make_vec_env
from rlzoo.envs.single_env.registration import ensure_registered, import_packages
from rlzoo.envs.vec_env.tile_images import tile_images
from rlzoo.envs.vec_env.vec_env import VecEnv, VecEnvWrapper, VecStep, unwrap_vec_wrapper
from rlzoo.envs.vec_wrappers.vec_monitor import VecMonitor
from rlzoo.envs.vec_wrappers.video_file import SUFFIXES, VideoWriter, draw_label, enlarged
from rlzoo.evaluation.evaluate import Predictor, play_episodes
from rlzoo.experiment.factories import build_evaluation_env, check_env_arguments, load_model
from rlzoo.experiment.resolve import resolve_config
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.playback.play import DEFAULT_STEPS, has_display, progress
from rlzoo.processes.stop_signals import StopSignals
from rlzoo.runs import run_folder
from rlzoo.runs.agent_file import with_agent_file
from rlzoo.training.checkpoint import read_checkpoint

DEFAULT_FPS = 30
VIDEO_SUFFIXES = (*SUFFIXES, ".avi", ".mkv", ".mov", ".m4v", ".webm", ".webp", ".apng")
"""Names that end so mean files, not folders."""
ANSWER = "completing the video and ending"
RENDERERS = {"egl": "EGL", "osmesa": "OSMesa"}
"""Values of MUJOCO_GL that need no display, and the libraries behind them."""


class FrameRecorder(VecEnvWrapper):
    """Hands a frame to a video after each reset and step: all environments side by side, labelled.

    :param video: takes the frames
    :param title: first lines of the label, before the return so far; None: no label
    :raises UserError: the environments render no images
    """

    def __init__(self, venv: VecEnv, video: VideoWriter, title: list[str] | None = None) -> None:
        super().__init__(venv)
        self.video = video
        self.title = title
        self._returns = np.zeros(venv.num_envs)

    def reset(self) -> Obs:
        obs = self.venv.reset()
        self._returns[:] = 0
        self._capture()
        return obs

    def wait_arrays(self) -> VecStep:
        step = self.venv.wait_arrays()
        self._returns += step.rewards
        self._returns[step.ended] = 0
        self._capture()
        return step

    def _capture(self) -> None:
        try:
            images = self.venv.get_images()
        except NotImplementedError:
            raise UserError("the environments render no images: they have no render()") from None
        if not images or any(image is None for image in images):
            raise UserError("the environments render no images: their render_mode must be 'rgb_array'")
        frames = [enlarged(_checked(image)) for image in images]
        if self.title is not None:
            for index, (frame, value) in enumerate(zip(frames, self._returns_of_games(), strict=True)):
                title = self.title if index == 0 else []
                frames[index] = draw_label(frame, [*title, f"return {value:,.1f}"])
        self.video.write(tile_images(frames))

    def _returns_of_games(self) -> list[float]:
        """Compute the return of each running game, before wrappers where a Monitor knows it."""
        if self.venv.has_attr("return_so_far"):
            return [float(value) for value in self.venv.get_attr("return_so_far")]
        monitor = unwrap_vec_wrapper(self.venv, VecMonitor)
        returns = self._returns if monitor is None else monitor.episode_returns
        return [float(value) for value in returns]


def record_video(
    model: Predictor,
    env: VecEnv | gym.Env | str,
    path: str | os.PathLike[str],
    n_steps: int | None = None,
    episodes: int | None = None,
    *,
    deterministic: bool = True,
    fps: float | None = None,
    label: bool = True,
    on_step: Callable[[int], None] | None = None,
) -> Path:
    """Play an agent and write what is seen to a video file.

    >>> record_video(model, gym.make("CartPole-v1", render_mode="rgb_array"), "pole.mp4")  # doctest: +SKIP

    :param model: anything with `predict`
    :param env: an environment id, or a single environment or a vector made with render_mode="rgb_array"
    :param path: ends in .mp4 or .gif
    :param n_steps: steps of each environment (default: 1000, unless `episodes`)
    :param episodes: whole episodes, over all environments, instead
    :param fps: frames per second (default: the environment's own)
    :param label: whether the algorithm, the environment and the return so far are shown
    :param on_step: called after each step with the number of steps so far, or of episodes
    :return: the file
    :raises UserError: the environment renders no images, or there is no ffmpeg
    """
    with ExitStack() as resources:
        if isinstance(env, str):
            ensure_registered(env)
            choose_renderer(env)
            env = resources.enter_context(closing(make_vec_env(env)))
        venv = as_vec_env(env)
        title = [type(model).__name__, _id_of(venv)] if label else None
        video = resources.enter_context(VideoWriter(path, fps or _fps_of(venv)))
        play_episodes(
            model,
            FrameRecorder(venv, video, title),
            episodes,
            deterministic,
            n_steps=n_steps or (None if episodes else DEFAULT_STEPS),
            on_step=on_step,
        )
    return video.path


def record(config: VideoConfig) -> Path:
    """Record an agent as `rlzoo record-video` does, and print where the video is if `verbose` is not 0.

    :raises UserError: there is no such agent, or its environment cannot be drawn here
    """
    play = with_agent_file(config.play)
    config = replace(config, play=play)
    agent, resolved = _prepare(play, run_folder.find_agent)
    path = _output(config, agent.path, f"{_kind(agent.path)}-{play.algo}-{names.safe_name(play.env_id)}")
    if play.verbose > 0:
        print(f"recording {agent.path}")
    with StopSignals(ANSWER) as signals, ExitStack() as resources:
        venv = _drawable_env(play, resolved, resources)
        n_steps = play.n_timesteps or (None if play.n_episodes else DEFAULT_STEPS)
        video = resources.enter_context(VideoWriter(path, config.fps or _fps_of(venv)))
        title = [f"{play.algo} {play.env_id}"] if config.label else None
        with (
            _kept_when_interrupted(video),
            signals.interruptible(),
            progress(play, play.n_episodes or n_steps) as on_step,
        ):
            _play(play, resolved, agent.path, venv, video, title, on_step)
    if play.verbose > 0:
        print(f"{video.n_frames:,} frames are in {path}")
    return path


def record_training(config: VideoConfig) -> Path:
    """Record every checkpoint of a run, the best and the final agent, one after the other in one video.

    Each clip is labelled with the steps that its agent was trained for and with its return so far.

    :raises UserError: the run has saved no agent, or its environment cannot be drawn here
    """
    play = config.play
    agent, resolved = _prepare(play, _last_agent)
    agents = _agents_of(agent.path.parent, play.env_id)
    path = _output(config, agent.path, f"training-{play.algo}-{names.safe_name(play.env_id)}")
    with StopSignals(ANSWER) as signals, ExitStack() as resources:
        venv = _drawable_env(play, resolved, resources)
        video = resources.enter_context(VideoWriter(path, config.fps or _fps_of(venv)))
        with (
            _kept_when_interrupted(video),
            signals.interruptible(),
            progress(play, len(agents), "agents") as on_agent,
        ):
            for number, (steps, name, file) in enumerate(agents, 1):
                print(f"recording {file}")
                title = [f"{play.algo} {play.env_id}", f"{name}, {steps:,} steps"] if config.label else None
                _play(play, resolved, file, venv, video, title, None)
                if on_agent is not None:
                    on_agent(number)
    print(f"{len(agents)} agents, {video.n_frames:,} frames are in {path}")
    return path


@contextmanager
def _kept_when_interrupted(video: VideoWriter) -> Iterator[None]:
    """Let Ctrl-C end a recording without an error, unless there is no frame yet."""
    try:
        yield
    except KeyboardInterrupt:
        if not video.n_frames:
            raise


def choose_renderer(env_id: str) -> None:
    """Let pygame and MuJoCo draw without a display; to be called before they are imported.

    :raises UserError: neither EGL nor OSMesa is installed; names the packages
    """
    if has_display():
        return
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    chosen = os.environ.get("MUJOCO_GL", "").lower()
    entry_point = str(gym.spec(bare_id(env_id)).entry_point)
    if not any(package in entry_point for package in ("mujoco", "gymnasium_robotics")):
        return
    if chosen == "glfw":
        raise UserError("MUJOCO_GL=glfw needs a display, and there is none; unset it, or use egl or osmesa")
    if "mujoco" in sys.modules or chosen not in ("", *RENDERERS):
        return
    usable = (chosen,) if chosen else tuple(RENDERERS)
    for name in usable:
        if find_library(RENDERERS[name]) is not None:
            os.environ["MUJOCO_GL"] = name
            return
    libraries = " or ".join(RENDERERS[name] for name in usable)
    raise UserError(
        f"{env_id} cannot be drawn without a display: MuJoCo needs {libraries}"
        " (Debian: apt install libegl1 libgl1-mesa-dri, or libosmesa6)"
    )


def _checked(image: np.ndarray | None) -> np.ndarray:
    """Return a rendered image as [height, width, 3], without its alpha channel.

    :raises UserError: it has another shape or type
    """
    array = np.asarray(image)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] not in (3, 4) or not array.size:
        shape = f"{array.dtype} {list(array.shape)}"
        raise UserError(f"the environment renders {shape}; a video needs uint8 [height, width, 3]")
    return array[..., :3]


def _last_agent(play: PlayConfig) -> run_folder.Agent:
    """Return the last agent that a run has saved; of an unfinished run, a checkpoint or the best one."""
    folder = run_folder.find_folder(play)
    file = _agents_of(folder, play.env_id)[-1][2]
    config_file = run_folder.config_path(folder, play.env_id)
    return run_folder.Agent(file, lookup(play.algo, play.env_id, config_file).values)


def _prepare(
    play: PlayConfig, find: Callable[[PlayConfig], run_folder.Agent]
) -> tuple[run_folder.Agent, ResolvedConfig]:
    import_packages(play.gym_packages, play.env_id)
    agent = find(play)
    values = merge(agent.hyperparams, {"env_kwargs": play.env_kwargs})
    resolved = resolve_config(play.algo, values, trusted=False)
    ensure_registered(play.env_id)
    choose_renderer(play.env_id)
    check_env_arguments(resolved, play.env_id)
    return agent, resolved


def _drawable_env(play: PlayConfig, resolved: ResolvedConfig, resources: ExitStack) -> VecEnv:
    kwargs = {"render_mode": "rgb_array", **resolved.env_kwargs}
    if kwargs["render_mode"] not in (None, "rgb_array"):
        raise UserError(f"a video needs render_mode 'rgb_array', not {kwargs['render_mode']!r}")
    kwargs["render_mode"] = "rgb_array"
    drawable = replace(resolved, env_kwargs=kwargs)
    venv = build_evaluation_env(drawable, play.env_id, play.n_envs, play.seed, "dummy")
    resources.callback(venv.close)
    return venv


def _play(
    play: PlayConfig,
    resolved: ResolvedConfig,
    agent: Path,
    venv: VecEnv,
    video: VideoWriter,
    title: list[str] | None,
    on_step: Callable[[int], None] | None,
) -> None:
    torch.set_num_threads(max(play.num_threads, 1))
    model = load_model(resolved, agent, venv, play.device)
    set_random_seed(play.seed)
    venv.seed(play.seed)
    play_episodes(
        model,
        FrameRecorder(venv, video, title),
        play.n_episodes,
        play.is_deterministic,
        n_steps=play.n_timesteps or (None if play.n_episodes else DEFAULT_STEPS),
        on_step=on_step,
    )


def _agents_of(folder: Path, env_id: str) -> list[tuple[int, str, Path]]:
    """Return steps, kind and file of each agent of a run: checkpoints in order, the best, the final one.

    :raises UserError: there is none
    """
    checkpoints = [path for path in folder.glob("*.zip") if names.checkpoint_steps(path.name) is not None]
    checkpoints.sort(key=lambda path: names.checkpoint_steps(path.name) or 0)
    named = [("checkpoint", path) for path in checkpoints]
    named += [("best", folder / names.BEST_MODEL), ("final", run_folder.model_path(folder, env_id))]
    agents = [(read_checkpoint(path).steps(), name, path) for name, path in named if path.is_file()]
    if not agents:
        raise UserError(f"{folder} holds no agent; save some with --save-freq")
    return agents


def _output(config: VideoConfig, agent: Path, name: str) -> Path:
    """Return the video's file: in the folder that `-o` names, else in the folder `videos` of the run."""
    suffix = ".gif" if config.gif else ".mp4"
    output = Path(config.output) if config.output else None
    if output is not None and output.suffix.lower() in VIDEO_SUFFIXES and not output.is_dir():
        if output.suffix not in SUFFIXES or (config.gif and output.suffix != suffix):
            raise UserError(
                f"a video is {'a .gif' if config.gif else 'an .mp4 or a .gif'} file, not -o {output}"
            )
        return output
    is_own = bool(config.play.trained_agent) or agent.is_relative_to(Path(config.play.folder))
    where = agent.parent if is_own else Path(config.play.folder) / config.play.algo
    play = config.play
    if play.n_episodes:
        length = f"{play.n_episodes}-episodes"
    else:
        length = f"step-0-to-step-{play.n_timesteps or DEFAULT_STEPS}"
    return (output or where / "videos") / f"{name}-{length}{suffix}"


def _kind(agent: Path) -> str:
    """Return the prefix of a video's name: which of a run's agents plays."""
    if agent.name == names.BEST_MODEL:
        return "best-model"
    steps = names.checkpoint_steps(agent.name)
    return "final-model" if steps is None else f"checkpoint-{steps}"


def _fps_of(venv: VecEnv) -> float:
    """Return the frames per second of the environments."""
    metadata = venv.get_attr("metadata")[0] if venv.has_attr("metadata") else {}
    return float(metadata.get("render_fps") or DEFAULT_FPS)


def _id_of(venv: VecEnv) -> str:
    spec = venv.get_attr("spec")[0] if venv.has_attr("spec") else None
    return getattr(spec, "id", "")

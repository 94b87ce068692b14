"""`rlzoo.show`: an agent at play, as a video inside a notebook."""

from __future__ import annotations

import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import gymnasium as gym

from rlzoo.algorithms.base import Algorithm
from rlzoo.core.errors import UserError
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.vec_normalize import unwrap_vec_normalize
from rlzoo.playback.video_recording import record_video

DEFAULT_STEPS = 500


@dataclass(frozen=True)
class InlineVideo:
    """A video that a notebook shows where it is the value of a cell.

    :param data: the file's bytes
    :param mimetype: "video/mp4" or "image/gif"
    """

    data: bytes = field(repr=False)
    mimetype: str

    def _repr_html_(self) -> str:
        source = f"data:{self.mimetype};base64,{b64encode(self.data).decode()}"
        if self.mimetype == "image/gif":
            return f'<img src="{source}" alt="an agent at play">'
        return f'<video src="{source}" controls autoplay loop muted playsinline></video>'


def show(
    model: Algorithm,
    env: VecEnv | gym.Env | str | None = None,
    n_steps: int | None = None,
    episodes: int | None = None,
    *,
    gif: bool = False,
    deterministic: bool = True,
    fps: float | None = None,
    label: bool = True,
) -> InlineVideo:
    """Play an agent and return the video, which a notebook shows in place.

    >>> rlzoo.show(PPO("MlpPolicy", "CartPole-v1").learn(20_000))  # doctest: +SKIP

    :param model: an agent
    :param env: as in `record_video`; None: the agent's own environments, which then start new episodes.
        Running statistics of observations and rewards stay as they are.
    :param n_steps: steps of each environment (default: 500, unless `episodes`)
    :param episodes: whole episodes, over all environments, instead
    :param gif: a GIF instead of an mp4, for pages that show no videos
    :param fps: frames per second (default: the environment's own)
    :param label: whether the algorithm, the environment and the return so far are shown
    :raises UserError: the agent has no environment, it renders no images, or there is no ffmpeg
    """
    own = env is None
    env = model.get_env() if own else env
    if env is None:
        raise UserError("the agent has no environment: pass one, such as show(model, 'CartPole-v1')")
    n_steps = n_steps or (None if episodes else DEFAULT_STEPS)
    with tempfile.TemporaryDirectory() as folder, _without_updates(env):
        path = Path(folder) / f"agent.{'gif' if gif else 'mp4'}"
        record_video(model, env, path, n_steps, episodes, deterministic=deterministic, fps=fps, label=label)
        data = path.read_bytes()
    if own:
        model.set_env(env)  # whose episodes are over
    return InlineVideo(data, "image/gif" if gif else "video/mp4")


@contextmanager
def _without_updates(env: object) -> Iterator[None]:
    """Keep the running statistics of the environments as they are meanwhile."""
    normalize = unwrap_vec_normalize(env) if isinstance(env, VecEnv) else None
    training = normalize is not None and normalize.training
    try:
        if normalize is not None:
            normalize.training = False
        yield
    finally:
        if normalize is not None:
            normalize.training = training

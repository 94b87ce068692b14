"""Make preprocessed Atari games, single or vectorised."""

from __future__ import annotations

import os

import gymnasium as gym

from rlzoo.core.errors import UserError
from rlzoo.envs.atari.atari_wrappers import AtariWrapper, MaxAndSkipEnv, NoopResetEnv
from rlzoo.envs.make_vec_env import EnvId, Kwargs, make_vec_env
from rlzoo.envs.single_env.registration import ensure_registered
from rlzoo.envs.vec_env.vec_env import VecEnv


def make_atari(env_id: str, noop_max: int = 30, frame_skip: int = 4, **env_kwargs: object) -> gym.Env:
    """Make a game with no-ops at reset and frame skip; `wrap_deepmind` adds the rest of the preprocessing.

    >>> env = wrap_deepmind(make_atari("PongNoFrameskip-v4"), frame_stack=True)

    :param env_id: id of a game without its own frame skip
    :param noop_max: largest number of no-ops at reset
    :param frame_skip: number of frames for which an action is repeated
    :raises UserError: the game skips frames itself
    """
    ensure_registered(env_id)
    env = gym.make(env_id, **env_kwargs)  # type: ignore[arg-type]
    if getattr(env.unwrapped, "_frameskip", 1) != 1:
        env.close()
        raise UserError(
            f"make_atari needs a game without frame skip: {env_id} with frameskip=1, or a NoFrameskip id"
        )
    return MaxAndSkipEnv(NoopResetEnv(env, noop_max), frame_skip)


def make_atari_env(
    env_id: EnvId,
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | os.PathLike[str] | None = None,
    wrapper_kwargs: Kwargs | None = None,
    env_kwargs: Kwargs | None = None,
    vec_env_cls: type[VecEnv] | None = None,
    vec_env_kwargs: Kwargs | None = None,
    monitor_kwargs: Kwargs | None = None,
    num_env: int | None = None,
) -> VecEnv:
    """Make a vectorised Atari game with the preprocessing of `AtariWrapper`.

    >>> venv = VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=8, seed=0), n_stack=4)

    :param env_id: id of a game without its own frame skip, or a function or class that makes one
    :param wrapper_kwargs: arguments of `AtariWrapper`
    :param num_env: older name of `n_envs`

    The other parameters are those of `make_vec_env`.
    """
    if num_env is not None:
        if n_envs != 1:
            raise UserError("make_atari_env: n_envs and num_env are the same; give one of them")
        n_envs = num_env
    return make_vec_env(
        env_id,
        n_envs=n_envs,
        seed=seed,
        start_index=start_index,
        monitor_dir=monitor_dir,
        wrapper_class=AtariWrapper,
        env_kwargs=env_kwargs,
        vec_env_cls=vec_env_cls,
        vec_env_kwargs=vec_env_kwargs,
        monitor_kwargs=monitor_kwargs,
        wrapper_kwargs=wrapper_kwargs,
    )

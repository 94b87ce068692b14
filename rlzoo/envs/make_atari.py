"""Preprocessed Atari games, one or a vector of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym

from rlzoo.core.errors import UserError
from rlzoo.envs.atari.atari_wrappers import AtariWrapper, MaxAndSkipEnv, NoopResetEnv
from rlzoo.envs.make_vec_env import make_vec_env
from rlzoo.envs.single_env.registration import ensure_registered
from rlzoo.envs.vec_env.vec_env import VecEnv


def make_atari(env_id: str, noop_max: int = 30, frame_skip: int = 4, **env_kwargs: Any) -> gym.Env[Any, Any]:
    """One game with no-ops at reset and frame skip, to be finished by `wrap_deepmind`.

    :raises UserError: when the game skips frames by itself
    """
    ensure_registered(env_id)
    env = gym.make(env_id, **env_kwargs)
    if getattr(env.unwrapped, "_frameskip", 1) != 1:
        env.close()
        raise UserError(
            f"make_atari needs a game without frame skip: {env_id} with frameskip=1, or a NoFrameskip id"
        )
    return MaxAndSkipEnv(NoopResetEnv(env, noop_max), frame_skip)


def make_atari_env(
    env_id: str | Callable[..., Any],
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | os.PathLike[str] | None = None,
    wrapper_kwargs: Mapping[str, Any] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    vec_env_cls: type[VecEnv] | None = None,
    vec_env_kwargs: Mapping[str, Any] | None = None,
    monitor_kwargs: Mapping[str, Any] | None = None,
    num_env: int | None = None,
) -> VecEnv:
    """`make_vec_env` with `AtariWrapper` around every game.

    :param env_id: e.g. "PongNoFrameskip-v4"
    :param wrapper_kwargs: arguments of `AtariWrapper`
    :param num_env: the old name of `n_envs`

    The other parameters are those of `make_vec_env`.
    """
    if num_env is not None:
        if n_envs != 1:
            raise UserError("make_atari_env: n_envs and num_env are the same thing; give one of them")
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

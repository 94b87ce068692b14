"""The training and the evaluation environments of a configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator

from rlzoo.config.env_ids import bare_id
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.envs.make_vec_env import as_vec_env, make_vec_env
from rlzoo.envs.single_env.monitor import Monitor
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.vec_frame_stack import VecFrameStack
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.experiment.named_classes import check_arguments, construct
from rlzoo.experiment.resolved_config import Class, EnvironmentConfig


class WrapperChain:
    """Wrappers as one callable, the first innermost; it can be sent to a worker process."""

    def __init__(self, wrappers: tuple[Class, ...]) -> None:
        self.wrappers = wrappers

    def __call__(self, env: gym.Env) -> gym.Env:
        for wrapper, kwargs in self.wrappers:
            env = wrapper(env, **kwargs)
        return env


def build_training_env(
    resolved: EnvironmentConfig,
    env_id: str,
    seed: int,
    backend: str,
    monitor_dir: Path | None,
    append: bool = False,
    start_index: int = 0,
) -> VecEnv:
    """Build the training environments; environment i is seeded with seed + start_index + i.

    :param append: append to the monitor files of an earlier session of the run
    :param start_index: number of the first environment, for seeds and monitor files
    """
    monitor_kwargs = {**resolved.monitor_kwargs, **({"override_existing": False} if append else {})}
    resolved = replace(resolved, monitor_kwargs=monitor_kwargs)
    venv = _base(
        resolved, env_id, resolved.n_envs, seed, backend, resolved.env_kwargs, monitor_dir, start_index
    )
    if start_index:  # make_vec_env counts it for action spaces only
        venv.seed(seed + start_index)
    return _wrapped(resolved, venv, resolved.normalize)


def build_evaluation_env(
    resolved: EnvironmentConfig,
    env_id: str,
    n_envs: int,
    seed: int,
    backend: str,
    *,
    monitor_dir: Path | None = None,
    norm_reward: bool = False,
) -> VecEnv:
    """Build evaluation environments: same arguments and wrappers, frozen running statistics.

    :param seed: apart from training's; see `evaluation_seed`
    """
    env_kwargs = {**resolved.env_kwargs, **resolved.eval_env_kwargs}
    venv = _base(resolved, env_id, n_envs, seed, backend, env_kwargs, monitor_dir)
    normalize = resolved.normalize
    if normalize is not None:
        norm_reward = norm_reward and normalize.get("norm_reward", True)
        normalize = {**normalize, "training": False, "norm_reward": norm_reward}
    return _wrapped(resolved, venv, normalize)


def check_env_arguments(resolved: EnvironmentConfig, env_id: str) -> None:
    """Check the names of `env_kwargs`, `eval_env_kwargs` and `monitor_kwargs`; no environment is made.

    :raises UserError: names the nearest argument, or says why the environment's code cannot be found
    """
    check_arguments("monitor_kwargs", Monitor, resolved.monitor_kwargs)
    entry_point = gym.spec(bare_id(env_id)).entry_point
    if entry_point is None:
        return
    try:
        creator = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    except Exception as error:
        raise UserError(f"cannot make {env_id}: {type(error).__name__}: {error}") from error
    of_make = ("max_episode_steps", "render_mode")
    check_arguments(env_id, creator, {**resolved.env_kwargs, **resolved.eval_env_kwargs}, of_make)


def evaluation_seed(seed: int) -> int:
    """Return a seed for evaluation: a function of the run's seed, far from every `seed + i` of training."""
    return int(np.random.SeedSequence([seed, 1]).generate_state(1)[0]) % 2**31


def _base(
    resolved: EnvironmentConfig,
    env_id: str,
    n_envs: int,
    seed: int,
    backend: str,
    env_kwargs: dict[str, object],
    monitor_dir: Path | None,
    start_index: int = 0,
) -> VecEnv:
    wrapper: Callable[..., gym.Env] | None = None
    wrapper_kwargs: dict[str, object] = {}
    if len(resolved.env_wrappers) == 1:  # handed on as it is: for some, make_vec_env has a native equivalent
        wrapper, wrapper_kwargs = resolved.env_wrappers[0]
    elif resolved.env_wrappers:
        wrapper = WrapperChain(resolved.env_wrappers)
    # Wrappers and callbacks may ask for images; nothing else does.
    images = bool(resolved.env_wrappers or resolved.vec_env_wrappers or resolved.callbacks)
    try:
        venv = make_vec_env(
            env_id,
            n_envs=n_envs,
            seed=seed,
            start_index=start_index,
            monitor_dir=None if monitor_dir is None else str(monitor_dir),
            wrapper_class=wrapper,
            wrapper_kwargs=wrapper_kwargs or None,
            env_kwargs=env_kwargs or None,
            monitor_kwargs=resolved.monitor_kwargs or None,
            backend=backend,
            images=images,
        )
    except (UserError, RunFailed):
        raise
    except Exception as error:
        raise RunFailed(f"cannot make {env_id}: {type(error).__name__}: {error}") from error
    # Whoever saves an agent asks for it; worker processes need not be there to answer.
    venv.spec = gym.spec(bare_id(env_id))  # type: ignore[attr-defined]
    return venv


def _wrapped(resolved: EnvironmentConfig, venv: VecEnv, normalize: dict[str, Any] | None) -> VecEnv:
    try:
        for wrapper, kwargs in resolved.vec_env_wrappers:
            venv = construct("vec_env_wrapper", wrapper, venv, **kwargs)
        if normalize is not None:
            venv = VecNormalize(venv, **normalize)
        if resolved.frame_stack > 1:
            venv = VecFrameStack(venv, n_stack=resolved.frame_stack)
        return as_vec_env(venv)  # the channels of images come first
    except BaseException:
        venv.close()
        raise

"""Make a VecEnv with episode statistics, from an environment id, a function or an environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import gymnasium as gym
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec, load_env_creator

from rlzoo.core.errors import UserError, unknown
from rlzoo.core.preprocessing import is_channels_first, is_image_space
from rlzoo.envs.single_env.flames import FlamesWhenRendered, draws_flames
from rlzoo.envs.single_env.monitor import Monitor
from rlzoo.envs.single_env.old_gym import is_of_old_gym
from rlzoo.envs.single_env.registration import TENSOR_ENVS, ensure_registered
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.envpool import EnvPoolVecEnv
from rlzoo.envs.vec_env.gym_vector import GymVectorEnv
from rlzoo.envs.vec_env.native import NativeCartPole, is_native
from rlzoo.envs.vec_env.subproc import SubprocVecEnv
from rlzoo.envs.vec_env.vec_env import VecEnv, is_vecenv_wrapped
from rlzoo.envs.vec_wrappers.vec_monitor import VecMonitor
from rlzoo.envs.vec_wrappers.vec_transpose import VecTransposeImage

if TYPE_CHECKING:
    from rlzoo.envs.tensor.tensor_vec_env import TensorVecEnv

BACKENDS = ("auto", "dummy", "subproc", "native", "envpool")
VECTORISED_MONITOR_KWARGS = {"info_keywords", "override_existing"}  # that need no Monitor per environment

Kwargs: TypeAlias = Mapping[str, Any]  # keyword arguments of environments, wrappers and vectors
EnvId: TypeAlias = "str | Callable[..., gym.Env]"


@dataclass
class EnvMaker:
    """Make one environment when called; can be pickled for a worker process.

    :param env_id: a registered id, or a function or class that returns an environment
    :param env_kwargs: its keyword arguments
    :param wrapper_class: wraps the environment
    :param wrapper_kwargs: further keyword arguments of the wrapper
    :param seed: seed of the action space
    :param monitor: arguments of a Monitor inside the wrapper; None: no Monitor
    :param spec: registration of `env_id` in this process
    :param images: use render_mode="rgb_array" if the environment supports it
    """

    env_id: EnvId
    env_kwargs: Kwargs = field(default_factory=dict)
    wrapper_class: Callable[..., gym.Env] | None = None
    wrapper_kwargs: Kwargs = field(default_factory=dict)
    seed: int | None = None
    monitor: Kwargs | None = None
    spec: EnvSpec | None = None
    images: bool = True

    @property
    def env_name(self) -> str:
        """The id, or the name of the function or class."""
        return self.env_id if isinstance(self.env_id, str) else getattr(self.env_id, "__name__", "?")

    def numbered(self, index: int) -> EnvMaker:
        """Return the maker of environment `index`, with its seed and monitor file."""
        seed = None if self.seed is None else self.seed + index
        monitor = self.monitor
        if monitor is not None and (folder := monitor["filename"]) is not None:
            monitor = {**monitor, "filename": os.path.join(folder, str(index))}
        return replace(self, seed=seed, monitor=monitor)

    def __call__(self) -> gym.Env:
        env = self._make()
        env.action_space.seed(self.seed)
        if self.monitor is not None:
            env = Monitor(env, **self.monitor)
        if self.wrapper_class is not None:
            env = self.wrapper_class(env, **self.wrapper_kwargs)
        return env

    def _make(self) -> gym.Env:
        if not isinstance(self.env_id, str):
            return self.env_id(**self.env_kwargs)
        # A worker process lacks registrations of this process, unless the id names the package.
        if (
            self.spec is not None
            and ":" not in self.env_id
            and gym.registry.get(self.env_id) is not self.spec
        ):
            if isinstance(
                self.spec.entry_point, str
            ):  # import its package first: it may register the id, too
                load_env_creator(self.spec.entry_point)
            gym.registry[self.env_id] = self.spec
        ensure_registered(self.env_id)
        env_kwargs = dict(self.env_kwargs)
        if self.images and "render_mode" not in env_kwargs and _draws_images(self.env_id):
            env_kwargs["render_mode"] = "rgb_array"
        # The passive checker costs time at every step; `check_env` checks more.
        try:
            env = gym.make(self.env_id, disable_env_checker=True, **env_kwargs)
            return FlamesWhenRendered(env) if draws_flames(env) else env
        except TypeError as error:  # its metadata has "rgb_array", but it has no argument render_mode
            if "render_mode" not in str(error) or "render_mode" in self.env_kwargs:
                raise
            return gym.make(self.env_id, disable_env_checker=True, **self.env_kwargs)


def _spec(env_id: str) -> EnvSpec:
    """Return the registration of an id, which may name its package ("package:Name-v0"; imported before)."""
    return gym.spec(env_id.rpartition(":")[2])


def _draws_images(env_id: str) -> bool:
    """Return whether the environment supports render_mode="rgb_array"."""
    entry_point = _spec(env_id).entry_point
    if entry_point is None:
        return False
    creator = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    metadata = getattr(creator, "metadata", None)
    return isinstance(metadata, Mapping) and "rgb_array" in metadata.get("render_modes", ())


def make_vec_env(
    env_id: EnvId,
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | os.PathLike[str] | None = None,
    wrapper_class: Callable[..., gym.Env] | None = None,
    env_kwargs: Kwargs | None = None,
    vec_env_cls: Callable[..., VecEnv] | None = None,
    vec_env_kwargs: Kwargs | None = None,
    monitor_kwargs: Kwargs | None = None,
    wrapper_kwargs: Kwargs | None = None,
    backend: str | None = None,
    images: bool = True,
) -> VecEnv:
    """Make a vectorised environment that reports episode statistics in `infos[i]["episode"]`.

    >>> venv = make_vec_env("Pendulum-v1", n_envs=4, seed=0)
    >>> venv.reset().shape
    (4, 3)

    Statistics are recorded inside of `wrapper_class`: they are those of the unwrapped environment.

    :param env_id: a registered id, or a function or class that returns an environment
    :param n_envs: number of environments
    :param seed: the first reset of environment i is seeded with `seed + i`, and its action space with
        `seed + start_index + i`, as in stable-baselines3; so environment i of a seed equals environment
        i - 1 of the next seed
    :param start_index: number of the first environment, for monitor files and seeds of action spaces
    :param monitor_dir: folder for `<i>.monitor.csv`, created if missing; None writes no files
    :param wrapper_class: wraps each environment
    :param env_kwargs: keyword arguments of the environment
    :param vec_env_cls: called with a list of functions that make environments; None: see `backend`
    :param vec_env_kwargs: further arguments of `vec_env_cls`, or of the class of the backend
    :param monitor_kwargs: arguments of `Monitor`
    :param wrapper_kwargs: further keyword arguments of `wrapper_class`
    :param backend: "auto" (the fastest with identical dynamics and rewards), "dummy", "subproc", "native" or
        "envpool"; None: "auto"
    :param images: make environments with render_mode="rgb_array" if they support it, so that videos can be
        recorded
    :raises UserError: an unknown environment or backend, or arguments that the backend does not support
    """
    backend = backend or "auto"
    if backend not in BACKENDS:
        raise unknown("backend", backend, BACKENDS)
    if n_envs < 1:
        raise UserError(f"n_envs must be at least 1, not {n_envs}")
    if vec_env_cls is not None and backend != "auto":
        raise UserError("make_vec_env: give vec_env_cls or backend, not both")
    if wrapper_kwargs and wrapper_class is None:
        raise UserError("make_vec_env: wrapper_kwargs without a wrapper_class")
    if isinstance(env_id, str):
        ensure_registered(env_id)
    if monitor_dir is not None:
        Path(monitor_dir).mkdir(parents=True, exist_ok=True)
    monitor_kwargs = monitor_kwargs or {}
    maker = EnvMaker(env_id, env_kwargs or {}, wrapper_class, wrapper_kwargs or {}, seed, images=images)
    if isinstance(env_id, str):
        maker.spec = _spec(env_id)

    venv: VecEnv | None = None
    if backend == "envpool":
        if wrapper_class is not None or not isinstance(env_id, str):
            raise UserError("the envpool backend takes an environment id and no Python wrapper")
        venv = EnvPoolVecEnv(env_id, n_envs, env_kwargs)
    elif backend in ("auto", "native") and vec_env_cls is None and not vec_env_kwargs:
        venv = _make_native(maker, n_envs, start_index, monitor_dir, monitor_kwargs)
        if venv is None and backend == "native":
            raise UserError(
                f"there is no native backend for {env_id} as it is registered, with these wrappers and"
                " arguments"
            )
    if venv is None:
        vec_env_cls = vec_env_cls or (SubprocVecEnv if backend == "subproc" else DummyVecEnv)
        vectorised_monitor = vec_env_cls is DummyVecEnv and set(monitor_kwargs) <= VECTORISED_MONITOR_KWARGS
        if wrapper_class is not None or not vectorised_monitor:
            maker = replace(maker, monitor={"filename": monitor_dir, **monitor_kwargs})
        makers = [maker.numbered(index) for index in range(start_index, start_index + n_envs)]
        venv = vec_env_cls(makers, **(vec_env_kwargs or {}))
    if isinstance(venv, DummyVecEnv) and not all(venv.env_is_wrapped(Monitor)):
        venv.record_episode_statistics(monitor_dir, start_index=start_index, **monitor_kwargs)
    elif not all(venv.env_is_wrapped(Monitor)):
        venv = VecMonitor(venv, monitor_dir, start_index=start_index, **monitor_kwargs)
    if seed is not None:
        venv.seed(seed)
        venv.action_space.seed(seed + start_index)
    return venv


def _make_native(
    maker: EnvMaker,
    n_envs: int,
    start_index: int,
    monitor_dir: str | os.PathLike[str] | None,
    monitor_kwargs: Kwargs,
) -> VecEnv | None:
    """Return the native vectorised version of the environments, or None if there is none."""
    if not isinstance(maker.env_id, str) or not set(monitor_kwargs) <= {"override_existing"}:
        return None
    if maker.wrapper_class is None:
        if maker.env_kwargs or not (is_native(maker.env_id) or maker.env_id in TENSOR_ENVS):
            return None
        if maker.env_id in TENSOR_ENVS:
            return _make_tensor_env(maker.env_id, n_envs, start_index, monitor_dir, monitor_kwargs)
        return NativeCartPole(maker.env_id, n_envs)
    from rlzoo.envs.atari.atari_wrappers import AtariWrapper  # imports OpenCV, which is slow

    if maker.wrapper_class is not AtariWrapper:
        return None
    from rlzoo.envs.atari.atari_native import make_native_atari

    real = replace(maker, monitor={"filename": monitor_dir, "override_existing": False})
    return make_native_atari(
        maker.env_id,
        n_envs,
        env_kwargs=maker.env_kwargs,
        wrapper_kwargs=maker.wrapper_kwargs,
        monitor_dir=monitor_dir,
        start_index=start_index,
        makers=[real.numbered(index) for index in range(start_index, start_index + n_envs)],
        **monitor_kwargs,
    )


def _make_tensor_env(
    env_id: str,
    n_envs: int,
    start_index: int,
    monitor_dir: str | os.PathLike[str] | None,
    monitor_kwargs: Kwargs,
) -> VecEnv:
    """Return environments on tensors, which move to the device of the agent that steps them."""
    make = cast("Callable[..., TensorVecEnv]", load_env_creator(TENSOR_ENVS[env_id][2]))
    venv = make(n_envs, device="cpu", spec=_spec(env_id))
    override = monitor_kwargs.get("override_existing", True)
    venv.episodes.write_files(monitor_dir, override, start_index, env_id)
    return venv


def as_vec_env(env: object, verbose: int = 0) -> VecEnv:
    """Return the VecEnv that an algorithm uses for its argument `env`.

    :param env: an id, a Gymnasium environment, a `VecEnv` or a `gymnasium.vector.VectorEnv`
    :param verbose: 1: print which wrappers are added
    :return: a VecEnv with channels-first images and, unless `env` is a VecEnv itself, episode statistics
    :raises UserError: another type
    """
    if isinstance(env, str):
        venv = make_vec_env(env)
    elif isinstance(env, VecEnv):
        venv = env
    elif isinstance(env, gym.vector.VectorEnv):
        venv = VecMonitor(GymVectorEnv(env))
    elif isinstance(env, gym.Env) or is_of_old_gym(env):
        single = cast(gym.Env, env)
        venv = DummyVecEnv([lambda: single])
        if not all(venv.env_is_wrapped(Monitor)):
            venv.record_episode_statistics()
    else:
        kind = f"{type(env).__module__}.{type(env).__name__}"
        raise UserError(f"an environment id, a gymnasium.Env or a VecEnv was expected, not {kind}")
    if venv is not env and verbose >= 1:
        print(f"Wrapping the environment in a {type(venv.unwrapped).__name__} with episode statistics")
    if _has_channels_last(venv.observation_space) and not is_vecenv_wrapped(venv, VecTransposeImage):
        if verbose >= 1:
            print("Wrapping the environment in a VecTransposeImage: channels come first")
        venv = VecTransposeImage(venv)
    return venv


def _has_channels_last(space: spaces.Space) -> bool:
    if isinstance(space, spaces.Dict):
        return any(_has_channels_last(part) for part in space.spaces.values())
    return isinstance(space, spaces.Box) and is_image_space(space) and not is_channels_first(space)

"""Backend: environments stepped by the C++ threads of envpool (an optional extra)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from rlzoo.core.errors import UserError, install_command, unknown
from rlzoo.core.observations import Info, Obs
from rlzoo.envs.single_env.registration import FAMILIES
from rlzoo.envs.vec_env.gym_vector import GymVectorEnv

PORTED = {"gymnasium", *(family.module for family in FAMILIES)}
"""Packages whose environments envpool may have ported."""


class EnvPoolVecEnv(GymVectorEnv):
    """Step `n_envs` environments with envpool.

    The spaces are those of the registered environment, so that an agent can play in either: envpool gives
    actions of MuJoCo in float64 and leaves out the bounds of observations in Box2D.

    :param env_id: id of an environment that envpool has ported
    :param n_envs: number of environments
    :param env_kwargs: further options of `envpool.make`; the time limit defaults to the registered one
    :raises UserError: envpool is not installed, lacks the environment, or has another one under its id
    """

    def __init__(self, env_id: str, n_envs: int, env_kwargs: Mapping[str, object] | None = None) -> None:
        try:
            import envpool
        except ImportError:
            raise UserError(f"the envpool backend needs an extra: {install_command('envpool')}") from None
        known = envpool.list_all_envs()
        if env_id not in known:
            raise unknown("envpool environment", env_id, known)
        self.spec = gym.spec(env_id)
        entry_point = self.spec.entry_point
        module = entry_point if isinstance(entry_point, str) else getattr(entry_point, "__module__", "")
        if module.split(".")[0].split(":")[0] not in PORTED or self.spec.additional_wrappers:
            raise UserError(
                f"{env_id} is registered as another environment ({entry_point}) than the one that envpool has"
            )
        options = dict(env_kwargs or {})
        if self.spec.max_episode_steps is not None:
            options.setdefault("max_episode_steps", self.spec.max_episode_steps)
        pool = _Pool(envpool.make, env_id, n_envs, options)
        try:
            pool.take_spaces(gym.make(env_id), changed=bool(env_kwargs))
        except UserError:
            pool.close()
            raise
        super().__init__(pool)
        self.env_workers = int(options.get("num_threads") or n_envs)  # type: ignore[call-overload]
        self._env_name = env_id


class _Pool(gym.vector.VectorEnv):
    """Adapter of envpool to the seeding and partial resets of `gymnasium.vector.VectorEnv`."""

    def __init__(
        self, make: Callable[..., Any], env_id: str, num_envs: int, options: Mapping[str, object]
    ) -> None:
        self._make_pool = lambda seed: make(
            env_id, env_type="gymnasium", num_envs=num_envs, seed=seed, **options
        )
        self._pool: Any = self._make_pool(int(np.random.default_rng().integers(2**31 - num_envs)))
        self.num_envs = num_envs
        self.single_observation_space = self._pool.observation_space
        self.single_action_space = self._pool.action_space
        self.metadata = {"autoreset_mode": gym.vector.AutoresetMode.DISABLED}

    def take_spaces(self, registered: gym.Env[Any, Any], *, changed: bool) -> None:
        """Take the spaces of the registered environment, and close it.

        :param changed: options may have changed the spaces, so that others than the registered ones are kept
        :raises UserError: the spaces differ in more than bounds and dtype
        """
        with registered:
            for name in ("observation_space", "action_space"):
                here, there = getattr(self._pool, name), getattr(registered, name)
                if _alike(here, there):
                    setattr(self, f"single_{name}", there)
                elif not changed:
                    raise UserError(f"envpool has another {name} ({here}) than the environment ({there})")

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, object] | None = None
    ) -> tuple[Obs, Info]:
        if seed is not None:  # envpool is seeded only at construction; environment i gets seed + i
            self._pool.close()
            self._pool = self._make_pool(seed)
        if options and "reset_mask" in options:
            mask = np.asarray(options["reset_mask"])
            obs, infos = self._pool.reset(np.flatnonzero(mask).astype(np.int32))
        else:
            obs, infos = self._pool.reset()
        return obs, _without_bookkeeping(infos)

    def step(self, actions: np.ndarray) -> tuple[Obs, np.ndarray, np.ndarray, np.ndarray, Info]:
        dtype = self._pool.action_space.dtype
        obs, rewards, terminated, truncated, infos = self._pool.step(np.asarray(actions, dtype=dtype))
        return obs, rewards, terminated, truncated, _without_bookkeeping(infos)

    def close(self, **kwargs: object) -> None:
        self._pool.close()


def _alike(one: gym.Space[Any], other: gym.Space[Any]) -> bool:
    """Return whether two spaces are equal, or boxes of the same shape and kind of number."""
    if not (isinstance(one, gym.spaces.Box) and isinstance(other, gym.spaces.Box)):
        return one == other
    return one.shape == other.shape and one.dtype.kind == other.dtype.kind


def _without_bookkeeping(infos: Info) -> Info:
    """Return the infos without the keys that envpool uses itself."""
    return {key: value for key, value in infos.items() if key not in ("env_id", "players")}

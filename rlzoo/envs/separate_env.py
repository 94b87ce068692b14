"""Whether two vector environments step the same single environments, and copies of one that do not."""

from __future__ import annotations

import copy
import sys
from dataclasses import replace

import gymnasium as gym

from rlzoo.core.errors import UserError
from rlzoo.envs.single_env.monitor import Monitor
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.vec_env import VecEnv, VecEnvWrapper
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize

MONITOR = f"{Monitor.__module__}:{Monitor.__qualname__}"


def share_environments(one: VecEnv, other: VecEnv) -> bool:
    """Return whether a step of one vector environment changes the other."""
    ids = [{id(env.unwrapped) for env in _single_envs(venv)} for venv in (one, other)]
    return one.unwrapped is other.unwrapped or not ids[0].isdisjoint(ids[1])


def separate_copy(venv: VecEnv, seed: int | None = None) -> VecEnv:
    """Return a vector environment of the same kind and wrappers, whose steps do not change this one.

    Single environments are copied as they are. Those that cannot be copied, such as Box2D's, are made anew
    where `gymnasium.make` has made them, and with PyBullet, whose copies would share a simulation, all such.
    A copy writes no monitor files.

    :param seed: of its environments
    :raises UserError: an environment cannot be copied, as those in other processes
    """
    base = venv.unwrapped
    if not isinstance(base, DummyVecEnv):
        raise UserError(f"environments of a {type(base).__name__} cannot be copied")
    try:
        copies: dict[int, object] = {id(env): _separate_env(env) for env in _single_envs(venv)}
        separate = _copied(venv, copies)
    except Exception as error:  # of whatever an environment holds
        raise UserError(f"{base.env_name()} cannot be copied: {type(error).__name__}: {error}") from error
    if share_environments(separate, venv):
        raise UserError(f"a copy of {base.env_name()} is the environment itself")
    separate.seed(seed)
    return separate


def _copied(venv: VecEnv, made: dict[int, object]) -> VecEnv:
    """Return a copy.

    :param made: copies that there are already, by the ids of their originals
    """
    if not isinstance(venv, VecEnvWrapper):
        return copy.deepcopy(venv, made)
    made[id(venv.venv)] = inner = _copied(venv.venv, made)
    copied = copy.deepcopy(venv, made)
    if isinstance(copied, VecNormalize):  # whose copies and pickles have no environment
        copied.set_venv(inner)
    return copied


def _single_envs(venv: VecEnv) -> list[gym.Env]:
    base = venv.unwrapped
    return base.without_monitors() if isinstance(base, DummyVecEnv) else []


def _separate_env(env: gym.Env) -> gym.Env:
    if "pybullet" not in sys.modules or env.spec is None:
        try:
            return copy.deepcopy(env)
        except Exception:  # of whatever the environment holds
            if env.spec is None:
                raise
    wrappers = [
        replace(wrapper, kwargs={}) if wrapper.entry_point == MONITOR else wrapper
        for wrapper in env.spec.additional_wrappers
    ]
    return gym.make(replace(env.spec, additional_wrappers=tuple(wrappers)))

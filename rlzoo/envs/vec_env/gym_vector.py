"""Adapter of `gymnasium.vector.VectorEnv`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import NormalizeObservation

from rlzoo.core.errors import EnvironmentFailed, RunFailed, UserError
from rlzoo.core.observations import Info, Obs, copy_obs, map_obs, stack_obs
from rlzoo.envs.single_env.env_failures import describe, is_failure
from rlzoo.envs.vec_env.vec_env import NO_ENDS, Indices, VecEnv, VecStep

T = TypeVar("T")


class GymVectorEnv(VecEnv):
    """Adapter of a `gymnasium.vector.VectorEnv` with any autoreset mode.

    >>> GymVectorEnv(gym.make_vec("Pendulum-v1", num_envs=3)).reset().shape
    (3, 3)

    In the mode SAME_STEP the environment is used as it is. In the other modes, environments whose episode
    ended are reset within the same step, with `reset(options={"reset_mask": ...})`. A vector environment that
    can only reset all of its environments is refused: in the mode NEXT_STEP, some environments would spend a
    step on their reset, which every buffer and running statistic would have to leave out.

    :param env: the vector environment
    :raises UserError: a wrapper of `env` cannot reset single environments
    """

    def __init__(self, env: gym.vector.VectorEnv) -> None:
        super().__init__(
            env.num_envs,
            env.single_observation_space,
            env.single_action_space,
            getattr(env, "render_mode", None),
        )
        self.env = env
        self.env_workers = env.num_envs if isinstance(env.unwrapped, gym.vector.AsyncVectorEnv) else 0
        self._env_name = getattr(env.spec, "id", "?")
        self.metadata = dict(env.metadata)
        mode = self.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._same_step = AutoresetMode(mode) is AutoresetMode.SAME_STEP
        layer = env
        while not self._same_step and isinstance(layer, gym.vector.VectorWrapper):
            if isinstance(layer, NormalizeObservation):  # raise now, not at the end of the first episode
                raise UserError(
                    "gymnasium.wrappers.vector.NormalizeObservation cannot reset single environments; use"
                    " rlzoo.VecNormalize, or gymnasium.wrappers.NormalizeObservation around each environment"
                )
            layer = layer.env
        self._masks_checked = False  # whether a masked reset left the other environments unchanged
        self._actions: np.ndarray | None = None
        self._steps_taken = -1  # -1: never reset

    def reset(self) -> Obs:
        seeds, options = zip(*self._take_seeds_and_options(), strict=True)
        if any(option != options[0] for option in options):
            raise UserError("a gymnasium.vector.VectorEnv takes the same reset options for all environments")
        seed = seeds[0]  # environment i gets seed + i
        self._actions = None
        obs, infos = self._call("reset", self.env.reset, seed=seed, options=options[0])
        self.reset_infos = [dict(info) for info in EnvInfos(infos, self.num_envs)]
        self._steps_taken = max(self._steps_taken, 0)
        return copy_obs(obs)

    def step_async(self, actions: np.ndarray) -> None:
        if self._steps_taken < 0:
            raise UserError("call reset() before the first step()")
        if len(actions) != self.num_envs:
            raise UserError(f"{len(actions)} actions for {self.num_envs} environments")
        self._actions = actions

    def wait_arrays(self) -> VecStep:
        actions, self._actions = self._actions, None
        if actions is None:
            raise UserError("call step_async() before step_wait()")
        self._steps_taken += 1
        obs, rewards, terminated, truncated, infos = self._call("step", self.env.step, actions)
        rewards = np.asarray(rewards, dtype=np.float32)
        done = terminated | truncated
        if not done.any():
            env_infos = EnvInfos(infos, self.num_envs)
            return VecStep(obs, rewards, terminated, truncated, NO_ENDS, None, env_infos)
        ended = np.flatnonzero(done)
        if self._same_step:
            final_obs = self._final_obs(infos, ended)
            final_info = infos.get("final_info", {})
            env_infos = EnvInfos(infos, self.num_envs, dict.fromkeys(ended.tolist(), final_info))
        else:
            final_obs = map_obs(lambda array: array[ended], obs)
            obs = self._reset_ended(obs, done, ended)
            env_infos = EnvInfos(infos, self.num_envs)
        return VecStep(obs, rewards, terminated, truncated, ended, final_obs, env_infos)

    def _final_obs(self, infos: Info, ended: np.ndarray) -> Obs:
        if "final_obs" not in infos:
            raise UserError(f"{self.env} resets in the same step, but its infos lack 'final_obs'")
        finals = infos["final_obs"]
        if isinstance(finals, np.ndarray) and finals.dtype == object:  # one observation per ended episode
            return stack_obs([finals[index] for index in ended.tolist()])
        return map_obs(lambda array: array[ended], finals)

    def _reset_ended(self, obs: Obs, done: np.ndarray, ended: np.ndarray) -> Obs:
        """Reset the environments in `ended`; return `obs` with the first observations of the new episodes."""
        merged = copy_obs(obs)
        first, _ = self._call("reset", self.env.reset, options={"reset_mask": done.copy()})
        n_rows = len(next(iter(first.values())) if isinstance(first, dict) else first)
        if n_rows == self.num_envs:
            self._check_masks(merged, first, ~done)
            first = map_obs(lambda array: array[ended], first)
        if isinstance(merged, dict):
            for key, array in merged.items():
                array[ended] = first[key]
        elif isinstance(merged, tuple):
            for array, part in zip(merged, first, strict=True):
                array[ended] = part
        else:
            merged[ended] = first
        return merged

    def _check_masks(self, before: Obs, after: Obs, untouched: np.ndarray) -> None:
        """Raise if the reset changed other environments: one that ignores `reset_mask` resets all of them."""
        if self._masks_checked or not untouched.any():
            return
        if not all(
            np.array_equal(one[untouched], other[untouched], equal_nan=False)
            for one, other in zip(_arrays(before), _arrays(after), strict=True)
        ):
            raise UserError(
                f"{self.env} cannot reset single environments (reset_mask): use make_vec_env or"
                ' gym.make_vec(..., vectorization_mode="sync"), or give one of your own the mode SAME_STEP'
            )
        self._masks_checked = True

    def _call(self, name: str, method: Callable[..., T], *args: object, **kwargs: object) -> T:
        """Call a method of the vector environment; report its errors as failures of the environment."""
        try:
            return method(*args, **kwargs)
        except BaseException as error:
            if isinstance(error, RunFailed) or not is_failure(error):
                raise
            step = max(self._steps_taken, 0)
            text = f"the vector environment failed in {name}() at step {step}: {describe(error)}"
            raise EnvironmentFailed(text, step=step) from error

    def close(self) -> None:
        try:
            self._call("close", self.env.close)
        except EnvironmentFailed as error:
            warnings.warn(str(error), stacklevel=2)

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        chosen = self._get_indices(indices)
        if isinstance(self.env.unwrapped, (gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv)):
            values = self.env.unwrapped.get_attr(attr_name)
            return [values[index] for index in chosen]
        return [getattr(self.env, attr_name) for _ in chosen]

    def has_attr(self, attr_name: str) -> bool:
        inner = self.env.unwrapped
        if isinstance(inner, gym.vector.SyncVectorEnv):  # whose get_attr calls methods
            return all(env.has_wrapper_attr(attr_name) for env in inner.envs)
        return super().has_attr(attr_name)

    def set_attr(self, attr_name: str, value: object, indices: Indices = None) -> None:
        values = self.get_attr(attr_name)
        for index in self._get_indices(indices):
            values[index] = value
        self._sub_environments().set_attr(attr_name, values)

    def env_method(
        self, method_name: str, *method_args: object, indices: Indices = None, **method_kwargs: object
    ) -> list[Any]:
        chosen = self._get_indices(indices)
        if len(chosen) != self.num_envs:
            raise UserError("a gymnasium.vector.VectorEnv calls a method on all environments or none")
        return list(self._sub_environments().call(method_name, *method_args, **method_kwargs))

    def _sub_environments(self) -> gym.vector.SyncVectorEnv | gym.vector.AsyncVectorEnv:
        inner = self.env.unwrapped
        if not isinstance(inner, (gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv)):
            raise UserError(
                f"{inner} gives no access to its single environments; make_vec_env(..., backend='dummy') does"
            )
        return inner

    def get_images(self) -> Sequence[np.ndarray | None]:
        images = self.env.render()
        if images is None:
            return [None] * self.num_envs
        return list(images)  # type: ignore[arg-type]  # one image per environment


class EnvInfos(Sequence[Info]):
    """View of Gymnasium's dict of arrays as one info per environment, built when it is read.

    :param infos: arrays [n_envs, ...] by key; the bool array `_<key>` marks the environments that have it
    :param final: for environments whose episode just ended, the dict of arrays to read instead
    """

    def __init__(self, infos: Info, num_envs: int, final: Mapping[int, Info] | None = None) -> None:
        self._infos = infos
        self._num_envs = num_envs
        self._final = final or {}

    def __len__(self) -> int:
        return self._num_envs

    @overload
    def __getitem__(self, index: int) -> Info: ...
    @overload
    def __getitem__(self, index: slice) -> list[Info]: ...
    def __getitem__(self, index: int | slice) -> Info | list[Info]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(self._num_envs))]
        if not -self._num_envs <= index < self._num_envs:
            raise IndexError(index)
        index %= self._num_envs
        return _one_info(self._final.get(index, self._infos), index)


def _arrays(obs: Obs) -> list[np.ndarray]:
    """Return the arrays of an observation."""
    if isinstance(obs, dict):
        return list(obs.values())
    return list(obs) if isinstance(obs, tuple) else [obs]


def _one_info(infos: Info, index: int) -> Info:
    """Return the info of one environment."""
    info = {}
    for key, value in infos.items():
        if key.startswith("_") or key in ("final_obs", "final_info"):
            continue
        has_key = infos.get(f"_{key}")
        if has_key is not None and not has_key[index]:
            continue
        info[key] = _one_info(value, index) if isinstance(value, dict) else value[index]
    return info

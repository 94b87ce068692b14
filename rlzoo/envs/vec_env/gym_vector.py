"""Gymnasium's vector environments as VecEnvs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, overload

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import NormalizeObservation

from rlzoo.core.errors import EnvironmentFailed, RunFailed, UserError
from rlzoo.core.observations import Obs, copy_obs, map_obs, stack_obs
from rlzoo.envs.single_env.env_failures import describe, is_failure
from rlzoo.envs.vec_env.vec_env import NO_ENDS, Indices, StepArrays, VecEnv


class GymVectorEnv(VecEnv):
    """Adapts any `gymnasium.vector.VectorEnv`, however it resets.

    One that resets in the same step is used as it is. Of one that resets in the next step, or not at all, the
    environments whose episode ended are reset at once, with `reset(options={"reset_mask": ...})`, so that no
    step is spent on a reset. What can reset all environments or none is refused: its filler steps, in which
    some environments step and others reset, would have to be masked in every buffer and running statistic.

    :param env: the vector environment
    :raises UserError: a wrapper around it refuses to reset single environments
    """

    def __init__(self, env: gym.vector.VectorEnv) -> None:
        super().__init__(
            env.num_envs,
            env.single_observation_space,
            env.single_action_space,
            getattr(env, "render_mode", None),
        )
        self.env = env
        self._env_name = getattr(env.spec, "id", "?")
        self.metadata = dict(env.metadata)
        mode = self.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._same_step = AutoresetMode(mode) is AutoresetMode.SAME_STEP
        layer: Any = env
        while not self._same_step and isinstance(layer, gym.vector.VectorWrapper):
            if isinstance(layer, NormalizeObservation):  # nobody wants to learn that at the end of an episode
                raise UserError(
                    "gymnasium.wrappers.vector.NormalizeObservation cannot reset single environments; use"
                    " rlzoo.VecNormalize, or gymnasium.wrappers.NormalizeObservation around each environment"
                )
            layer = layer.env
        self._masks_proven = False  # whether a masked reset was seen to leave the other environments alone
        self._actions: Any = None
        self._steps_taken = -1  # -1: never reset

    def reset(self) -> Obs:
        seeds, options = zip(*self._take_seeds_and_options(), strict=True)
        if any(option != options[0] for option in options):
            raise UserError("a gymnasium.vector.VectorEnv takes the same reset options for all environments")
        seed = seeds[0]  # environment i gets seed + i, as `seed` has promised
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

    def wait_arrays(self) -> StepArrays:
        actions, self._actions = self._actions, None
        if actions is None:
            raise UserError("call step_async() before step_wait()")
        self._steps_taken += 1
        obs, rewards, terminated, truncated, infos = self._call("step", self.env.step, actions)
        rewards = np.asarray(rewards, dtype=np.float32)
        done = terminated | truncated
        if not done.any():
            env_infos = EnvInfos(infos, self.num_envs)
            return StepArrays(obs, rewards, terminated, truncated, NO_ENDS, None, env_infos)
        ended = np.flatnonzero(done)
        if self._same_step:
            final_obs = self._final_obs(infos, ended)
            final_info = infos.get("final_info", {})
            env_infos = EnvInfos(infos, self.num_envs, dict.fromkeys(ended.tolist(), final_info))
        else:
            final_obs = map_obs(lambda array: array[ended], obs)
            obs = self._reset_ended(obs, done, ended)
            env_infos = EnvInfos(infos, self.num_envs)
        return StepArrays(obs, rewards, terminated, truncated, ended, final_obs, env_infos)

    def _final_obs(self, infos: dict[str, Any], ended: np.ndarray) -> Obs:
        if "final_obs" not in infos:
            raise UserError(f"{self.env} resets in the same step, but its infos lack 'final_obs'")
        finals = infos["final_obs"]
        if isinstance(finals, np.ndarray) and finals.dtype == object:  # one observation per ended episode
            return stack_obs([finals[index] for index in ended.tolist()])
        return map_obs(lambda array: array[ended], finals)

    def _reset_ended(self, obs: Obs, done: np.ndarray, ended: np.ndarray) -> Obs:
        """Reset the environments in `ended`; `obs` with their first observations in place of the last."""
        before = copy_obs(obs)
        first, _ = self._call("reset", self.env.reset, options={"reset_mask": done.copy()})
        n_rows = len(next(iter(first.values())) if isinstance(first, dict) else first)
        if n_rows == self.num_envs:
            self._prove_masks(before, first, ~done)
            first = map_obs(lambda array: array[ended], first)
        merged = before
        if isinstance(merged, dict):
            for key, array in merged.items():
                array[ended] = first[key]
        else:
            merged[ended] = first
        return merged

    def _prove_masks(self, before: Obs, after: Obs, untouched: np.ndarray) -> None:
        """An environment that does not know `reset_mask` resets all of its environments without a word."""
        if self._masks_proven or not untouched.any():
            return
        pairs = (
            [(before[key], after[key]) for key in before] if isinstance(before, dict) else [(before, after)]
        )
        if not all(np.array_equal(one[untouched], other[untouched], equal_nan=False) for one, other in pairs):
            raise UserError(
                f"{self.env} cannot reset single environments (reset_mask); make it with"
                " autoreset_mode=SAME_STEP, or use make_vec_env"
            )
        self._masks_proven = True

    def _call(self, name: str, method: Any, *args: Any, **kwargs: Any) -> Any:
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

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        values = self.get_attr(attr_name)
        for index in self._get_indices(indices):
            values[index] = value
        self._sub_environments().set_attr(attr_name, values)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        chosen = self._get_indices(indices)
        if len(chosen) != self.num_envs:
            raise UserError("a gymnasium.vector.VectorEnv calls a method on all environments or none")
        return list(self._sub_environments().call(method_name, *method_args, **method_kwargs))

    def _sub_environments(self) -> Any:
        inner = self.env.unwrapped
        if not isinstance(inner, (gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv)):
            raise UserError(
                f"{inner} gives no access to its single environments; make_vec_env(..., backend='dummy') does"
            )
        return inner

    def get_images(self) -> Sequence[np.ndarray | None]:
        images: Any = self.env.render()
        return list(images) if images is not None else [None] * self.num_envs


class EnvInfos(Sequence[dict[str, Any]]):
    """Gymnasium's one dict of arrays, read as one dict per environment, each made when it is looked at.

    :param infos: arrays [n_envs, ...] by key; the bool array under `_<key>` says which environments have it
    :param final: for environments whose episode just ended, the dict of arrays to read instead
    """

    def __init__(
        self, infos: dict[str, Any], num_envs: int, final: dict[int, dict[str, Any]] | None = None
    ) -> None:
        self._infos = infos
        self._num_envs = num_envs
        self._final = final or {}

    def __len__(self) -> int:
        return self._num_envs

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(self._num_envs))]
        if not -self._num_envs <= index < self._num_envs:
            raise IndexError(index)
        index %= self._num_envs
        return _one_info(self._final.get(index, self._infos), index)


def _one_info(infos: dict[str, Any], index: int) -> dict[str, Any]:
    info = {}
    for key, value in infos.items():
        if key.startswith("_") or key in ("final_obs", "final_info"):
            continue
        has_key = infos.get(f"_{key}")
        if has_key is not None and not has_key[index]:
            continue
        info[key] = _one_info(value, index) if isinstance(value, dict) else value[index]
    return info

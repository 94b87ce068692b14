"""Observations and rewards scaled by what has been seen of them so far."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.core.observations import Obs, copy_obs
from rlzoo.core.running_statistics import RunningMeanStd
from rlzoo.core.spaces import is_image_space
from rlzoo.envs.vec_env.finite import check_finite
from rlzoo.envs.vec_env.vec_env import (
    StepArrays,
    VecEnv,
    VecEnvWrapper,
    unwrap_vec_wrapper,
    wrappers_of,
)
from rlzoo.envs.vec_wrappers.vec_normalize_pickle import is_pickle, read_pickled_statistics
from rlzoo.io.atomic import atomic_write
from rlzoo.io.npz import read_npz


def _is_bool(value: Any) -> bool:
    return type(value) in (bool, int) and value in (0, 1)


def _is_positive(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < math.inf


def _is_statistic(value: Any, may_be_negative: bool) -> bool:
    """Whether these are finite numbers."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return bool(np.isfinite(array).all() and (may_be_negative or (array >= 0).all()))


SETTINGS: dict[str, Callable[[Any], bool]] = {
    "training": _is_bool,
    "norm_obs": _is_bool,
    "norm_reward": _is_bool,
    "clip_obs": lambda value: value == math.inf or _is_positive(value),
    "clip_reward": lambda value: value == math.inf or _is_positive(value),
    "gamma": lambda value: value == 0 or _is_positive(value),
    "epsilon": lambda value: value == 0 or _is_positive(value),
    "norm_obs_keys": lambda value: isinstance(value, list) and all(isinstance(key, str) for key in value),
}
"""What a file holds besides the statistics, with what it may be."""


class VecNormalize(VecEnvWrapper):
    """Scales observations to mean 0 and variance 1, and rewards by the deviation of the discounted return.

    The results are float32. Statistics are of the raw observations, resets included, and of the raw rewards;
    each is kept only while it is normalised. The observations that end episodes are normalised too. An
    instance can be pickled without its environment: `set_venv` gives it one again. `old_obs`, `old_reward`
    and `old_final_obs` (as `StepArrays.final_obs`) are those of the last step before they were scaled, valid
    until the next step.

    :param venv: the vector environment, of Box observations or a Dict of them
    :param training: whether to go on learning the statistics
    :param norm_obs: whether to normalise observations
    :param norm_reward: whether to normalise rewards
    :param clip_obs: largest absolute value of a normalised observation
    :param clip_reward: largest absolute value of a normalised reward
    :param gamma: discount of the return that rewards are scaled by
    :param epsilon: added to variances, against division by zero
    :param norm_obs_keys: the keys of a Dict to normalise; None means all
    """

    def __init__(
        self,
        venv: VecEnv,
        training: bool = True,
        norm_obs: bool = True,
        norm_reward: bool = True,
        clip_obs: float = 10.0,
        clip_reward: float = 10.0,
        gamma: float = 0.99,
        epsilon: float = 1e-8,
        norm_obs_keys: Sequence[str] | None = None,
    ) -> None:
        self.training = training
        self.norm_obs = norm_obs
        self.norm_reward = norm_reward
        self.clip_obs = clip_obs
        self.clip_reward = clip_reward
        self.gamma = gamma
        self.epsilon = epsilon
        self.norm_obs_keys = None if norm_obs_keys is None else list(norm_obs_keys)
        self.obs_rms: Any = None  # a RunningMeanStd, or one per normalised key; None with norm_obs=False
        self.ret_rms = RunningMeanStd()
        self._attach(venv)
        if norm_obs:
            self.obs_rms = self._fresh_statistics()
        self._warn_of_scaling_twice()

    def __repr__(self) -> str:
        settings = ("norm_obs", "norm_reward", "training")
        shown = ", ".join(f"{name}={vars(self).get(name)}" for name in settings)
        return f"{type(self).__name__}({vars(self).get('venv')!r}, {shown})"

    def _warn_of_scaling_twice(self) -> None:
        inner: Any = self.venv
        while (inner := unwrap_vec_wrapper(inner, VecNormalize)) is not None:
            for name, what in {"norm_obs": "observations", "norm_reward": "rewards"}.items():
                if getattr(self, name) and getattr(inner, name):
                    warnings.warn(
                        f"VecNormalize around another one scales {what} twice, and replayed experience stays"
                        f" as the inner one scaled it when it was collected; set {name}=False in one of them",
                        stacklevel=3,
                    )
            inner = inner.venv

    def _attach(self, venv: VecEnv) -> None:
        super().__init__(venv, observation_space=self._normalized_space(venv.observation_space))
        self.returns = np.zeros(self.num_envs)  # discounted return of each episode so far
        self.old_obs: Obs = None
        self.old_final_obs: Obs | None = None
        self.old_reward = np.zeros(self.num_envs, dtype=np.float32)

    def _normalized_space(self, space: spaces.Space) -> spaces.Space:
        """Checks that `space` can be normalised; normalised images are no longer uint8 images."""
        if not self.norm_obs:
            if self.norm_obs_keys is not None:
                raise UserError("VecNormalize: norm_obs_keys has no effect with norm_obs=False")
            return space
        if isinstance(space, spaces.Dict):
            keys = list(space.spaces) if self.norm_obs_keys is None else self.norm_obs_keys
            for key in keys:
                if key not in space.spaces:
                    raise UserError(
                        f"VecNormalize: norm_obs_keys has {key!r}; the keys are {list(space.spaces)}"
                    )
                if not isinstance(space[key], spaces.Box):
                    raise UserError(
                        f"VecNormalize only supports Box spaces, and {key!r} is no Box but {space[key]};"
                        " explicitly pass the observation keys to normalise as norm_obs_keys"
                    )
            self._keys = keys
            parts = {key: self._scaled(part) if key in keys else part for key, part in space.spaces.items()}
            return spaces.Dict(parts)
        if self.norm_obs_keys is not None:
            raise UserError(f"VecNormalize: norm_obs_keys is applicable only to Dict spaces, not to {space}")
        if not isinstance(space, spaces.Box):
            raise UserError(
                f"VecNormalize only supports observations of Box spaces, not of {space}; set norm_obs=False"
            )
        return self._scaled(space)

    def _scaled(self, space: spaces.Space) -> spaces.Space:
        if not is_image_space(space):
            return space
        return spaces.Box(-self.clip_obs, self.clip_obs, space.shape, np.float32)

    def _fresh_statistics(self) -> RunningMeanStd | dict[str, RunningMeanStd]:
        space = self.observation_space
        if isinstance(space, spaces.Dict):
            return {key: RunningMeanStd(shape=space[key].shape or ()) for key in self._keys}
        return RunningMeanStd(shape=space.shape or ())

    def set_venv(self, venv: VecEnv) -> None:
        """Give an unpickled instance its environment.

        :raises UserError: it has one already, or the shapes of the observations differ from those learned
        """
        if "venv" in self.__dict__:
            raise UserError("this VecNormalize has an environment; make another VecNormalize for another one")
        state = self.state_dict()
        self._attach(venv)
        self.load_state_dict(state)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("venv", "returns", "old_obs", "old_final_obs", "old_reward"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def reset(self) -> Obs:
        obs = self.venv.reset()
        self.old_obs, self.old_final_obs = obs, None
        self.returns[:] = 0.0
        if self.training and self.norm_obs:
            self._update_obs(obs)
        return self.normalize_obs(obs)

    def wrapper_state(self) -> dict[str, Any]:
        statistics = self.state_dict()
        return {"statistics": statistics, "returns": self.returns.copy(), "old_obs": copy_obs(self.old_obs)}

    def load_wrapper_state(self, state: dict[str, Any]) -> None:
        self.load_state_dict(state["statistics"])  # the reset before has added to them
        self.returns[:] = state["returns"]
        self.old_obs = copy_obs(state["old_obs"])

    def wait_arrays(self) -> StepArrays:
        step = self.venv.wait_arrays()
        self.old_obs, self.old_reward, self.old_final_obs = step.obs, step.rewards, step.final_obs
        if self.norm_obs:
            if self.training and (self._update_obs(step.obs) or len(step.ended)):
                self._check_finite(step)
            step.obs = self.normalize_obs(step.obs)
            if step.final_obs is not None:
                step.final_obs = self.normalize_obs(step.final_obs)
        if self.norm_reward:
            if self.training and self._update_reward(step.rewards):
                self._check_finite(step)
            step.rewards = self.normalize_reward(step.rewards)
            if len(step.ended):
                self.returns[step.ended] = 0.0
        return step

    def _check_finite(self, step: StepArrays) -> None:
        """Raise for an infinity here, since clipping would hide it from everybody else."""
        check_finite(step, getattr(self.venv.unwrapped, "_steps_taken", 0))

    def _update_obs(self, obs: Obs) -> int:
        """Update the statistics; returns how many samples they left out, as not finite."""
        if isinstance(self.obs_rms, dict):
            return sum(statistics.update(obs[key]) for key, statistics in self.obs_rms.items())
        return self.obs_rms.update(obs)  # type: ignore[no-any-return]

    def _update_reward(self, reward: np.ndarray) -> int:
        """Update the statistics; returns how many returns they left out, as not finite."""
        self.returns *= self.gamma
        self.returns += reward
        return self.ret_rms.update(self.returns)

    def normalize_obs(self, obs: Obs) -> Obs:
        """Observations (one or a batch) as the current statistics scale them, float32; learns nothing."""
        return self._with_statistics(self._normalized, obs)

    def _with_statistics(self, function: Callable[[np.ndarray, RunningMeanStd], np.ndarray], obs: Obs) -> Obs:
        """`function` of each array of `obs` that is normalised, and of its statistics."""
        if not self.norm_obs:
            return obs
        if isinstance(self.obs_rms, dict):
            return {
                key: function(value, self.obs_rms[key]) if key in self.obs_rms else value
                for key, value in obs.items()
            }
        return function(obs, self.obs_rms)

    def _normalized(self, obs: np.ndarray, statistics: RunningMeanStd) -> np.ndarray:
        scaled = obs - statistics.mean
        scaled /= np.sqrt(statistics.var + self.epsilon)
        np.minimum(scaled, self.clip_obs, out=scaled)
        np.maximum(scaled, -self.clip_obs, out=scaled)
        return scaled.astype(np.float32)

    def normalize_reward(self, reward: np.ndarray) -> np.ndarray:
        """Rewards [n] as the current statistics scale them, float32; learns nothing."""
        if not self.norm_reward:
            return reward
        scaled = reward / np.sqrt(self.ret_rms.var + self.epsilon)
        clipped: np.ndarray = np.minimum(np.maximum(scaled, -self.clip_reward), self.clip_reward)
        return clipped.astype(np.float32)

    def unnormalize_obs(self, obs: Obs) -> Obs:
        """What `normalize_obs` was given (as far as nothing was clipped), float32."""
        return self._with_statistics(self._unnormalized, obs)

    def _unnormalized(self, obs: np.ndarray, statistics: RunningMeanStd) -> np.ndarray:
        raw: np.ndarray = obs * np.sqrt(statistics.var + self.epsilon) + statistics.mean
        return raw.astype(np.float32)

    def unnormalize_reward(self, reward: np.ndarray) -> np.ndarray:
        """What `normalize_reward` was given (as far as nothing was clipped)."""
        return reward * np.sqrt(self.ret_rms.var + self.epsilon) if self.norm_reward else reward

    def get_original_obs(self) -> Obs:
        """A copy of the raw observations of the last step or reset."""
        return copy_obs(self.old_obs)

    def get_original_reward(self) -> np.ndarray:
        """A copy of the raw rewards of the last step."""
        return self.old_reward.copy()

    @property
    def ret(self) -> np.ndarray:
        """Discounted returns so far: the older name of `returns`."""
        return self.returns

    @property
    def old_rews(self) -> np.ndarray:
        """Raw rewards of the last step: the older name of `old_reward`."""
        return self.old_reward

    def _statistics(self) -> dict[str, RunningMeanStd]:
        """Every running statistic by its name in files."""
        named = {"ret_rms": self.ret_rms}
        if isinstance(self.obs_rms, dict):
            named |= {f"obs_rms.{key}": statistics for key, statistics in self.obs_rms.items()}
        elif self.obs_rms is not None:
            named["obs_rms"] = self.obs_rms
        return named

    def state_dict(self) -> dict[str, Any]:
        """`<name>.mean`, `.var` and `.count` of the statistics `ret_rms`, `obs_rms` or `obs_rms.<key>`."""
        return {
            f"{name}.{field}": np.array(getattr(statistics, field), dtype=np.float64)
            for name, statistics in self._statistics().items()
            for field in ("mean", "var", "count")
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over statistics.

        :raises UserError: they are of other keys or shapes than the observations
        """
        mine = self.state_dict()
        if set(state) != set(mine):
            differing = ", ".join(sorted(set(state) ^ set(mine)))
            raise UserError(f"these normalisation statistics are of another environment: {differing} differ")
        for name, value in state.items():
            if not _is_statistic(value, may_be_negative=name.endswith("mean")):
                raise UserError(f"these normalisation statistics are damaged: {name} is {str(value)[:60]}")
            if np.shape(value) != mine[name].shape:
                raise UserError(
                    f"these normalisation statistics are of another environment: {name} has shape"
                    f" {np.shape(value)}, the environment needs {mine[name].shape}"
                )
        for name, statistics in self._statistics().items():
            statistics.mean = np.array(state[f"{name}.mean"], dtype=np.float64)
            statistics.var = np.array(state[f"{name}.var"], dtype=np.float64)
            statistics.count = float(state[f"{name}.count"])

    def save(self, save_path: str | os.PathLike[str] | BinaryIO) -> None:
        """Write settings and statistics as an .npz file, under exactly this name."""
        settings = {name: getattr(self, name) for name in SETTINGS if getattr(self, name) is not None}
        content = {**settings, **self.state_dict()}
        if isinstance(save_path, (str, os.PathLike)):
            with atomic_write(save_path) as file:
                np.savez(file, **content)
        else:
            np.savez(save_path, **content)

    @staticmethod
    def load(load_path: str | os.PathLike[str] | BinaryIO, venv: VecEnv) -> VecNormalize:
        """A VecNormalize around `venv` with the settings and statistics that `save` wrote.

        :param load_path: also a file of stable-baselines3's VecNormalize, of which nothing is unpickled; for
            a missing `vecnormalize.pkl`, the `vecnormalize.npz` beside it
        :raises UserError: no such file, no file of ours, or of another environment
        """
        if isinstance(load_path, str | os.PathLike) and not os.path.exists(load_path):
            ours = Path(load_path).with_suffix(".npz")
            load_path = ours if Path(load_path).suffix == ".pkl" and ours.exists() else load_path
        if isinstance(load_path, str | os.PathLike) and is_pickle(load_path):
            content = read_pickled_statistics(load_path)
        else:
            content = read_npz(load_path, "VecNormalize statistics")
        settings = {name: np.asarray(content.pop(name)).tolist() for name in SETTINGS if name in content}
        for name, value in settings.items():
            if not SETTINGS[name](value):
                raise UserError(
                    f"{load_path} is damaged or no file of VecNormalize: {name} is {str(value)[:60]}"
                )
        normalize = VecNormalize(venv, **settings)
        normalize.load_state_dict(content)
        return normalize


def unwrap_vec_normalize(env: Any) -> VecNormalize | None:
    """Return the outermost VecNormalize of `env`, or None."""
    return unwrap_vec_wrapper(env, VecNormalize)


def sync_envs_normalization(env: VecEnv, eval_env: VecEnv) -> None:
    """Copy the running statistics of each VecNormalize of `env` to its counterpart in `eval_env`.

    :raises UserError: the environments do not have as many VecNormalize wrappers
    """
    source, target = ([w for w in wrappers_of(e) if isinstance(w, VecNormalize)] for e in (env, eval_env))
    if len(source) != len(target):
        raise UserError(
            f"the training environment has {len(source)} VecNormalize wrapper(s),"
            f" the evaluation environment {len(target)}"
        )
    for learned, copy in zip(source, target, strict=True):
        copy.load_state_dict(learned.state_dict())

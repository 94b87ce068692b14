"""Normalise observations and rewards with running statistics."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.core.observations import Obs, copy_obs, map_obs
from rlzoo.core.preprocessing import is_image_space
from rlzoo.core.running_statistics import RunningMeanStd
from rlzoo.core.signatures import is_own
from rlzoo.envs.vec_env.finite import check_finite
from rlzoo.envs.vec_env.vec_env import (
    State,
    VecEnv,
    VecEnvWrapper,
    VecStep,
    unwrap_vec_wrapper,
    wrappers_of,
)
from rlzoo.envs.vec_wrappers.vec_normalize_pickle import is_pickle, read_pickled_statistics
from rlzoo.io.atomic import atomic_write
from rlzoo.io.npz import read_npz


def _is_bool(value: object) -> bool:
    return type(value) in (bool, int) and value in (0, 1)


def _is_positive(value: object) -> bool:
    return type(value) in (int, float) and 0 < cast(float, value) < math.inf


def _is_statistic(value: object, may_be_negative: bool) -> bool:
    """Return whether these are finite numbers."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return bool(np.isfinite(array).all() and (may_be_negative or (array >= 0).all()))


SETTINGS: dict[str, Callable[[object], bool]] = {
    "training": _is_bool,
    "norm_obs": _is_bool,
    "norm_reward": _is_bool,
    "clip_obs": lambda value: value == math.inf or _is_positive(value),
    "clip_reward": lambda value: value == math.inf or _is_positive(value),
    "gamma": lambda value: value == 0 or _is_positive(value),
    "epsilon": lambda value: value == 0 or _is_positive(value),
    "norm_obs_keys": lambda value: isinstance(value, list) and all(isinstance(key, str) for key in value),
}
"""Settings in a file, each with a check of its value."""


class VecNormalize(VecEnvWrapper):
    """Scale observations to mean 0 and variance 1, and rewards by the standard deviation of the return.

    >>> venv = VecNormalize(make_vec_env("Pendulum-v1", n_envs=4))
    >>> venv.save("vecnormalize.npz")
    >>> eval_env = VecNormalize.load("vecnormalize.npz", make_vec_env("Pendulum-v1"))
    >>> eval_env.training = eval_env.norm_reward = False  # freeze the statistics; report raw rewards

    Normalised values are float32. Observation statistics are those of the raw observations, including first
    ones; reward statistics are those of the discounted return (Engstrom et al. 2020, "Implementation matters
    in deep policy gradients"), and are updated with `norm_reward=False`, too. Final observations of episodes
    are normalised, too. `raw_obs`, `raw_reward` and `raw_final_obs` (see `VecStep.final_obs`) are the
    unnormalised values of the last step; the next step overwrites them. Pickling leaves out the environment;
    `set_venv` sets it again.

    :param venv: a vectorised environment with Box observations, or a Dict of them
    :param training: whether to update the statistics
    :param norm_obs: whether to normalise observations
    :param norm_reward: whether to normalise rewards
    :param clip_obs: largest absolute value of a normalised observation
    :param clip_reward: largest absolute value of a normalised reward
    :param gamma: discount factor of the return
    :param epsilon: added to variances, to avoid division by zero
    :param norm_obs_keys: keys of Dict observations to normalise; None: all
    :raises UserError: observations that are not Box, or unknown `norm_obs_keys`
    """

    gather: Callable[[np.ndarray], np.ndarray] | None = None
    """Returns the rows of all ranks of a training, given those of this one; None in a single process."""

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
        self.obs_rms: RunningMeanStd | dict[str, RunningMeanStd] | None = None  # dict: one per key of a Dict
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
        inner = unwrap_vec_normalize(self.venv)
        while inner is not None:
            for name, what in {"norm_obs": "observations", "norm_reward": "rewards"}.items():
                if getattr(self, name) and getattr(inner, name):
                    warnings.warn(
                        f"VecNormalize around another one scales {what} twice, and replayed experience stays"
                        f" as the inner one scaled it when it was collected; set {name}=False in one of them",
                        stacklevel=3,
                    )
            inner = unwrap_vec_normalize(inner.venv)

    def _attach(self, venv: VecEnv) -> None:
        super().__init__(venv, observation_space=self._normalized_space(venv.observation_space))
        self.returns = np.zeros(self.num_envs)  # discounted returns of the current episodes, float64
        self.raw_obs: Obs = np.empty(0, np.float32)
        self.raw_final_obs: Obs | None = None
        self.raw_reward = np.zeros(self.num_envs, dtype=np.float32)

    def _normalized_space(self, space: spaces.Space) -> spaces.Space:
        """Return the space of normalised observations; raise if `space` cannot be normalised."""
        if not self.norm_obs:
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
        """Return the space of a normalised part: images become float32."""
        if not is_image_space(space):
            return space
        return spaces.Box(-self.clip_obs, self.clip_obs, space.shape, np.float32)

    def _fresh_statistics(self) -> RunningMeanStd | dict[str, RunningMeanStd]:
        space = self.observation_space
        if isinstance(space, spaces.Dict):
            return {key: RunningMeanStd(shape=space[key].shape or ()) for key in self._keys}
        return RunningMeanStd(shape=space.shape or ())

    def set_venv(self, venv: VecEnv) -> None:
        """Set the environment of an unpickled instance.

        :raises UserError: it has an environment, or the observations have other shapes than its statistics
        """
        if "venv" in self.__dict__:
            raise UserError("this VecNormalize has an environment; make another VecNormalize for another one")
        state = self.state_dict()
        self._attach(venv)
        self.load_state_dict(state)

    def __getstate__(self) -> dict[str, object]:
        state = self.__dict__.copy()
        for name in ("venv", "returns", "raw_obs", "raw_final_obs", "raw_reward"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)

    def reset(self) -> Obs:
        obs = self.venv.reset()
        self.raw_obs, self.raw_final_obs = obs, None
        self.returns[:] = 0.0
        if self.training and self.norm_obs:
            self._update_obs(obs)
        return self.normalize_obs(obs)

    def wrapper_state(self) -> State:
        statistics = self.state_dict()
        return {"statistics": statistics, "returns": self.returns.copy(), "raw_obs": copy_obs(self.raw_obs)}

    def load_wrapper_state(self, state: State) -> None:
        self.load_state_dict(state["statistics"])  # the reset before this call has updated them
        self.returns[:] = state["returns"]
        # "old_obs": the key in checkpoints of earlier versions
        self.raw_obs = copy_obs(state["raw_obs"] if "raw_obs" in state else state["old_obs"])

    def wait_arrays(self) -> VecStep:
        step = self.venv.wait_arrays()
        self.raw_obs, self.raw_reward, self.raw_final_obs = step.obs, step.rewards, step.final_obs
        if self.norm_obs:
            if self.training and (self._update_obs(step.obs) or len(step.ended)):
                self._check_finite(step)
            scale = self._in_place if is_own(type(self).normalize_obs) else self.normalize_obs
            step.obs = scale(step.obs)
            if step.final_obs is not None:
                step.final_obs = scale(step.final_obs)
        if self.training and self._update_reward(step.rewards):
            self._check_finite(step)
        if self.norm_reward:
            step.rewards = self.normalize_reward(step.rewards)
        if len(step.ended):
            self.returns[step.ended] = 0.0
        return step

    def _check_finite(self, step: VecStep) -> None:
        """Raise for values that are not finite: clipping would hide an infinity from later checks."""
        check_finite(step, self.venv.n_steps_taken())

    def _update_obs(self, obs: Obs) -> int:
        """Update the observation statistics; return the number of samples skipped as not finite."""
        if self.gather is not None:
            obs = map_obs(self.gather, obs)
        if isinstance(self.obs_rms, dict):
            parts = cast("dict[str, np.ndarray]", obs)
            return sum(statistics.update(parts[key]) for key, statistics in self.obs_rms.items())
        assert self.obs_rms is not None
        return self.obs_rms.update(obs)  # type: ignore[arg-type]

    def _update_reward(self, reward: np.ndarray) -> int:
        """Update the return statistics; return the number of samples skipped as not finite."""
        self.returns *= self.gamma
        self.returns += reward
        return self.ret_rms.update(self.returns if self.gather is None else self.gather(self.returns))

    def normalize_obs(self, obs: Obs) -> Obs:
        """Return observations (one or a batch) normalised with the current statistics, as float32.

        What is not normalised is copied.
        """
        return self._in_place(copy_obs(obs))

    def _in_place(self, obs: Obs) -> Obs:
        """Return `normalize_obs`, but what is not normalised is not copied."""
        return self._with_statistics(self._normalize_obs, obs)

    def _with_statistics(self, function: Callable[[np.ndarray, RunningMeanStd], np.ndarray], obs: Obs) -> Obs:
        """Apply `function` to each array of `obs` that is normalised, with its statistics."""
        if not self.norm_obs:
            return obs
        if isinstance(self.obs_rms, dict):
            return {
                key: function(value, self.obs_rms[key]) if key in self.obs_rms else value
                for key, value in cast("dict[str, np.ndarray]", obs).items()
            }
        assert self.obs_rms is not None
        return function(obs, self.obs_rms)  # type: ignore[arg-type]

    def _normalize_obs(self, obs: np.ndarray, statistics: RunningMeanStd) -> np.ndarray:
        scaled = obs - statistics.mean
        scaled /= np.sqrt(statistics.var + self.epsilon)
        np.minimum(scaled, self.clip_obs, out=scaled)
        np.maximum(scaled, -self.clip_obs, out=scaled)
        return scaled.astype(np.float32)

    def normalize_reward(self, reward: np.ndarray) -> np.ndarray:
        """Return rewards [n] normalised with the current statistics, as float32."""
        if not self.norm_reward:
            return np.array(reward, dtype=np.float32)
        scaled = reward / np.sqrt(self.ret_rms.var + self.epsilon)
        clipped: np.ndarray = np.minimum(np.maximum(scaled, -self.clip_reward), self.clip_reward)
        return clipped.astype(np.float32)

    def unnormalize_obs(self, obs: Obs) -> Obs:
        """Invert `normalize_obs`, except for clipping; float32."""
        return self._with_statistics(self._unnormalize_obs, copy_obs(obs))

    def _unnormalize_obs(self, obs: np.ndarray, statistics: RunningMeanStd) -> np.ndarray:
        raw: np.ndarray = obs * np.sqrt(statistics.var + self.epsilon) + statistics.mean
        return raw.astype(np.float32)

    def unnormalize_reward(self, reward: np.ndarray) -> np.ndarray:
        """Invert `normalize_reward`, except for clipping."""
        return reward * np.sqrt(self.ret_rms.var + self.epsilon) if self.norm_reward else reward

    def get_original_obs(self) -> Obs:
        """Return a copy of the unnormalised observations of the last step or reset."""
        return copy_obs(self.raw_obs)

    def get_original_reward(self) -> np.ndarray:
        """Return a copy of the unnormalised rewards of the last step."""
        return self.raw_reward.copy()

    @property
    def ret(self) -> np.ndarray:
        """Stable Baselines' name of `returns`."""
        return self.returns

    @property
    def old_obs(self) -> Obs:
        """A copy of `raw_obs`, under its name in stable-baselines3."""
        return copy_obs(self.raw_obs)

    @property
    def old_reward(self) -> np.ndarray:
        """A copy of `raw_reward`, under its name in stable-baselines3."""
        return self.raw_reward.copy()

    @property
    def old_rews(self) -> np.ndarray:
        """A copy of `raw_reward`, under its name in Stable Baselines."""
        return self.raw_reward.copy()

    def _statistics(self) -> dict[str, RunningMeanStd]:
        """Return the running statistics by their names in files."""
        named = {"ret_rms": self.ret_rms}
        if isinstance(self.obs_rms, dict):
            named |= {f"obs_rms.{key}": statistics for key, statistics in self.obs_rms.items()}
        elif self.obs_rms is not None:
            named["obs_rms"] = self.obs_rms
        return named

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return `<name>.mean`, `.var` and `.count` of `ret_rms` and `obs_rms` (or each `obs_rms.<key>`)."""
        return {
            f"{name}.{field}": np.array(getattr(statistics, field), dtype=np.float64)
            for name, statistics in self._statistics().items()
            for field in ("mean", "var", "count")
        }

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Load statistics that `state_dict` returned.

        :raises UserError: they are damaged, or for observations with other keys or shapes
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
        """Write settings and statistics to an .npz file (no suffix is added to the name) or file object."""
        settings = {name: getattr(self, name) for name in SETTINGS if getattr(self, name) is not None}
        content = {**settings, **self.state_dict()}
        if isinstance(save_path, (str, os.PathLike)):
            with atomic_write(save_path) as file:
                np.savez(file, **content)
        else:
            np.savez(save_path, **content)

    @staticmethod
    def load(load_path: str | os.PathLike[str] | BinaryIO, venv: VecEnv) -> VecNormalize:
        """Return a VecNormalize around `venv` with the settings and statistics of a file.

        :param load_path: a file or file object that `save` wrote, or a .pkl file of stable-baselines3's
            VecNormalize, which is read without unpickling; if `<name>.pkl` is missing, `<name>.npz` is read
        :param venv: the vectorised environment to wrap
        :raises UserError: the file is missing, damaged, of another kind, or for other observations
        """
        if isinstance(load_path, str | os.PathLike) and not os.path.exists(load_path):
            npz = Path(load_path).with_suffix(".npz")
            load_path = npz if Path(load_path).suffix == ".pkl" and npz.exists() else load_path
        if isinstance(load_path, str | os.PathLike) and is_pickle(load_path):
            content = read_pickled_statistics(load_path)
        else:
            content = read_npz(load_path, "VecNormalize statistics")
        settings = {name: np.asarray(content.pop(name)).tolist() for name in SETTINGS if name in content}
        for name, value in settings.items():
            if not SETTINGS[name](value):
                raise UserError(
                    f"{load_path} is damaged or not a file of VecNormalize: {name} is {str(value)[:60]}"
                )
        switched_off = not settings.get("norm_obs", True) and any(
            name.startswith("obs_rms") for name in content
        )
        if switched_off:  # after its statistics were gathered
            settings["norm_obs"] = True
        normalize = VecNormalize(venv, **settings)
        normalize.load_state_dict(content)
        normalize.norm_obs = normalize.norm_obs and not switched_off
        return normalize


def unwrap_vec_normalize(env: object) -> VecNormalize | None:
    """Return the outermost VecNormalize around (or being) `env`, or None."""
    return unwrap_vec_wrapper(env, VecNormalize)


def sync_envs_normalization(env: VecEnv, eval_env: VecEnv) -> None:
    """Copy the running statistics of each VecNormalize of `env` to its counterpart in `eval_env`.

    Where one of both does not normalise observations, those of the return alone.

    :raises UserError: the environments have different numbers of VecNormalize wrappers
    """
    source, target = ([w for w in wrappers_of(e) if isinstance(w, VecNormalize)] for e in (env, eval_env))
    if len(source) != len(target):
        raise UserError(
            f"the training environment has {len(source)} VecNormalize wrapper(s),"
            f" the evaluation environment {len(target)}"
        )
    for original, copy in zip(source, target, strict=True):
        state = original.state_dict()
        if original.obs_rms is None or copy.obs_rms is None:
            state = copy.state_dict() | {name: v for name, v in state.items() if name.startswith("ret_rms")}
        copy.load_state_dict(state)

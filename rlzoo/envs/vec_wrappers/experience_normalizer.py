"""Convert between raw experience, from before a VecNormalize, and normalised experience as the agent sees it.

Replay buffers and trajectories store raw experience and normalise it with the current statistics when they
sample. This requires that the effect of every wrapper around the VecNormalize is known: it is for the
wrappers of this package, and for users' wrappers that override neither steps nor resets.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

import numpy as np
from gymnasium import spaces

from rlzoo.core.observations import Obs
from rlzoo.envs.vec_env.vec_env import VecEnv, VecEnvWrapper, VecStep, wrappers_of
from rlzoo.envs.vec_wrappers.arranging_wrapper import ArrangingWrapper, only_rearranges
from rlzoo.envs.vec_wrappers.vec_check_nan import VecCheckNan
from rlzoo.envs.vec_wrappers.vec_monitor import VecMonitor
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize, unwrap_vec_normalize
from rlzoo.envs.vec_wrappers.vec_video_recorder import VecVideoRecorder

TRANSPARENT = (VecMonitor, VecCheckNan, VecVideoRecorder)
"""Wrappers that change neither observations nor rewards."""
STEP_METHODS = ("reset", "step_wait", "wait_arrays", "step", "step_arrays", "__getattribute__")


def is_transparent(wrapper: VecEnvWrapper) -> bool:
    """Return whether a wrapper is known to change neither observations nor rewards.

    This holds for a user's wrapper that overrides none of `STEP_METHODS`.
    """
    kind = type(wrapper)
    return kind in TRANSPARENT or all(
        getattr(kind, name) is getattr(VecEnvWrapper, name) for name in STEP_METHODS
    )


def is_plain_vec_normalize(wrapper: object) -> bool:
    """Return whether a wrapper is a VecNormalize, and not a subclass that overrides steps or resets."""
    kind = type(wrapper)
    return isinstance(wrapper, VecNormalize) and all(
        getattr(kind, name) is getattr(VecNormalize, name) for name in STEP_METHODS
    )


def vec_normalize_wrappers(venv: object) -> list[VecNormalize]:
    """Return every VecNormalize around (or being) `venv`, outermost first."""
    return [wrapper for wrapper in wrappers_of(venv) if isinstance(wrapper, VecNormalize)]


def _known_wrappers(venv: object) -> tuple[list[VecEnvWrapper], VecEnvWrapper | None]:
    """Return the wrappers with a known effect, outermost first, and the first wrapper that is not known."""
    known: list[VecEnvWrapper] = []
    for wrapper in wrappers_of(venv):
        if not (only_rearranges(wrapper) or is_plain_vec_normalize(wrapper) or is_transparent(wrapper)):
            return known, wrapper
        known.append(wrapper)
    return known, None


def unknown_wrapper(venv: object) -> VecEnvWrapper | None:
    """Return the outermost wrapper that may change normalised experience in an unknown way, or None.

    A subclass of VecNormalize that overrides steps or resets is such a wrapper, too.
    """
    known, unknown = _known_wrappers(venv)
    if unknown is None or any(isinstance(wrapper, VecNormalize) for wrapper in known):
        return None
    return None if unwrap_vec_normalize(unknown) is None else unknown


class ExperienceNormalizer:
    """Return raw observations and rewards of an environment, and normalise stored ones.

    Raw observations are not normalised, but rearranged as the agent sees them: images are transposed, frames
    stacked, and an entry of a Dict extracted. In raw frame stacks the frames before an episode are `MISSING`;
    the agent sees zeros.

    :param obs_normalizer: the VecNormalize of observations; None if they are not normalised
    :param reward_normalizer: the VecNormalize of rewards
    :param path: the wrappers around `obs_normalizer` that rearrange observations, innermost first
    """

    def __init__(
        self,
        obs_normalizer: VecNormalize | None,
        reward_normalizer: VecNormalize,
        path: list[ArrangingWrapper],
    ) -> None:
        self.obs_normalizer, self.reward_normalizer, self.path = obs_normalizer, reward_normalizer, path
        self.keys: set[str | None] = set()  # of the normalised parts of observations; None: the observation
        if obs_normalizer is not None:
            statistics = obs_normalizer.obs_rms
            self.keys = set(statistics) if isinstance(statistics, dict) else {None}
            for wrapper in path:
                self.keys = wrapper.arranged_keys(self.keys)
        if not self.keys:
            self.obs_normalizer, self.path = None, []
        self.stacks_frames = any(wrapper.stacks_frames for wrapper in self.path)

    @staticmethod
    def of(venv: object) -> ExperienceNormalizer | None:
        """Return the converter of `venv`; None if it has no VecNormalize, or none that can be undone."""
        known, _ = _known_wrappers(venv)
        normalizers = [wrapper for wrapper in known if isinstance(wrapper, VecNormalize)]
        if not normalizers:
            return None
        of_obs = next((wrapper for wrapper in normalizers if wrapper.norm_obs), None)
        of_rewards = next((wrapper for wrapper in normalizers if wrapper.norm_reward), normalizers[0])
        around = [] if of_obs is None else known[: known.index(of_obs)]
        path = [wrapper for wrapper in reversed(around) if isinstance(wrapper, ArrangingWrapper)]
        return ExperienceNormalizer(of_obs, of_rewards, path)

    def float64_dtypes(self) -> dict[str | None, type[np.float64]]:
        """Return np.float64 for each raw part that float32 would round, by key (None: the observation)."""
        if self.obs_normalizer is None:
            return {}
        raw = self.obs_normalizer.venv.observation_space
        parts: Mapping[str | None, spaces.Space] = (
            cast("dict[str | None, spaces.Space]", raw.spaces)
            if isinstance(raw, spaces.Dict)
            else {None: raw}
        )
        dtypes = {key: np.dtype(part.dtype) for key, part in parts.items()}
        for wrapper in self.path:
            dtypes = wrapper.arranged_dtypes(dtypes)
        return {key: np.float64 for key, dtype in dtypes.items() if key in self.keys and dtype == np.float64}

    # ---------------------------------------------------------------- the last step, unnormalised

    def raw_obs(self, shown: Obs) -> Obs:
        """Return the raw observations of the last step or reset (a view); `shown` is what the agent sees."""
        if self.obs_normalizer is None:
            return shown
        return self._arranged(self.obs_normalizer.raw_obs)

    def raw_step(self, result: VecStep) -> VecStep:
        """Return the last step with raw observations and rewards; `result` is what the agent sees."""
        if self.obs_normalizer is None:
            return replace(result, rewards=self.reward_normalizer.raw_reward)
        finals = self.obs_normalizer.raw_final_obs
        return replace(
            result,
            obs=self._arranged(self.obs_normalizer.raw_obs),
            rewards=self.reward_normalizer.raw_reward,
            final_obs=None if finals is None else self._arranged(finals, final=True),
        )

    def _arranged(self, obs: Obs, final: bool = False) -> Obs:
        """Rearrange raw observations of the last step; `final`: of the episodes that ended."""
        for wrapper in self.path:
            obs = wrapper.arranged_raw(obs, final)
        return obs

    # ---------------------------------------------------------------- stored experience

    def normalize_obs(self, obs: Obs) -> Obs:
        """Normalise raw observations [n, ...] with the current statistics."""
        if self.obs_normalizer is None:
            return obs
        return self._through(self.obs_normalizer.normalize_obs, obs, len(self.path))

    def unnormalize_obs(self, obs: Obs) -> Obs:
        """Invert `normalize_obs`, except for clipping."""
        if self.obs_normalizer is None:
            return obs
        return self._through(self.obs_normalizer.unnormalize_obs, obs, len(self.path))

    def normalize_reward(self, reward: np.ndarray) -> np.ndarray:
        """Normalise raw rewards [n] with the current statistics."""
        return self.reward_normalizer.normalize_reward(reward)

    def unnormalize_reward(self, reward: np.ndarray) -> np.ndarray:
        """Invert `normalize_reward`, except for clipping."""
        return self.reward_normalizer.unnormalize_reward(reward)

    def _through(self, function: Callable[[Obs], Obs], obs: Obs, depth: int) -> Obs:
        """Apply a function of the VecNormalize to observations that `depth` wrappers have rearranged."""
        if depth == 0:
            return function(obs)
        return self.path[depth - 1].apply_inside(lambda inner: self._through(function, inner, depth - 1), obs)


def warn_unknown_wrapper(wrapper: VecEnvWrapper, consequence: str) -> None:
    """Warn, once per wrapper object, that its effect on normalised experience is unknown."""
    if vars(wrapper).get("_warned_as_opaque"):
        return
    vars(wrapper)["_warned_as_opaque"] = True
    name = type(wrapper).__name__
    what, remedy = f"{name} around VecNormalize", "put VecNormalize outermost"
    if isinstance(wrapper, VecNormalize):
        what = f"{name}, a subclass of VecNormalize that overrides its steps or resets,"
        remedy = "move the change to a wrapper inside VecNormalize"
    warnings.warn(f"{what} may change observations or rewards: {consequence}; {remedy}", stacklevel=4)


def normalizes(venv: VecEnv | None, what: str) -> bool:
    """Return whether any VecNormalize of `venv` has `what` set, which is "norm_obs" or "norm_reward"."""
    return any(getattr(normalize, what) for normalize in vec_normalize_wrappers(venv))

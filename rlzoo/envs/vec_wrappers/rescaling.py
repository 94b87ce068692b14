"""Experience as it was before a VecNormalize scaled it, and as the agent sees it with present statistics.

What is stored for later (replay buffers, trajectories) is stored raw and scaled when it is drawn. That is
right only if what the wrappers around the VecNormalize do is known; each wrapper of this package is, and a
user's where it changes no step.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces

from rlzoo.core.observations import Obs
from rlzoo.envs.vec_env.vec_env import StepArrays, VecEnv, VecEnvWrapper
from rlzoo.envs.vec_wrappers.vec_check_nan import VecCheckNan
from rlzoo.envs.vec_wrappers.vec_extract_dict_obs import VecExtractDictObs
from rlzoo.envs.vec_wrappers.vec_frame_stack import VecFrameStack
from rlzoo.envs.vec_wrappers.vec_monitor import VecMonitor
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize, unwrap_vec_normalize
from rlzoo.envs.vec_wrappers.vec_transpose import VecTransposeImage
from rlzoo.envs.vec_wrappers.vec_video_recorder import VecVideoRecorder

TRANSPARENT = (VecMonitor, VecCheckNan, VecVideoRecorder)
"""Wrappers that change neither observations nor rewards."""
ARRANGING = (VecTransposeImage, VecExtractDictObs, VecFrameStack)
"""Wrappers that arrange observations anew, without changing a number."""
STEPS = ("reset", "step_wait", "wait_arrays", "step", "step_arrays", "__getattribute__")


def is_transparent(wrapper: VecEnvWrapper) -> bool:
    """Return whether a wrapper is known to change neither observations nor rewards.

    A user's wrapper is, where it defines none of the methods that steps and resets go through.
    """
    kind = type(wrapper)
    return kind in TRANSPARENT or all(getattr(kind, name) is getattr(VecEnvWrapper, name) for name in STEPS)


def only_normalizes(wrapper: Any) -> bool:
    """Return whether a wrapper is a VecNormalize, and not of a subclass with steps or resets of its own."""
    kind = type(wrapper)
    return isinstance(wrapper, VecNormalize) and all(
        getattr(kind, name) is getattr(VecNormalize, name) for name in STEPS
    )


def vec_normalizers(venv: Any) -> list[VecNormalize]:
    """Return every VecNormalize around (or being) `venv`, outermost first."""
    found: list[VecNormalize] = []
    while (normalize := unwrap_vec_normalize(venv)) is not None:
        found.append(normalize)
        venv = normalize.venv
    return found


def _known_wrappers(venv: Any) -> tuple[list[VecEnvWrapper], VecEnvWrapper | None]:
    """Wrappers from outside in, up to the first that may change steps in any way; and that one."""
    known: list[VecEnvWrapper] = []
    while isinstance(venv, VecEnvWrapper):
        if not (type(venv) in ARRANGING or only_normalizes(venv) or is_transparent(venv)):
            return known, venv
        known.append(venv)
        venv = venv.venv
    return known, None


def opaque_wrapper(venv: Any) -> VecEnvWrapper | None:
    """Return the outermost wrapper around all VecNormalize that may change what these have scaled.

    A subclass of VecNormalize that steps or resets in its own way is such a wrapper itself.
    """
    known, unknown = _known_wrappers(venv)
    if unknown is None or any(isinstance(wrapper, VecNormalize) for wrapper in known):
        return None
    return None if unwrap_vec_normalize(unknown) is None else unknown


class Rescaling:
    """Raw observations and rewards below a VecNormalize, and the way from there to the agent.

    Raw observations are arranged as the agent sees them: images transposed, frames stacked, one entry of a
    Dict taken. In raw stacks `MISSING` stands for the frames before an episode, which the agent sees as 0.

    :param observations: the VecNormalize that scales observations, if any
    :param rewards: the VecNormalize that scales rewards
    :param path: the wrappers that arrange observations around `observations`, innermost first
    """

    def __init__(
        self, observations: VecNormalize | None, rewards: VecNormalize, path: list[VecEnvWrapper]
    ) -> None:
        self.observations, self.rewards, self.path = observations, rewards, path
        self.keys: set[str | None] = set()  # parts of the agent's observations that are scaled; None: all
        if observations is not None:
            scaled = observations.obs_rms
            self.keys = set(scaled) if isinstance(scaled, dict) else {None}
            for wrapper in path:
                if isinstance(wrapper, VecExtractDictObs):
                    self.keys = {None} if wrapper.key in self.keys else set()
        if not self.keys:
            self.observations, self.path = None, []
        self.of_stacks = any(isinstance(wrapper, VecFrameStack) for wrapper in self.path)

    @staticmethod
    def of(venv: Any) -> Rescaling | None:
        """How the agent sees `venv`; None where no VecNormalize can be undone."""
        known, _ = _known_wrappers(venv)
        normalizers = [wrapper for wrapper in known if isinstance(wrapper, VecNormalize)]
        if not normalizers:
            return None
        observations = next((one for one in normalizers if one.norm_obs), None)
        rewards = next((one for one in normalizers if one.norm_reward), normalizers[0])
        around = [] if observations is None else known[: known.index(observations)]
        return Rescaling(observations, rewards, [one for one in reversed(around) if type(one) in ARRANGING])

    def wide_parts(self) -> dict[str | None, Any]:
        """The dtype of raw parts that single precision would round, by key (None: the whole observation)."""
        if self.observations is None:
            return {}
        raw = self.observations.venv.observation_space
        parts: Any = raw.spaces if isinstance(raw, spaces.Dict) else {None: raw}
        dtypes: dict[str | None, Any] = {key: np.dtype(part.dtype) for key, part in parts.items()}
        for wrapper in self.path:
            if isinstance(wrapper, VecExtractDictObs):
                dtypes = {None: dtypes[wrapper.key]}
            elif isinstance(wrapper, VecFrameStack):  # MISSING needs a floating-point type
                dtypes = {key: np.result_type(dtype, np.float32) for key, dtype in dtypes.items()}
        wide = {key: dtype for key, dtype in dtypes.items() if key in self.keys}
        return {key: np.float64 for key, dtype in wide.items() if dtype == np.float64}

    # ------------------------------------------------------------------ raw experience

    def raw_obs(self, shown: Obs) -> Obs:
        """The present observations, `shown` as the agent sees them, before they were scaled; a view."""
        if self.observations is None:
            return shown
        return self._arranged(self.observations.old_obs, "raw_obs")

    def raw_step(self, result: StepArrays) -> StepArrays:
        """The step of which the agent sees `result`, before it was scaled."""
        if self.observations is None:
            return replace(result, rewards=self.rewards.old_reward)
        finals = self.observations.old_final_obs
        return replace(
            result,
            obs=self._arranged(self.observations.old_obs, "raw_obs"),
            rewards=self.rewards.old_reward,
            final_obs=None if finals is None else self._arranged(finals, "raw_final_obs"),
        )

    def _arranged(self, obs: Obs, stacks: str) -> Obs:
        """:param stacks: the attribute of a VecFrameStack that has them already"""
        for wrapper in self.path:
            if isinstance(wrapper, VecFrameStack):
                obs = getattr(wrapper, stacks)
            elif isinstance(wrapper, VecTransposeImage):
                obs = wrapper.transpose_observations(obs)
            elif isinstance(wrapper, VecExtractDictObs):
                obs = obs[wrapper.key]
        return obs

    # ------------------------------------------------------------------ as the agent sees it

    def normalize_obs(self, obs: Obs) -> Obs:
        """Raw observations [n, ...] as the agent would see them now."""
        if self.observations is None:
            return obs
        return self._through(self.observations.normalize_obs, obs, len(self.path))

    def unnormalize_obs(self, obs: Obs) -> Obs:
        """Raw observations of what the agent would see now."""
        if self.observations is None:
            return obs
        return self._through(self.observations.unnormalize_obs, obs, len(self.path))

    def normalize_reward(self, reward: np.ndarray) -> np.ndarray:
        """Raw rewards [n] as the agent would see them now."""
        return self.rewards.normalize_reward(reward)

    def unnormalize_reward(self, reward: np.ndarray) -> np.ndarray:
        """Raw rewards [n] of what the agent would see now."""
        return self.rewards.unnormalize_reward(reward)

    def _through(self, function: Callable[[Obs], Obs], obs: Obs, depth: int) -> Obs:
        """Apply a function of the VecNormalize to observations that `depth` wrappers have arranged."""
        if depth == 0:
            return function(obs)
        wrapper = self.path[depth - 1]

        def inside(arranged: Obs) -> Obs:
            return self._through(function, arranged, depth - 1)

        if isinstance(wrapper, VecFrameStack):
            return wrapper.by_frame(inside, obs)
        if isinstance(wrapper, VecExtractDictObs):
            return inside({wrapper.key: obs})[wrapper.key]
        assert isinstance(wrapper, VecTransposeImage)
        if not wrapper.image_space_keys:  # what is scaled is no image
            return inside(obs)
        turned = {key: np.moveaxis(obs[key], 1, -1) for key in wrapper.image_space_keys}
        return wrapper.transpose_observations(inside({**obs, **turned}))


def warn_of_opaque(wrapper: VecEnvWrapper, consequence: str) -> None:
    """Say once per wrapper object what follows from not knowing what it does to scaled experience."""
    if vars(wrapper).get("_warned_as_opaque"):
        return
    vars(wrapper)["_warned_as_opaque"] = True
    name = type(wrapper).__name__
    what, remedy = f"{name} around VecNormalize", "put VecNormalize outermost"
    if isinstance(wrapper, VecNormalize):
        what = f"{name}, a VecNormalize with steps of its own,"
        remedy = "put what it changes into a wrapper inside VecNormalize"
    warnings.warn(f"{what} may change observations or rewards: {consequence}; {remedy}", stacklevel=4)


def scales(venv: VecEnv | None, what: str) -> bool:
    """Return whether any VecNormalize of `venv` scales: `norm_obs` or `norm_reward`."""
    return any(getattr(normalize, what) for normalize in vec_normalizers(venv))

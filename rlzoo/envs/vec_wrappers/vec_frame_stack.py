"""Stack the last n observations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.core.observations import Obs, copy_obs
from rlzoo.core.preprocessing import MISSING, is_image_space
from rlzoo.envs.vec_env.vec_env import State, VecEnv, VecEnvWrapper, VecStep
from rlzoo.envs.vec_wrappers.arranging_wrapper import ArrangingWrapper, Dtypes
from rlzoo.envs.vec_wrappers.experience_normalizer import (
    ExperienceNormalizer,
    is_plain_vec_normalize,
    is_transparent,
)
from rlzoo.envs.vec_wrappers.frame_stack import FrameStack
from rlzoo.envs.vec_wrappers.stacked_observations import StackedObservations
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.envs.vec_wrappers.vec_transpose import VecTransposeImage

Parts: TypeAlias = dict[str | None, np.ndarray]
"""Arrays of an observation by key; under None, if it is one array."""


class VecFrameStack(ArrangingWrapper):
    """Stack the last `n_stack` observations; frames before the start of an episode are zero.

    >>> venv = VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=8), n_stack=4)
    >>> venv.observation_space.shape
    (84, 84, 4)

    If a VecNormalize inside normalises observations, `raw_obs` and `raw_final_obs` (see `VecStep.final_obs`)
    are the unnormalised stacks of the last step; the next step overwrites them. Their frames before an
    episode are `MISSING`. They are recorded from the first read of `raw_obs` on; older frames are
    unnormalised with the current statistics.

    :param venv: a vectorised environment with Box observations, or a Dict of them
    :param n_stack: number of observations in a stack
    :param channels_order: the axis to stack along, "first" or "last"; None: the channels of images, else
        the last axis; for Dict observations also a mapping with one of these per key
    :raises UserError: other observations, or an unknown order
    """

    stacks_frames = True

    def __init__(
        self, venv: VecEnv, n_stack: int, channels_order: str | Mapping[str, str | None] | None = None
    ) -> None:
        if n_stack < 1:
            raise UserError(f"n_stack must be at least 1, not {n_stack}")
        space = venv.observation_space
        self.n_stack = n_stack
        self.stacks: dict[str | None, FrameStack] = {}
        below = ExperienceNormalizer.of(venv)
        self._below = below if below is not None and below.keys else None
        if isinstance(space, spaces.Dict):
            for key, part in space.spaces.items():
                order = channels_order.get(key) if isinstance(channels_order, Mapping) else channels_order
                self.stacks[key] = self._stack(venv, key, part, order)
            stacked: spaces.Space = spaces.Dict({str(key): one.space for key, one in self.stacks.items()})
        elif isinstance(channels_order, Mapping):
            raise UserError(f"channels_order by key is for Dict observations, not for {space}")
        else:
            self.stacks[None] = self._stack(venv, None, space, channels_order)
            stacked = self.stacks[None].space
        self._raw_stacks: dict[str | None, FrameStack] = {}  # empty until `raw_obs` is read
        self._raw_obs: Obs = np.empty(0, np.float32)
        self.raw_final_obs: Obs | None = None
        super().__init__(venv, observation_space=stacked)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({vars(self).get('venv')!r}, n_stack={vars(self).get('n_stack')})"

    def _stack(self, venv: VecEnv, key: str | None, part: spaces.Space, order: str | None) -> FrameStack:
        scaled = self._below is not None and key in self._below.keys
        dtype = np.result_type(part.dtype, np.float32) if scaled and part.dtype is not None else None
        return FrameStack(part, venv.num_envs, self.n_stack, order, dtype)

    @property
    def stacked_obs(self) -> StackedObservations:
        """The stacks, with the API of stable-baselines3."""
        space = self.venv.observation_space
        return StackedObservations.of(self.stacks, self.n_stack, space, self.observation_space)

    @property
    def stackedobs(self) -> Obs:
        """The current stacks [n_envs, ...]."""
        return self.stacked_obs.stacked_obs

    @property
    def raw_obs(self) -> Obs:
        """The current stacks of unnormalised observations."""
        assert self._below is not None
        if not self._raw_stacks:
            self._start_raw_stacks(self._below)
        return self._raw_obs

    def _start_raw_stacks(self, below: ExperienceNormalizer) -> None:
        space, wide = self.venv.observation_space, below.float64_dtypes()
        shown = {key: stack.frames for key, stack in self.stacks.items()}
        rows = {key: frames.reshape(-1, *frames.shape[2:]) for key, frames in shown.items()}
        older = _parts(below.unnormalize_obs(_obs(rows)))
        now = {key: frames[:, -1] for key, frames in shown.items()}
        newest = _parts(below.raw_obs(_obs(now)))
        for key in below.keys:
            part = space[key] if isinstance(space, spaces.Dict) and key is not None else space
            order = "first" if self.stacks[key].axis == 0 else "last"
            dtype = wide.get(key, np.float32)
            stack = FrameStack(part, self.num_envs, self.n_stack, order, dtype, MISSING)
            stack.frames[...] = older[key].reshape(shown[key].shape)
            stack.frames[~shown[key].reshape(self.num_envs, self.n_stack, -1).any(axis=2)] = MISSING
            stack.frames[:, -1] = newest[key]
            self._raw_stacks[key] = stack
        stacks = {key: self._raw_stacks.get(key, stack).stacks() for key, stack in self.stacks.items()}
        self._raw_obs, self.raw_final_obs = _obs(stacks), None

    def reset(self) -> Obs:
        obs = self.venv.reset()
        shown = {key: self.stacks[key].reset(value) for key, value in _parts(obs).items()}
        if self._below is not None and self._raw_stacks:
            raw = _parts(self._below.raw_obs(obs))
            stacks = {key: stack.reset(raw[key]) for key, stack in self._raw_stacks.items()}
            self._raw_obs, self.raw_final_obs = _obs({**shown, **stacks}), None
        return copy_obs(_obs(shown))

    def wrapper_state(self) -> State | None:
        if self._raw_stacks:
            return None
        return {"frames": {key: stack.frames.copy() for key, stack in self.stacks.items()}}

    def load_wrapper_state(self, state: State) -> None:
        for key, stack in self.stacks.items():
            stack.frames[...] = state["frames"][key]

    def wait_arrays(self) -> VecStep:
        step = self.venv.wait_arrays()
        raw = self._below.raw_step(step) if self._below is not None and self._raw_stacks else None
        step.obs, step.final_obs = self._push(self.stacks, step, {}, {})
        if raw is not None:
            shown, finals = _parts(step.obs), _parts(step.final_obs)
            self._raw_obs, self.raw_final_obs = self._push(self._raw_stacks, raw, shown, finals)
        return step

    def _push(
        self, stacks: dict[str | None, FrameStack], step: VecStep, others: Parts, other_finals: Parts
    ) -> tuple[Obs, Obs | None]:
        """Add the observations of a step to stacks; return the stacks, and the final ones of episodes.

        :param others: the parts that `stacks` lacks
        :param other_finals: the same at the end of episodes
        """
        obs, finals = _parts(step.obs), _parts(step.final_obs)
        shown, ends = {**others}, {**other_finals}
        for key, stack in stacks.items():
            shown[key], final = stack.push(obs[key], step.ended, finals.get(key))
            if final is not None:
                ends[key] = final
        return _obs(shown), None if step.final_obs is None else _obs(ends)

    def arranged_dtypes(self, dtypes: Dtypes) -> Dtypes:
        return {key: np.result_type(dtype, np.float32) for key, dtype in dtypes.items()}  # for MISSING

    def arranged_raw(self, obs: Obs, final: bool) -> Obs:
        if not final:
            return self.raw_obs
        assert self.raw_final_obs is not None
        return self.raw_final_obs

    def apply_inside(self, function: Callable[[Obs], Obs], obs: Obs) -> Obs:
        """Apply a function of frames to the frames of stacks [n, ...]; `MISSING` frames become 0."""
        frames = {key: self.stacks[key].by_frame(value) for key, value in _parts(obs).items()}
        results = _parts(function(_obs(frames)))
        return _obs(
            {key: self.stacks[key].stacked(part, frames[key] == MISSING) for key, part in results.items()}
        )


def _parts(obs: Obs | None) -> Parts:
    """Return the arrays of an observation by key; none of None."""
    if obs is None:
        return {}
    return cast(Parts, obs if isinstance(obs, dict) else {None: obs})


def _obs(parts: Parts) -> Obs:
    """Invert `_parts`."""
    return parts[None] if None in parts else cast("dict[str, np.ndarray]", parts)


def n_stacked_frames(venv: VecEnv) -> int:
    """Return the number of frames stacked along the first axis of image observations; 1 without a stack.

    A VecFrameStack is only recognised if the wrappers around it leave its stacks unchanged.
    """
    space, n_transpositions = venv.observation_space, 0
    while isinstance(venv, VecEnvWrapper) and type(venv) is not VecFrameStack:
        normalizes_rewards_only = (
            isinstance(venv, VecNormalize) and is_plain_vec_normalize(venv) and not venv.norm_obs
        )
        if type(venv) is VecTransposeImage:
            n_transpositions += not venv.skip
        elif not (normalizes_rewards_only or is_transparent(venv)):
            return 1
        venv = venv.venv
    if type(venv) is not VecFrameStack or None not in venv.stacks or not is_image_space(space):
        return 1
    stack = venv.stacks[None]
    is_first = len(stack.space.shape) == 3 and (stack.axis + n_transpositions) % 3 == 0
    return venv.n_stack if is_first else 1

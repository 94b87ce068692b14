"""The last few observations as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.core.spaces import is_channels_first, is_image_space
from rlzoo.envs.obs_arrays import Obs
from rlzoo.envs.vec_env import StepArrays, VecEnv, VecEnvWrapper

TRANSPARENT = {"VecMonitor", "VecTransposeImage", "VecCheckNan", "VecVideoRecorder"}
"""Wrappers that show the stacks below them, at most with their axes in another order."""


class FrameStack:
    """The last `n_stack` observations of each environment, the newest at the end of the stacked axis.

    :param space: the space of one observation
    :param n_envs: number of environments
    :param n_stack: observations in a stack
    :param channels_order: axis to stack along: "first" or "last"; None: an image's channels, else the last
    """

    def __init__(self, space: spaces.Space, n_envs: int, n_stack: int, channels_order: str | None) -> None:
        if not isinstance(space, spaces.Box) or not space.shape:
            raise UserError(f"VecFrameStack needs observations of Box spaces, not {space}")
        if channels_order not in (None, "first", "last"):
            raise UserError(f"channels_order must be 'first', 'last' or None, not {channels_order!r}")
        first = channels_order == "first" or (
            channels_order is None and is_image_space(space) and is_channels_first(space)
        )
        axis = 0 if first else len(space.shape) - 1
        self.space = spaces.Box(
            np.concatenate([space.low] * n_stack, axis),
            np.concatenate([space.high] * n_stack, axis),
            dtype=np.dtype(space.dtype).type,
        )
        # Frames lie one behind the other in memory, however they are stacked: moving them is one plain copy.
        self._frames = np.zeros((n_envs, n_stack, *space.shape), dtype=space.dtype)
        axes = list(range(self._frames.ndim))
        axes.insert(axis + 1, axes.pop(1))
        self._axes = tuple(axes)

    def _stacked(self, frames: np.ndarray) -> np.ndarray:
        """[n, n_stack, ...] as [n, ...] with the frames along the stacked axis; a view where possible."""
        return frames.transpose(self._axes).reshape(len(frames), *self.space.shape)

    def reset(self, obs: np.ndarray) -> np.ndarray:
        """Begin every stack with one observation; what came before it is zero."""
        self._frames[...] = 0
        self._frames[:, -1] = obs
        return self._stacked(self._frames)

    def push(
        self, obs: np.ndarray, ended: np.ndarray, final_obs: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Add an observation to every stack; the stacks, and those that ended an episode [n_ended, ...]."""
        frames, finals = self._frames, None
        frames[:, :-1] = frames[:, 1:]
        if final_obs is not None:
            last = frames[ended]
            last[:, -1] = final_obs
            finals = self._stacked(last)
            frames[ended] = 0
        frames[:, -1] = obs
        return self._stacked(frames), finals


class VecFrameStack(VecEnvWrapper):
    """Stacks the last `n_stack` observations; at the start of an episode the missing ones are zero.

    :param venv: a vector environment with Box observations, or a Dict of them
    :param n_stack: observations in a stack
    :param channels_order: axis to stack along: "first" or "last"; None: an image's channels, else the last;
        for a Dict also one of these per key
    """

    def __init__(
        self, venv: VecEnv, n_stack: int, channels_order: str | Mapping[str, str | None] | None = None
    ) -> None:
        if n_stack < 1:
            raise UserError(f"n_stack must be at least 1, not {n_stack}")
        space = venv.observation_space
        self.n_stack = n_stack
        self.stacks: dict[str | None, FrameStack] = {}
        if isinstance(space, spaces.Dict):
            for key, part in space.spaces.items():
                order = channels_order.get(key) if isinstance(channels_order, Mapping) else channels_order
                self.stacks[key] = FrameStack(part, venv.num_envs, n_stack, order)
            stacked: spaces.Space = spaces.Dict({str(key): one.space for key, one in self.stacks.items()})
        elif isinstance(channels_order, Mapping):
            raise UserError(f"channels_order by key is for Dict observations, not for {space}")
        else:
            self.stacks[None] = FrameStack(space, venv.num_envs, n_stack, channels_order)
            stacked = self.stacks[None].space
        super().__init__(venv, observation_space=stacked)

    def reset(self) -> Obs:
        obs: Any = self.venv.reset()
        if isinstance(obs, dict):
            return {key: self.stacks[key].reset(value) for key, value in obs.items()}
        return self.stacks[None].reset(obs)

    def wait_arrays(self) -> StepArrays:
        step = self.venv.wait_arrays()
        if not isinstance(step.obs, dict):
            step.obs, step.final_obs = self.stacks[None].push(step.obs, step.ended, step.final_obs)
            return step
        finals = step.final_obs or {}
        pushed = {
            key: self.stacks[key].push(value, step.ended, finals.get(key)) for key, value in step.obs.items()
        }
        step.obs = {key: stacks for key, (stacks, _) in pushed.items()}
        if step.final_obs is not None:
            step.final_obs = {key: final for key, (_, final) in pushed.items()}
        return step


def n_stacked_frames(venv: VecEnv) -> int:
    """How many frames along the first axis make up an image observation of `venv`: 1 where it shows no stack.

    Only wrappers that leave a stack what it is may be around the VecFrameStack.
    """
    space = venv.observation_space
    while isinstance(venv, VecEnvWrapper) and not isinstance(venv, VecFrameStack):
        if type(venv).__name__ not in TRANSPARENT and getattr(venv, "norm_obs", True):
            return 1
        venv = venv.venv
    if not isinstance(venv, VecFrameStack) or None not in venv.stacks or not is_image_space(space):
        return 1
    frame = venv.venv.observation_space.shape or ()
    channels = min(frame[0], frame[-1]) if len(frame) == 3 else 0
    is_stack = space.shape is not None and space.shape[0] == channels * venv.n_stack
    return venv.n_stack if is_stack else 1

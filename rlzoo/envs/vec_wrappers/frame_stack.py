"""The last n observations of each environment, stacked along one axis."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import is_channels_first, is_image_space


def stacks_first(space: spaces.Box, channels_order: str | None) -> bool:
    """Return whether observations are stacked along the first axis, and not the last.

    :raises UserError: an unknown order
    """
    if channels_order not in (None, "first", "last"):
        raise UserError(f"channels_order must be 'first', 'last' or None, not {channels_order!r}")
    return channels_order == "first" or (
        channels_order is None and is_image_space(space) and is_channels_first(space)
    )


class FrameStack:
    """The last `n_stack` observations of each environment, the newest at the end of the stacked axis.

    :param space: the space of one observation
    :param n_envs: number of environments
    :param n_stack: number of observations in a stack
    :param channels_order: the axis to stack along, "first" or "last"; None: the channels of images, else last
    :param dtype: of the stacks; None: that of the space
    :param missing: value of the frames before the first observation of an episode
    """

    def __init__(
        self,
        space: spaces.Space,
        n_envs: int,
        n_stack: int,
        channels_order: str | None,
        dtype: npt.DTypeLike | None = None,
        missing: float = 0,
    ) -> None:
        if not isinstance(space, spaces.Box) or not space.shape:
            raise UserError(f"VecFrameStack needs observations of Box spaces, not {space}")
        self.first = stacks_first(space, channels_order)
        axis = 0 if self.first else len(space.shape) - 1
        self.space = spaces.Box(
            np.concatenate([space.low] * n_stack, axis),
            np.concatenate([space.high] * n_stack, axis),
            dtype=np.dtype(space.dtype).type,
        )
        # Frames are contiguous in memory, whatever the stacked axis, so that shifting them is one copy.
        self.frames = np.full((n_envs, n_stack, *space.shape), missing, dtype=dtype or space.dtype)
        self._missing = missing
        axes = list(range(self.frames.ndim))
        axes.insert(axis + 1, axes.pop(1))
        self._axes = tuple(axes)
        self.axis = axis

    def _stacked(self, frames: np.ndarray) -> np.ndarray:
        """Join frames [n, n_stack, ...] along the stacked axis to [n, ...]; a view if possible."""
        return frames.transpose(self._axes).reshape(len(frames), *self.space.shape)

    def by_frame(self, stacks: np.ndarray) -> np.ndarray:
        """Split stacks [n, ...] into frames [n * n_stack, ...]."""
        n_stack, frame = self.frames.shape[1], self.frames.shape[2:]
        split = stacks.reshape(len(stacks), *frame[: self.axis], n_stack, *frame[self.axis :])
        return np.moveaxis(split, self.axis + 1, 1).reshape(-1, *frame)

    def stacked(self, frames: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """Join frames [n * n_stack, ...] to stacks [n, ...], with zeros where `missing` (of that shape)."""
        if missing.any():
            frames = np.where(missing, frames.dtype.type(0), frames)
        return self._stacked(frames.reshape(-1, *self.frames.shape[1:]))

    def stacks(self) -> np.ndarray:
        """Return the current stacks [n_envs, ...]."""
        return self._stacked(self.frames)

    def reset(self, obs: np.ndarray) -> np.ndarray:
        """Start every stack with one observation; the frames before it are `missing`."""
        self.frames[...] = self._missing
        self.frames[:, -1] = obs
        return self._stacked(self.frames)

    def push(
        self, obs: np.ndarray, ended: np.ndarray, final_obs: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Add an observation to every stack; return the stacks, and the final ones [n_ended, ...]."""
        frames, finals = self.frames, None
        frames[:, :-1] = frames[:, 1:]
        if final_obs is not None:
            last = frames[ended]
            last[:, -1] = final_obs
            finals = self._stacked(last)
            frames[ended] = self._missing
        frames[:, -1] = obs
        return self._stacked(frames), finals

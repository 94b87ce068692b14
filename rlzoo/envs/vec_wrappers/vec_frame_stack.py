"""The last few observations as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.core.observations import Obs, copy_obs
from rlzoo.core.spaces import MISSING, is_channels_first, is_image_space
from rlzoo.envs.vec_env.vec_env import StepArrays, VecEnv, VecEnvWrapper
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.envs.vec_wrappers.vec_transpose import VecTransposeImage

if TYPE_CHECKING:
    from rlzoo.envs.vec_wrappers.stacked_observations import StackedObservations


def stacks_first(space: spaces.Box, channels_order: str | None) -> bool:
    """Whether the first axis is the one to stack along, and not the last.

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
    :param n_stack: observations in a stack
    :param channels_order: axis to stack along: "first" or "last"; None: an image's channels, else the last
    :param dtype: of the stacks, where not that of the space
    :param missing: stands for what came before the first observation of an episode
    """

    def __init__(
        self,
        space: spaces.Space,
        n_envs: int,
        n_stack: int,
        channels_order: str | None,
        dtype: Any = None,
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
        # Frames lie one behind the other in memory, however they are stacked: moving them is one plain copy.
        self.frames = np.full((n_envs, n_stack, *space.shape), missing, dtype=dtype or space.dtype)
        self._missing = missing
        axes = list(range(self.frames.ndim))
        axes.insert(axis + 1, axes.pop(1))
        self._axes = tuple(axes)
        self.axis = axis

    def _stacked(self, frames: np.ndarray) -> np.ndarray:
        """[n, n_stack, ...] as [n, ...] with the frames along the stacked axis; a view where possible."""
        return frames.transpose(self._axes).reshape(len(frames), *self.space.shape)

    def by_frame(self, stacks: np.ndarray) -> np.ndarray:
        """Stacks [n, ...] as frames [n * n_stack, ...]."""
        n_stack, frame = self.frames.shape[1], self.frames.shape[2:]
        split = stacks.reshape(len(stacks), *frame[: self.axis], n_stack, *frame[self.axis :])
        return np.moveaxis(split, self.axis + 1, 1).reshape(-1, *frame)

    def stacked(self, frames: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """Frames [n * n_stack, ...] as stacks [n, ...], with zeros where `missing`, of the same shape."""
        if missing.any():
            frames = np.where(missing, frames.dtype.type(0), frames)
        return self._stacked(frames.reshape(-1, *self.frames.shape[1:]))

    def stacks(self) -> np.ndarray:
        """The present stacks [n_envs, ...]."""
        return self._stacked(self.frames)

    def reset(self, obs: np.ndarray) -> np.ndarray:
        """Begin every stack with one observation; what came before it is missing."""
        self.frames[...] = self._missing
        self.frames[:, -1] = obs
        return self._stacked(self.frames)

    def push(
        self, obs: np.ndarray, ended: np.ndarray, final_obs: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Add an observation to every stack; the stacks, and those that ended an episode [n_ended, ...]."""
        frames, finals = self.frames, None
        frames[:, :-1] = frames[:, 1:]
        if final_obs is not None:
            last = frames[ended]
            last[:, -1] = final_obs
            finals = self._stacked(last)
            frames[ended] = self._missing
        frames[:, -1] = obs
        return self._stacked(frames), finals


class VecFrameStack(VecEnvWrapper):
    """Stacks the last `n_stack` observations; at the start of an episode the missing ones are zero.

    Around a VecNormalize that scales observations, `raw_obs` and `raw_final_obs` (as `StepArrays.final_obs`)
    are the stacks of the last step before they were scaled, valid until the next step. There `MISSING`
    stands for the missing observations. They are kept from when `raw_obs` is first read; what is older is
    computed from the present statistics.

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
        from rlzoo.envs.vec_wrappers.rescaling import Rescaling

        space = venv.observation_space
        self.n_stack = n_stack
        self.stacks: dict[str | None, FrameStack] = {}
        below = Rescaling.of(venv)
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
        self._raw_stacks: dict[str | None, FrameStack] = {}  # kept from when they are first asked for
        self._raw_obs: Obs = None
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
        """The stacks as stable-baselines3 shows them."""
        from rlzoo.envs.vec_wrappers.stacked_observations import StackedObservations

        return StackedObservations.of(self)

    @property
    def stackedobs(self) -> Obs:
        """The present stacks [n_envs, ...]."""
        return self.stacked_obs.stacked_obs

    @property
    def raw_obs(self) -> Obs:
        """The present stacks before a VecNormalize scaled them."""
        assert self._below is not None
        if not self._raw_stacks:
            self._begin_raw_stacks(self._below)
        return self._raw_obs

    def _begin_raw_stacks(self, below: Any) -> None:
        space, wide = self.venv.observation_space, below.wide_parts()
        shown = {key: stack.frames for key, stack in self.stacks.items()}
        rows = {key: frames.reshape(-1, *frames.shape[2:]) for key, frames in shown.items()}
        like = rows if isinstance(space, spaces.Dict) else rows[None]
        older = dict(_items(below.unnormalize_obs(_by_key(like, rows))))
        now = {key: frames[:, -1] for key, frames in shown.items()}
        newest = dict(_items(below.raw_obs(_by_key(like, now))))
        for key in below.keys:
            part = space if key is None else space[key]  # type: ignore[index]
            order = "first" if self.stacks[key].axis == 0 else "last"
            dtype = wide.get(key, np.float32)
            stack = FrameStack(part, self.num_envs, self.n_stack, order, dtype, MISSING)
            stack.frames[...] = older[key].reshape(shown[key].shape)
            stack.frames[~shown[key].reshape(self.num_envs, self.n_stack, -1).any(axis=2)] = MISSING
            stack.frames[:, -1] = newest[key]
            self._raw_stacks[key] = stack
        stacks = {key: self._raw_stacks.get(key, stack).stacks() for key, stack in self.stacks.items()}
        self._raw_obs, self.raw_final_obs = _by_key(like, stacks), None

    def reset(self) -> Obs:
        obs: Any = self.venv.reset()
        shown = _by_key(obs, {key: self.stacks[key].reset(value) for key, value in _items(obs)})
        if self._below is not None and self._raw_stacks:
            raw = dict(_items(self._below.raw_obs(obs)))
            stacks = {key: stack.reset(raw[key]) for key, stack in self._raw_stacks.items()}
            self._raw_obs, self.raw_final_obs = _by_key(shown, {**dict(_items(shown)), **stacks}), None
        return copy_obs(shown)

    def wrapper_state(self) -> dict[str, Any] | None:
        if self._raw_stacks:
            return None
        return {"frames": {key: stack.frames.copy() for key, stack in self.stacks.items()}}

    def load_wrapper_state(self, state: dict[str, Any]) -> None:
        for key, stack in self.stacks.items():
            stack.frames[...] = state["frames"][key]

    def wait_arrays(self) -> StepArrays:
        step = self.venv.wait_arrays()
        raw = self._below.raw_step(step) if self._below is not None and self._raw_stacks else None
        step.obs, step.final_obs = self._push(self.stacks, step, {}, {})
        if raw is not None:
            shown, finals = dict(_items(step.obs)), dict(_items(step.final_obs))
            self._raw_obs, self.raw_final_obs = self._push(self._raw_stacks, raw, shown, finals)
        return step

    def _push(
        self, stacks: dict[str | None, FrameStack], step: StepArrays, others: Any, other_finals: Any
    ) -> tuple[Obs, Obs | None]:
        """Add the observations of a step to stacks; all stacks now, and those that ended an episode.

        :param others: stacks of the parts that `stacks` lacks, by key; `other_finals` at ends of episodes
        """
        obs, finals = dict(_items(step.obs)), dict(_items(step.final_obs))
        pushed = {key: stack.push(obs[key], step.ended, finals.get(key)) for key, stack in stacks.items()}
        shown = _by_key(step.obs, {**others, **{key: one for key, (one, _) in pushed.items()}})
        if step.final_obs is None:
            return shown, None
        ends = {**other_finals, **{key: final for key, (_, final) in pushed.items()}}
        return shown, _by_key(step.obs, ends)

    def by_frame(self, function: Callable[[Obs], Obs], obs: Obs) -> Obs:
        """Apply a function of single observations to those in stacks [n, ...]; missing ones become 0."""
        frames = {key: self.stacks[key].by_frame(value) for key, value in _items(obs)}
        result = _items(function(_by_key(obs, frames)))
        return _by_key(
            obs, {key: self.stacks[key].stacked(value, frames[key] == MISSING) for key, value in result}
        )


def _items(obs: Obs) -> Any:
    """The parts of a Dict observation by key; of another one itself, under None; of none nothing."""
    if obs is None:
        return ()
    return obs.items() if isinstance(obs, dict) else ((None, obs),)


def _by_key(like: Obs, parts: dict[Any, Any]) -> Obs:
    """An observation as `like`, a Dict or not, of its parts."""
    return parts if isinstance(like, dict) else parts[None]


def n_stacked_frames(venv: VecEnv) -> int:
    """How many frames along the first axis make up an image observation of `venv`: 1 where it shows no stack.

    Only wrappers that leave a stack what it is may be around the VecFrameStack.
    """
    from rlzoo.envs.vec_wrappers.rescaling import is_transparent, only_normalizes

    space = venv.observation_space
    while isinstance(venv, VecEnvWrapper) and type(venv) is not VecFrameStack:
        scales_rewards_only = isinstance(venv, VecNormalize) and only_normalizes(venv) and not venv.norm_obs
        if not (scales_rewards_only or type(venv) is VecTransposeImage or is_transparent(venv)):
            return 1
        venv = venv.venv
    if type(venv) is not VecFrameStack or None not in venv.stacks or not is_image_space(space):
        return 1
    frame = venv.venv.observation_space.shape or ()
    channels = min(frame[0], frame[-1]) if len(frame) == 3 else 0
    is_stack = space.shape is not None and space.shape[0] == channels * venv.n_stack
    return venv.n_stack if is_stack else 1

"""The effect of the environment's wrappers on observations, as layers of the exported policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rlzoo.algorithms.base import Algorithm
from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import MISSING
from rlzoo.envs.vec_env.vec_env import VecEnvWrapper
from rlzoo.envs.vec_wrappers.experience_normalizer import is_transparent
from rlzoo.envs.vec_wrappers.vec_frame_stack import VecFrameStack
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.envs.vec_wrappers.vec_transpose import VecTransposeImage

SINGLE = "observation"
"""Name of the input where observations are not a Dict."""


@dataclass(frozen=True)
class Scaling:
    """Statistics of VecNormalize for one array: (x - mean) / std, clipped to [-clip, clip].

    :ivar mean: float64, with the shape of the observation, like `std`
    """

    mean: np.ndarray
    std: np.ndarray
    clip: float

    def repeated(self, n_frames: int, axis: int) -> Scaling:
        """Return the statistics for a stack of frames along an axis."""
        mean, std = (np.concatenate([array] * n_frames, axis) for array in (self.mean, self.std))
        return Scaling(mean, std, self.clip)


@dataclass(frozen=True)
class Stack:
    """Frames of VecFrameStack in one array, the newest at the end of the axis.

    :ivar missing: value of the frames before the first one of an episode
    """

    n_frames: int
    axis: int
    missing: float


@dataclass
class Part:
    """One array of the observation, as the environment returns it.

    :ivar space: of the stacked array, before normalisation and transposition
    :ivar channels_last: the policy takes the image with its channels first
    """

    space: spaces.Space[object]
    scaling: Scaling | None = None
    stack: Stack | None = None
    channels_last: bool = False


def observation_parts(model: Algorithm) -> dict[str, Part]:
    """Return the arrays of an observation by name, with the effect of the environment's wrappers.

    Without an environment, the observation space is that of the model.

    :raises UserError: another wrapper changes normalised observations
    """
    reader = _WrapperReader(model.observation_space)
    env = model.env
    while isinstance(env, VecEnvWrapper):
        reader.read(env)
        env = env.venv
    return reader.parts()


class _WrapperReader:
    """Collect the effect of the wrappers, from the policy back to the environment."""

    def __init__(self, space: spaces.Space[object]) -> None:
        self.space = space  # below the wrappers read so far, stacked
        self.transposed: list[str] = []
        self.stacks: dict[str, Stack] = {}
        self.scalings: dict[str, Scaling] = {}
        self.unknown: VecEnvWrapper | None = None

    def read(self, wrapper: VecEnvWrapper) -> None:
        if isinstance(wrapper, VecNormalize) and wrapper.norm_obs:
            self._read_normalize(wrapper)
        elif self.unknown is not None or isinstance(wrapper, VecNormalize) or is_transparent(wrapper):
            return
        elif isinstance(wrapper, VecTransposeImage) and not self.scalings:
            if not wrapper.skip:
                self.transposed += wrapper.image_space_keys or [SINGLE]
            self.space = wrapper.venv.observation_space
        elif isinstance(wrapper, VecFrameStack) and not self.stacks:
            for key, stack in wrapper.stacks.items():
                self.stacks[key or SINGLE] = Stack(wrapper.n_stack, stack.axis, 0.0)
        else:
            self.unknown = wrapper

    def _read_normalize(self, wrapper: VecNormalize) -> None:
        if self.unknown is not None or self.scalings:
            outer = VecNormalize if self.unknown is None else type(self.unknown)
            raise UserError(
                f"cannot export an agent whose normalised observations go through {outer.__name__}:"
                " only frame stacking and VecTransposeImage may be around VecNormalize"
            )
        raw = wrapper.venv.observation_space
        assert wrapper.obs_rms is not None
        statistics = wrapper.obs_rms if isinstance(wrapper.obs_rms, dict) else {SINGLE: wrapper.obs_rms}
        for name, rms in statistics.items():
            scaling = Scaling(np.asarray(rms.mean), np.sqrt(rms.var + wrapper.epsilon), wrapper.clip_obs)
            if (stack := self.stacks.get(name)) is not None:
                scaling = scaling.repeated(stack.n_frames, stack.axis)
                self.stacks[name] = Stack(stack.n_frames, stack.axis, MISSING)
            self.scalings[name] = scaling
        if isinstance(self.space, spaces.Dict):
            dtypes = {key: part.dtype for key, part in raw.spaces.items()}  # type: ignore[attr-defined]
            parts = {key: _with_dtype(part, dtypes[key]) for key, part in self.space.spaces.items()}
            self.space = spaces.Dict(parts)
        else:
            self.space = _with_dtype(self.space, raw.dtype)
        if not self.stacks:
            self.space = raw

    def parts(self) -> dict[str, Part]:
        spaces_by_name = self.space.spaces if isinstance(self.space, spaces.Dict) else {SINGLE: self.space}
        return {
            name: Part(space, self.scalings.get(name), self.stacks.get(name), name in self.transposed)
            for name, space in spaces_by_name.items()
        }


def _with_dtype(space: spaces.Space[object], dtype: np.dtype[Any] | None) -> spaces.Space[object]:
    """Return the unbounded Box of the unnormalised observations."""
    if not isinstance(space, spaces.Box) or space.dtype == dtype:
        return space
    return spaces.Box(-np.inf, np.inf, space.shape, np.dtype(dtype).type)


class PreparePart(nn.Module):
    """Normalise and transpose one array [B, ...], as the wrappers of the environment do."""

    mean: Tensor
    std: Tensor

    def __init__(self, part: Part) -> None:
        super().__init__()
        scaling = part.scaling
        self.scales, self.clip = scaling is not None, 0.0 if scaling is None else float(scaling.clip)
        self.missing = part.stack is not None and part.stack.missing == MISSING
        self.channels_last = part.channels_last
        if scaling is not None:
            self.register_buffer("mean", torch.tensor(scaling.mean, dtype=torch.float64))
            self.register_buffer("std", torch.tensor(scaling.std, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        if self.scales:
            scaled = ((x.double() - self.mean) / self.std).clamp(-self.clip, self.clip)
            x = (scaled.masked_fill(x.double() == MISSING, 0.0) if self.missing else scaled).float()
        return x.movedim(-1, -3) if self.channels_last else x

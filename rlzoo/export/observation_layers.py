"""What the wrappers of an environment do to observations before a policy is given them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rlzoo.core.errors import UserError
from rlzoo.core.spaces import MISSING
from rlzoo.envs.vec_env.vec_env import VecEnvWrapper
from rlzoo.envs.vec_wrappers.experience_normalizer import is_transparent
from rlzoo.envs.vec_wrappers.vec_frame_stack import VecFrameStack
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.envs.vec_wrappers.vec_transpose import VecTransposeImage

SINGLE = "observation"
"""What the input is called where observations are no Dict."""


@dataclass(frozen=True)
class Scaling:
    """Statistics of VecNormalize for one array: (x - mean) / std, clipped to [-clip, clip].

    :ivar mean: float64, in the shape of the observation; so is `std`
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

    :ivar missing: what stands for the frames before the first one of an episode
    """

    n_frames: int
    axis: int
    missing: float


@dataclass
class Part:
    """One array of an observation, as it comes from the environment.

    :ivar space: before it is scaled and transposed, stacked
    :ivar channels_last: an image that the policy takes with its channels first
    """

    space: spaces.Space[Any]
    scaling: Scaling | None = None
    stack: Stack | None = None
    channels_last: bool = False


def observation_parts(model: Any) -> dict[str, Part]:
    """Return the arrays of an observation by name, and what the wrappers of the environment do to them.

    Without an environment, observations are those of the model's own space.

    :raises UserError: a wrapper does to normalised observations what an exported policy cannot know
    """
    reader = _WrapperReader(model.observation_space)
    env = model.env
    while isinstance(env, VecEnvWrapper):
        reader.read(env)
        env = env.venv
    return reader.parts()


class _WrapperReader:
    """Follows observations from a policy back to its environment, one wrapper after the other."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.space = space  # of what is read: below the wrappers so far, stacked
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


def _with_dtype(space: spaces.Space[Any], dtype: Any) -> spaces.Space[Any]:
    """A normalised Box with numbers as they were before, without bounds."""
    if not isinstance(space, spaces.Box) or space.dtype == dtype:
        return space
    return spaces.Box(-np.inf, np.inf, space.shape, np.dtype(dtype).type)


class PreparePart(nn.Module):
    """Scale and transpose one array [B, ...], as the wrappers of the environment do."""

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

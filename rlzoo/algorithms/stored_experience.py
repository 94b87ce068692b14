"""Storage of experience under VecNormalize: unnormalised wherever normalisation can be undone."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from rlzoo.buffers.stored import Stored
from rlzoo.core.preprocessing import is_image_space
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.experience_normalizer import (
    ExperienceNormalizer,
    normalizes,
    unknown_wrapper,
    warn_unknown_wrapper,
)
from rlzoo.envs.vec_wrappers.vec_normalize import unwrap_vec_normalize


def stored_experience(env: VecEnv | None, warn: bool = True) -> Stored:
    """Return whether experience of the environment is stored raw.

    :param warn: say so where it cannot be
    """
    opaque = unknown_wrapper(env)
    if opaque is None:
        normalizer = ExperienceNormalizer.of(env)
        return Stored("raw stacks" if normalizer is not None and normalizer.stacks_frames else "raw")
    stored = scaled_as_seen(env)
    if warn and stored != Stored():
        warn_unknown_wrapper(opaque, "experience is replayed as it was scaled when it was collected")
    return stored


def scaled_as_seen(env: VecEnv | None) -> Stored:
    """Return what is scaled of experience that is stored as the agent sees it."""
    by = {what: "scaled" if normalizes(env, what) else "raw" for what in ("norm_obs", "norm_reward")}
    return Stored(by["norm_obs"], by["norm_reward"])


def stored_by_older(env: VecEnv | None) -> Stored:
    """Return what replay buffers of earlier versions stored.

    It was raw where the outermost VecNormalize has the observation space of the agent.
    """
    normalize = unwrap_vec_normalize(env)
    if env is None or normalize is None or normalize.observation_space == env.observation_space:
        return Stored()
    return Stored("scaled" if normalize.norm_obs else "raw", "scaled" if normalize.norm_reward else "raw")


def stored_dtypes(env: VecEnv) -> dict[str | None, Any]:
    """Return the dtypes of parts of observations that are stored otherwise than their space says."""
    normalizer = ExperienceNormalizer.of(env)
    if normalizer is not None:
        return normalizer.float64_dtypes()
    if unknown_wrapper(env) is None or not normalizes(env, "norm_obs"):
        return {}
    space = env.observation_space
    parts: Any = space.spaces if isinstance(space, spaces.Dict) else {None: space}
    boxes = {key: part for key, part in parts.items() if isinstance(part, spaces.Box)}
    return {
        key: np.float32
        for key, part in boxes.items()
        if part.dtype.kind in "iu" and not is_image_space(part)  # normalised, it has integers no longer
    }

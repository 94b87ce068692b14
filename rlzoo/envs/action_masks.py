"""Which actions an environment allows: asked through every wrapper and vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlzoo.core.errors import UserError
from rlzoo.envs.vec_env import VecEnv

METHOD = "action_masks"
"""What environments call the method that tells their masks."""


def is_masking_supported(env: Any) -> bool:
    """Whether the environment, or each of a vector of them, can say which actions it allows."""
    if isinstance(env, VecEnv):
        return bool(env.has_attr(METHOD))
    try:
        return callable(env.get_wrapper_attr(METHOD))
    except AttributeError:
        return False


def get_action_masks(env: Any) -> np.ndarray:
    """What is allowed now: bool array [n_choices], for a vector [n_envs, n_choices].

    For MultiDiscrete the choices of all dimensions stand side by side; for MultiBinary each bit has two, no
    and yes.

    :raises UserError: the environment does not say
    """
    if not is_masking_supported(env):
        raise UserError(
            f"the environment has no {METHOD}() method: add one, or wrap the environment in ActionMasker"
        )
    if isinstance(env, VecEnv):
        return np.stack(env.env_method(METHOD)).astype(bool)
    return np.asarray(env.get_wrapper_attr(METHOD)(), bool)

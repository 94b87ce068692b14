"""The episodes in progress of environments, as far as a checkpoint can hold them."""

from __future__ import annotations

import warnings

from rlzoo.core.errors import UserError
from rlzoo.envs.single_env.env_failures import describe
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.io.encoding import pack


def savable_episodes(env: VecEnv) -> dict[str, object] | None:
    """Return the state of the episodes in progress; None where they cannot be saved and restored."""
    try:
        state = env.episode_state()
        pack(state)
    except UserError:  # it has other values than numbers, texts and arrays
        return None
    except Exception as error:
        warnings.warn(f"the episodes in progress are not saved: {describe(error)}", stacklevel=2)
        return None
    return state

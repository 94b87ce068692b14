"""Names of what `save` leaves out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

EXCLUDED = (
    "policy", "device", "env", "replay_buffer", "rollout_buffer", "_vec_normalize_env", "_episode_storage",
    "_logger", "_custom_logger",
)  # fmt: skip
"""Names that `_excluded_save_params` of stable-baselines3 gives, from which subclasses remove some."""


def left_out(own: Iterable[str], exclude: Any, include: Any) -> set[str]:
    """Return the names of hyperparameters and attributes that `save` leaves out.

    :param own: what `_excluded_save_params` of the agent gives
    :param exclude, include: arguments of `save`
    """
    return {*(exclude or ()), *set(own) - set(EXCLUDED)} - set(include or ())

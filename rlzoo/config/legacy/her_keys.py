"""Arguments of older HER replay buffers that have no effect."""

from __future__ import annotations

import warnings
from collections.abc import MutableMapping

HER_KEYS = {
    "online_sampling": "goals are always relabelled when a batch is sampled",
    "max_episode_length": "episodes may have any length",
}
"""Key -> why it is no longer needed."""


def pop_her_keys(values: MutableMapping[str, object]) -> list[str]:
    """Remove the keys without effect; return a sentence for each that was set."""
    found = [key for key in HER_KEYS if values.pop(key, None) is not None]
    return [f"{key} is no longer needed: {HER_KEYS[key]}" for key in found]


def drop_her_keys(values: MutableMapping[str, object]) -> None:
    """Remove the keys without effect, with one warning."""
    if notices := pop_her_keys(values):
        warnings.warn("; ".join(notices), stacklevel=3)

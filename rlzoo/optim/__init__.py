"""Optimisers and averages that torch lacks."""

from rlzoo.optim.polyak import polyak_update
from rlzoo.optim.rmsprop_tf import RMSpropTFLike

__all__ = ["RMSpropTFLike", "polyak_update"]

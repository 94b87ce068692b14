"""Build the error for NaN or infinite losses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rlzoo.core.errors import TrainingDiverged
from rlzoo.core.types import Metrics

if TYPE_CHECKING:
    from rlzoo.algorithms.base import Algorithm


def diverged(model: Algorithm, metrics: Metrics) -> TrainingDiverged:
    """Return the error for a model with a NaN or infinite loss or parameter: which, when, and what usually
    does it.

    :param metrics: of the last update, by name
    """
    bad = [name for name, value in metrics.items() if "loss" in name and not math.isfinite(float(value))]
    what = f"the {bad[-1].replace('_', ' ')}" if bad else "a parameter"
    suspects = ", ".join(
        f"{key} ({getattr(model.config, key)!r})"
        for key in model.divergence_suspects
        if hasattr(model.config, key)
    )
    unnormalised = "; unnormalised observations or rewards can do this too"
    hint = "" if model.get_vec_normalize_env() is not None else unnormalised
    return TrainingDiverged(
        f"{what} became NaN or infinite in update {model.counters.n_updates} "
        f"(step {model.counters.num_timesteps}); most likely at fault: {suspects}{hint}"
    )

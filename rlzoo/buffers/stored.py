"""Whether stored experience is raw or was scaled when it was collected, and how one becomes the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlzoo.core.errors import CheckpointError


@dataclass(frozen=True)
class Stored:
    """Whether stored experience is raw, or scaled by the statistics of the day when it was collected.

    :param observations: "raw", "scaled", or "raw stacks", in which NaN stands for missing frames
    :param rewards: "raw" or "scaled"
    """

    observations: str = "raw"
    rewards: str = "raw"

    def check_source(self, source: Stored) -> None:
        """:raises CheckpointError: experience that is stored as `source` says cannot be stored like this"""
        for what in ("observations", "rewards"):
            if getattr(self, what) == "scaled" != getattr(source, what):
                raise CheckpointError(
                    f"its {what} are from before VecNormalize, but a wrapper around VecNormalize may change"
                    " what the agent sees; put VecNormalize outermost"
                )

    def conversions(self, source: Stored, scaling: Any) -> tuple[Callable | None, Callable | None]:
        """Functions of observations and of rewards [n] that are stored as `source` says; None changes none.

        What was scaled when it was collected is taken to be scaled by the present statistics.

        :param scaling: a `Rescaling`, or None
        """
        of_obs = of_rewards = None
        if source.observations == "raw stacks" != self.observations:
            of_obs = _without_nan
        if scaling is not None and source.observations == "scaled" != self.observations:
            of_obs = scaling.unnormalize_obs
        if scaling is not None and source.rewards == "scaled" != self.rewards:
            of_rewards = scaling.unnormalize_reward
        return of_obs, of_rewards


def _without_nan(obs: Any) -> Any:
    if isinstance(obs, dict):
        return {key: _without_nan(rows) for key, rows in obs.items()}
    return np.nan_to_num(obs, nan=0.0) if obs.dtype.kind == "f" else obs

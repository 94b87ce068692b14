"""Whether stored experience is raw or was scaled when it was collected, and how one becomes the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rlzoo.core.errors import CheckpointError
from rlzoo.core.spaces import MISSING

Function: TypeAlias = "Callable[[Any], Any]"


@dataclass(frozen=True)
class Stored:
    """Whether stored experience is raw, or scaled by the statistics of the day when it was collected.

    :param observations: "raw", "scaled", or "raw stacks", with `MISSING` for missing frames
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

    def conversions(self, source: Stored, scaling: Any) -> tuple[Function | None, Function | None]:
        """Functions of observations and of rewards [n] that are stored as `source` says; None changes none.

        What was scaled when it was collected is taken to be scaled by the present statistics.

        :param scaling: a `ExperienceNormalizer`, or None
        """
        of_obs = of_rewards = None
        if source.observations == "raw stacks" != self.observations:
            of_obs = _without_missing
        if scaling is not None and source.observations == "scaled" != self.observations:
            of_obs = scaling.unnormalize_obs
        if scaling is not None and source.rewards == "scaled" != self.rewards:
            of_rewards = scaling.unnormalize_reward
        return of_obs, of_rewards


@dataclass(frozen=True)
class Conversion:
    """How experience in a file becomes what is stored.

    :param stored: what is stored
    :param older: what a file holds that does not say
    :param scaling: the `ExperienceNormalizer` of the environment, or None
    :param dtypes: of parts of observations by key (None: the whole), where not those of the file
    """

    stored: Stored
    older: Stored
    scaling: Any
    dtypes: Mapping[str | None, Any]

    def functions(self, source: Stored | None) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """What converts observations [n, ...], and what rewards [n], that are stored as `source` says.

        :raises CheckpointError: that cannot be done
        """
        source = source or self.older
        self.stored.check_source(source)
        of_obs, of_rewards = self.stored.conversions(source, self.scaling)

        def observations(obs: Any) -> Any:
            obs = obs if of_obs is None else of_obs(obs)
            if isinstance(obs, dict):
                return {key: rows.astype(self.dtypes.get(key, rows.dtype)) for key, rows in obs.items()}
            return obs.astype(self.dtypes.get(None, obs.dtype))

        return observations, of_rewards or (lambda rewards: rewards)


def _without_missing(obs: Any) -> Any:
    if isinstance(obs, dict):
        return {key: _without_missing(rows) for key, rows in obs.items()}
    return np.where(obs == MISSING, obs.dtype.type(0), obs)

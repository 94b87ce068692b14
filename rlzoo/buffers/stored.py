"""Conversion between raw and normalised stored experience."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rlzoo.buffers.base_buffer import Normalizer, Obs
from rlzoo.core.errors import CheckpointError
from rlzoo.core.preprocessing import MISSING

Function: TypeAlias = "Callable[[Obs], Obs]"


@dataclass(frozen=True)
class Stored:
    """Scaling of stored experience: raw, or normalised by the statistics at collection.

    :param observations: "raw", "scaled", or "raw stacks", with `MISSING` for missing frames
    :param rewards: "raw" or "scaled"
    """

    observations: str = "raw"
    rewards: str = "raw"

    def check_source(self, source: Stored) -> None:
        """Check that experience stored as `source` says can be converted to this.

        :raises CheckpointError: it cannot
        """
        for what in ("observations", "rewards"):
            if getattr(self, what) == "scaled" != getattr(source, what):
                raise CheckpointError(
                    f"its {what} are from before VecNormalize, but a wrapper around VecNormalize may change"
                    " what the agent sees; put VecNormalize outermost"
                )

    def conversions(
        self, source: Stored, scaling: Normalizer | None
    ) -> tuple[Function | None, Function | None]:
        """Return converters of observations and rewards [n] stored as `source` says; None: unchanged.

        Normalised experience is unnormalised with the current statistics.

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
    """Conversion of experience in a file to that of a buffer.

    :param stored: how the buffer stores it
    :param older: how files store it that do not say
    :param scaling: the `ExperienceNormalizer` of the environment, or None
    :param dtypes: of parts of observations by key (None: the whole), where not those of the file
    """

    stored: Stored
    older: Stored
    scaling: Normalizer | None
    dtypes: Mapping[str | None, npt.DTypeLike]

    def functions(self, source: Stored | None) -> tuple[Function, Function]:
        """Return the conversions of observations [n, ...] and rewards [n] stored as `source` says.

        :raises CheckpointError: that cannot be done
        """
        source = source or self.older
        self.stored.check_source(source)
        of_obs, of_rewards = self.stored.conversions(source, self.scaling)

        def observations(obs: Obs) -> Obs:
            obs = obs if of_obs is None else of_obs(obs)
            if isinstance(obs, dict):
                return {key: rows.astype(self.dtypes.get(key, rows.dtype)) for key, rows in obs.items()}
            return obs.astype(self.dtypes.get(None, obs.dtype))

        return observations, of_rewards or (lambda rewards: rewards)


def _without_missing(obs: Obs) -> Obs:
    if isinstance(obs, dict):
        return {key: _without_missing(rows) for key, rows in obs.items()}
    return np.where(obs == MISSING, obs.dtype.type(0), obs)

"""Wrappers that rearrange observations and leave their values as they are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypeAlias

import numpy as np

from rlzoo.core.observations import Obs
from rlzoo.envs.vec_env.vec_env import VecEnvWrapper

Dtypes: TypeAlias = dict[str | None, np.dtype]
"""Types of the parts of an observation by key; under None, if it is one array."""


class ArrangingWrapper(VecEnvWrapper):
    """Base class of wrappers that rearrange observations: `ExperienceNormalizer` sees through them.

    A subclass of such a wrapper may change observations, and is not seen through.
    """

    stacks_frames: ClassVar[bool] = False

    def arranged_keys(self, keys: set[str | None]) -> set[str | None]:
        """Return the keys of the same parts of a rearranged observation; None: an observation of one part."""
        return keys

    def arranged_dtypes(self, dtypes: Dtypes) -> Dtypes:
        """Return the types of rearranged raw observations from those inside."""
        return dtypes

    @abstractmethod
    def arranged_raw(self, obs: Obs, final: bool) -> Obs:
        """Rearrange raw observations of the last step.

        :param final: they are the final ones of the episodes that ended
        """

    @abstractmethod
    def apply_inside(self, function: Callable[[Obs], Obs], obs: Obs) -> Obs:
        """Apply a function of observations inside this wrapper to rearranged ones [n, ...]."""


def only_rearranges(wrapper: object) -> bool:
    """Return whether a wrapper is one of these classes, and not a subclass, which may override steps."""
    return ArrangingWrapper in type(wrapper).__bases__

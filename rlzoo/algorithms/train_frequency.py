"""Training frequency of off-policy algorithms: every n steps of each environment, or every n episodes."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from rlzoo.core.errors import UserError


class TrainFrequencyUnit(Enum):
    """What a `TrainFreq` counts."""

    STEP = "step"
    EPISODE = "episode"


class TrainFreq(NamedTuple):
    """Number of steps of each environment, or of episodes, between two rounds of updates."""

    frequency: int
    unit: TrainFrequencyUnit


class RolloutReturn(NamedTuple):
    """Outcome of a collection of experience.

    :param episode_timesteps: steps over all environments
    :param n_episodes: episodes that ended
    :param continue_training: False when a callback ended the training
    """

    episode_timesteps: int
    n_episodes: int
    continue_training: bool


def should_collect_more_steps(
    train_freq: TrainFreq, num_collected_steps: int, num_collected_episodes: int
) -> bool:
    """Return whether the next round of updates is not due yet.

    :raises UserError: for another unit than a `TrainFrequencyUnit`

    >>> should_collect_more_steps(TrainFreq(4, TrainFrequencyUnit.STEP), 3, 0)
    True
    """
    if train_freq.unit == TrainFrequencyUnit.STEP:
        return num_collected_steps < train_freq.frequency
    if train_freq.unit == TrainFrequencyUnit.EPISODE:
        return num_collected_episodes < train_freq.frequency
    raise UserError(
        f"the unit of train_freq must be TrainFrequencyUnit.STEP or TrainFrequencyUnit.EPISODE,"
        f" not {train_freq.unit!r}"
    )

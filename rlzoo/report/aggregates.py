"""What several training seeds say together: averages, and how far they can be trusted.

The interquartile mean and the percentile bootstrap over training runs are what Agarwal et al. (2021), "Deep
Reinforcement Learning at the Edge of the Statistical Precipice", recommend. Their library, rliable 1.2.0,
gives the same figures, but draws from NumPy's global generator whatever seed it is given, so that no table
could be made twice, and does not import beside pandas 3.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Values: TypeAlias = npt.NDArray[np.float64]
Interval: TypeAlias = "tuple[float, float]"

CONFIDENCE = 0.95
RESAMPLES = 10_000
RESAMPLING_SEED = 0
MIDDLE_HALF = 4
"""Of fewer values nothing can be cut off, and the interquartile mean is the mean."""


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """Figures of one value per training seed; what a single seed cannot tell is None."""

    mean: float
    std: float | None  # of the sample: the sum of squares is divided by n - 1
    median: float
    iqm: float
    mean_interval: Interval | None  # 95%
    iqm_interval: Interval | None


def aggregate(values: Sequence[float]) -> Aggregate:
    """Aggregate one value per training seed; their order does not matter.

    >>> aggregate([500.0, 488.0, 497.0]).mean
    495.0
    """
    several = len(values) > 1
    return Aggregate(
        mean=statistics.fmean(values),
        std=statistics.stdev(values) if several else None,
        median=float(statistics.median(values)),
        iqm=float(interquartile_mean(np.asarray(values, np.float64))),
        mean_interval=bootstrap_interval(values, lambda drawn: drawn.mean(axis=-1)) if several else None,
        iqm_interval=bootstrap_interval(values, interquartile_mean) if several else None,
    )


def interquartile_mean(values: Values) -> Any:
    """The mean of what is left when a quarter of the values, rounded down, is cut off at each end.

    :param values: [..., n]
    :return: [...]
    """
    n = values.shape[-1]
    return np.sort(values, axis=-1)[..., n // MIDDLE_HALF : n - n // MIDDLE_HALF].mean(axis=-1)


def bootstrap_interval(values: Sequence[float], statistic: Callable[[Values], Any]) -> Interval:
    """The percentile bootstrap interval of a statistic, the same at every call.

    Of three values or fewer it is their range: more than 2.5% of all resamples are three times the smallest.

    :param statistic: [n_resamples, n] -> [n_resamples]
    """
    # RandomState, because NumPy promises that its numbers never change
    chosen = np.random.RandomState(RESAMPLING_SEED).randint(len(values), size=(RESAMPLES, len(values)))
    drawn = statistic(np.sort(np.asarray(values, np.float64))[chosen])
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail))
    return float(low), float(high)

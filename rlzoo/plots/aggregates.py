"""Aggregates over training seeds and environments, with bootstrap intervals.

The interquartile mean (IQM), the optimality gap, performance profiles, the probability of improvement and the
stratified bootstrap over runs are those of Agarwal et al. (2021), "Deep Reinforcement Learning at the Edge of
the Statistical Precipice" (arXiv:2108.13264). Scores are arrays [n_runs, n_tasks]; a vector is the runs of
one task.

Their package, rliable 1.2.0, gives the same values, and the same intervals where NumPy's global generator was
seeded as ours is. It draws from that generator whatever `random_state` it is given, and does not import
beside pandas 3.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rlzoo.core.errors import UserError

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
    scores = np.asarray(values, np.float64)
    mean_interval = iqm_interval = None
    if several:
        mean_interval = _floats(bootstrap_interval(scores, lambda drawn: drawn.mean(axis=1)))
        iqm_interval = _floats(bootstrap_interval(scores, lambda drawn: iqm(drawn, axis=1)))
    return Aggregate(
        mean=statistics.fmean(values),
        std=statistics.stdev(values) if several else None,
        median=float(statistics.median(values)),
        iqm=float(iqm(scores)),
        mean_interval=mean_interval,
        iqm_interval=iqm_interval,
    )


def iqm(scores: npt.ArrayLike, axis: int | None = None) -> Any:
    """Compute the interquartile mean: the mean without a quarter of the values, rounded down, at each end.

    :param scores: of any shape
    :param axis: to average over; None: over all values, of all runs and tasks together
    :return: a float, or an array without that axis
    :raises UserError: there is no score

    >>> iqm([0.0, 1.0, 2.0, 90.0])
    1.5
    """
    values = np.asarray(scores, np.float64)
    if values.size == 0:
        raise UserError("the interquartile mean needs at least one score")
    values = np.sort(values.ravel() if axis is None else np.moveaxis(values, axis, -1), axis=-1)
    n = values.shape[-1]
    mean = values[..., n // MIDDLE_HALF : n - n // MIDDLE_HALF].mean(axis=-1)
    return float(mean) if np.ndim(mean) == 0 else mean


def median_of_tasks(scores: npt.ArrayLike) -> float:
    """Compute the median over the tasks of the mean over the runs.

    :param scores: [n_runs, n_tasks]
    """
    return float(np.median(as_matrix(scores).mean(axis=0)))


def optimality_gap(scores: npt.ArrayLike, gamma: float = 1.0) -> float:
    """Compute by how much runs miss `gamma` on average; what a run has above it does not count.

    :param scores: normalised, [n_runs, n_tasks]
    :param gamma: the score to reach

    >>> optimality_gap([0.5, 2.0])
    0.25
    """
    return float(gamma - np.minimum(np.asarray(scores, np.float64), gamma).mean())


def probability_of_improvement(scores_x: npt.ArrayLike, scores_y: npt.ArrayLike) -> float:
    """Compute the probability that a run of X beats a run of Y on the same task, averaged over the tasks.

    A tie counts one half: it is the Mann-Whitney U statistic divided by the number of pairs.

    :param scores_x: [n_runs_x, n_tasks]
    :param scores_y: [n_runs_y, n_tasks]
    :raises UserError: the numbers of tasks differ

    >>> probability_of_improvement([1.0, 3.0], [2.0, 0.0])
    0.75
    """
    x, y = as_matrix(scores_x), as_matrix(scores_y)
    if x.shape[1] != y.shape[1]:
        raise UserError(f"scores of {x.shape[1]} and of {y.shape[1]} tasks cannot be compared")
    pairs = (x[:, None] > y[None]) + 0.5 * (x[:, None] == y[None])  # [n_runs_x, n_runs_y, n_tasks]
    return float(pairs.mean())


def performance_profile(scores: npt.ArrayLike, thresholds: npt.ArrayLike) -> Values:
    """Compute the share of runs, of all tasks together, that score above each threshold.

    :param scores: [n_runs, n_tasks]
    :param thresholds: [n]
    :return: [n]
    """
    ordered = np.sort(np.asarray(scores, np.float64), axis=None)
    below: Values = np.searchsorted(ordered, np.asarray(thresholds, np.float64), side="right") / ordered.size
    return 1.0 - below


def stratified_bootstrap(
    scores: npt.ArrayLike | Sequence[npt.ArrayLike],
    statistic: Callable[..., npt.ArrayLike],
    n_resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = RESAMPLING_SEED,
) -> tuple[Values, Values]:
    """Compute the percentile bootstrap interval of a statistic; the runs of each task are drawn apart.

    The numbers are those of `rliable.library.get_interval_estimates` after `numpy.random.seed(seed)`. NumPy's
    global generator is neither used nor changed.

    :param scores: [n_runs, n_tasks, ...]; or a tuple of such arrays, which are resampled one by one and given
        to the statistic as so many arguments
    :param statistic: of the arrays: a number, or an array
    :return: lower and upper bound, of the shape of the statistic
    :raises UserError: `confidence` is not between 0 and 1

    >>> low, high = stratified_bootstrap([[0.0, 0.2], [0.4, 0.6]], iqm)
    """
    if not 0 < confidence < 1:
        raise UserError(f"the confidence of an interval must be between 0 and 1, not {confidence}")
    several = scores if isinstance(scores, tuple) else (scores,)
    samples = [as_matrix(values) for values in several]
    generator = np.random.RandomState(seed)  # NumPy promises that its numbers never change
    drawn = [
        np.asarray(statistic(*(_resample(values, generator) for values in samples)), np.float64)
        for _ in range(n_resamples)
    ]
    return _tails(np.stack(drawn), confidence)


def bootstrap_interval(
    values: npt.ArrayLike,
    statistic: Callable[[Values], Any],
    n_resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> tuple[Values, Values]:
    """Compute the percentile bootstrap interval of the runs of one task, the same at every call.

    Of three runs or fewer it is their range: more than 2.5% of all resamples are three times the smallest.

    :param values: [n_runs, ...]; each position behind the first axis, such as an evaluation, by itself
    :param statistic: of all resamples at once: [n_resamples, n_runs, ...] -> [n_resamples, ...]
    :return: lower and upper bound, [...]
    """
    ordered = np.sort(np.asarray(values, np.float64), axis=0)  # so that the order of the runs has no effect
    n = len(ordered)
    chosen = np.random.RandomState(RESAMPLING_SEED).randint(n, size=(n_resamples, n))
    return _tails(statistic(ordered[chosen]), confidence)


def as_matrix(scores: npt.ArrayLike) -> Values:
    """Return scores as [n_runs, n_tasks, ...]; a vector is the runs of one task.

    :raises UserError: there is no score
    """
    values = np.asarray(scores, np.float64)
    if values.size == 0 or values.ndim == 0:
        raise UserError(f"scores are arrays [n_runs, n_tasks], not of the shape {list(values.shape)}")
    return values[:, None] if values.ndim == 1 else values


def _resample(values: Values, generator: np.random.RandomState) -> Values:
    """Draw as many runs as there are, with replacement, for each task (and evaluation) by itself."""
    return np.take_along_axis(values, generator.randint(len(values), size=values.shape), axis=0)


def _tails(drawn: Values, confidence: float) -> tuple[Values, Values]:
    """Return what cuts off the same share at each end of the first axis."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail), axis=0)
    return low, high


def _floats(interval: tuple[Any, Any]) -> Interval:
    return float(interval[0]), float(interval[1])

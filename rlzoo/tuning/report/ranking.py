"""Ranking of trials that were retrained with new seeds."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rlzoo.io.atomic import atomic_write

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Ranked:
    """The mean return of one trial's trainings with its confidence interval."""

    trial: int
    mean: float  # NaN: no training finished
    low: float  # -inf and inf with one training
    high: float
    n: int  # trainings


def rank(results: Mapping[int, Sequence[float]]) -> list[Ranked]:
    """Rank trials by mean return, best first, with 95% confidence intervals (Student's t).

    :param results: number of the trial -> returns of its trainings
    """
    rows = [_interval(trial, np.asarray(returns, dtype=np.float64)) for trial, returns in results.items()]
    return sorted(rows, key=lambda row: (math.isnan(row.mean), -row.mean, row.trial))


def _interval(trial: int, returns: np.ndarray) -> Ranked:
    from scipy.special import stdtrit

    n = len(returns)
    if n == 0:
        return Ranked(trial, math.nan, -math.inf, math.inf, 0)
    mean = float(returns.mean())
    if n == 1:
        return Ranked(trial, mean, -math.inf, math.inf, 1)
    half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2) * returns.std(ddof=1) / math.sqrt(n))
    return Ranked(trial, mean, mean - half, mean + half, n)


def ranking_table(rows: Sequence[Ranked]) -> str:
    """Format the ranking as aligned text."""
    lines = [
        f"{'rank':>4}  {'trial':>5}  {'mean return':>12}  {'95% confidence interval':>27}  {'trainings':>9}"
    ]
    for place, row in enumerate(rows, 1):
        interval = f"{row.low:,.2f} to {row.high:,.2f}" if row.n > 1 else "-"
        mean = f"{row.mean:,.2f}" if row.n else "none yet"
        lines.append(f"{place:>4}  {row.trial:>5}  {mean:>12}  {interval:>27}  {row.n:>9}")
    return "\n".join(lines)


def write_ranking(rows: Sequence[Ranked], path: Path) -> None:
    """Write the ranking as CSV: rank, trial, mean, low, high, trainings; unknown values are empty."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("rank", "trial", "mean", "low", "high", "trainings"))
    for place, row in enumerate(rows, 1):
        figures = [value if math.isfinite(value) else "" for value in (row.mean, row.low, row.high)]
        writer.writerow((place, row.trial, *figures, row.n))
    with atomic_write(path) as file:
        file.write(text.getvalue().encode())

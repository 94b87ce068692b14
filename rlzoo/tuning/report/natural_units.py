"""Sampled parameters in natural units: `n_steps` for `log2(n_steps)`, `gamma` for `1 - gamma`."""

from __future__ import annotations

import math
import re

from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution

from rlzoo.tuning.report.study_results import range_text, text

MOST_TICKS = 9
Ticks = tuple[tuple[float, str], ...]


def natural_name(name: str) -> str:
    """Return the hyperparameter that a sampled parameter determines.

    >>> natural_name("log2(n_steps)"), natural_name("1 - gamma"), natural_name("ent_coef")
    ('n_steps', 'gamma', 'ent_coef')
    """
    match = re.fullmatch(r"log2\((.+)\)|1 - (.+)", name)
    return name if match is None else match[1] or match[2]


def natural_text(name: str, value: object) -> str:
    """Return the value of the hyperparameter as text, four digits of a float."""
    if name.endswith(" is") and value == "another":
        return "sampled"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if name.startswith("log2("):
            return text(2 ** int(value))
        if is_one_minus(name):
            return f"{1 - value:.6g}"
    return text(value)


def natural_range(name: str, distribution: BaseDistribution) -> str:
    """Return the range of the hyperparameter as text."""
    if name.startswith("log2(") and isinstance(distribution, IntDistribution):
        return f"{2**distribution.low:,} to {2**distribution.high:,}, powers of 2"
    if is_one_minus(name) and isinstance(distribution, FloatDistribution):
        return f"{1 - distribution.high:.6g} to {1 - distribution.low:.6g}, logarithmic in {name}"
    return range_text(distribution)


def is_one_minus(name: str) -> bool:
    """Return whether a parameter is the distance of the hyperparameter from 1."""
    return name.startswith("1 - ")


def natural_ticks(name: str, distribution: BaseDistribution) -> Ticks:
    """Return positions in the sampled unit and their labels; empty: no labels are needed."""
    if name.startswith("log2(") and isinstance(distribution, IntDistribution):
        return tuple(
            (tick, f"{2 ** int(tick):,}") for tick, _ in whole_ticks(distribution.low, distribution.high)
        )
    if is_one_minus(name) and isinstance(distribution, FloatDistribution) and distribution.low > 0:
        first, last = math.floor(math.log10(distribution.low)), math.ceil(math.log10(distribution.high))
        return tuple((10.0**power, f"{1 - 10.0**power:.6g}") for power in range(first, last + 1) if power < 0)
    return ()


def whole_ticks(low: float, high: float) -> Ticks:
    """Return at most `MOST_TICKS` integers from low to high, with their labels."""
    step = max(1, math.ceil((high - low) / (MOST_TICKS - 1)))
    return tuple((float(tick), f"{tick:,}") for tick in range(math.ceil(low), math.floor(high) + 1, step))

"""Normalised scores: what environments with returns of different sizes are aggregated by.

A score of 0 is that of a low reference, 1 that of a high one: (score - low) / (high - low). By default these
are random actions (benchmarks/random_scores.csv) and the best published score (reference_scores*.csv there)
or, where one of them is not known, the lowest and the highest evaluation of all runs that are compared.
Success rates are as they are.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np

from rlzoo.config.values_as_text import read_yaml
from rlzoo.core.errors import UserError
from rlzoo.plots.aggregates import (
    CONFIDENCE,
    RESAMPLES,
    Interval,
    Values,
    iqm,
    median_of_tasks,
    optimality_gap,
    stratified_bootstrap,
)
from rlzoo.plots.references import best_reference, random_score
from rlzoo.plots.results import Curve, Results

Choice: TypeAlias = "str | os.PathLike[str] | Mapping[str, tuple[float, float]]"
Estimates: TypeAlias = "dict[str, tuple[float, Interval | None]]"
CHOICES = ("auto", "published", "range", "none")
SAME_LENGTH = 0.01
"""Trainings that differ by less than this share are of the same length."""
METRICS = {
    "IQM": iqm,
    "median": median_of_tasks,
    "mean": lambda scores: float(np.mean(scores)),
    "optimality gap": optimality_gap,
}


@dataclass(frozen=True)
class Scale:
    """The scores of one environment that become 0 and 1, and where they are from."""

    low: float
    high: float
    kind: str
    source: str

    def __call__(self, scores: Values) -> Values:
        return (scores - self.low) / (self.high - self.low)


@dataclass(frozen=True, eq=False)
class NormalisedScores:
    """Normalised scores of the environments in which every algorithm has runs.

    :param final: by name: of the last evaluation, [n_runs, n_tasks]
    :param steps: where `curves` have their points, [n_points]: environment steps, or where environments have
        trainings of different lengths the share of the longest, in percent
    :param curves: by name: [n_runs, n_tasks, n_points]; of one that ended early the points until then
    """

    environments: list[str]
    scales: dict[str, Scale]
    final: dict[str, Values]
    steps: Values
    in_percent: bool
    curves: dict[str, Values]
    _aggregates: dict[float, dict[str, Estimates]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return list(self.final)

    def aggregates(self, confidence: float = CONFIDENCE) -> dict[str, Estimates]:
        """Compute IQM, median, mean and optimality gap of each name, once."""
        if confidence not in self._aggregates:
            self._aggregates[confidence] = {
                name: aggregates_of(values, confidence) for name, values in self.final.items()
            }
        return self._aggregates[confidence]

    @property
    def caption(self) -> str:
        """What 0 and 1 are, in a line; of environments with different references each kind with their ids."""
        kinds: dict[str, list[str]] = {}
        for environment, scale in self.scales.items():
            kinds.setdefault(scale.kind, []).append(environment)
        if len(kinds) == 1:
            return next(iter(kinds))
        return "; ".join(f"{kind} ({', '.join(found)})" for kind, found in kinds.items())


def normalise(results: Results, normalize: Choice = "auto") -> NormalisedScores:
    """Normalise scores, and put them into one array for each algorithm.

    Environments in which an algorithm has no runs are left out, and so are runs of an environment that has
    more of them than another; warnings say so.

    :param normalize: "auto", "published" (random actions and best published score), "range" (of all
        evaluations), "none", a YAML file `ENV: [low, high]`, or a mapping of that kind
    :raises UserError: a reference is missing, or no environment has runs of every algorithm
    """
    scales = scales_of(results, normalize)
    shared = [env for env in results.environments if len(results.of(env)) == len(results.names)]
    missing = [env for env in results.environments if env not in shared]
    if not shared:
        raise UserError(
            f"no environment has runs of all of {', '.join(results.names)}: they cannot be aggregated;"
            " choose with --keep-keys"
        )
    if missing:
        warnings.warn(f"not aggregated, for lack of runs: {', '.join(missing)}", stacklevel=2)
    curves = {name: [_curve(results, env, name) for env in shared] for name in results.names}
    n_runs = {name: min(len(curve.seeds) for curve in found) for name, found in curves.items()}
    for name, found in curves.items():
        if any(len(curve.seeds) > n_runs[name] for curve in found):
            warnings.warn(f"{name}: {n_runs[name]} runs of each environment are aggregated", stacklevel=2)
    final = {
        name: np.stack([scales[c.environment](c.final[: n_runs[name]]) for c in found], axis=1)
        for name, found in curves.items()
    }
    steps, in_percent, on_grid = _on_grid(curves, scales, n_runs)
    return NormalisedScores(shared, {env: scales[env] for env in shared}, final, steps, in_percent, on_grid)


def aggregates_of(scores: Values, confidence: float = CONFIDENCE) -> Estimates:
    """Compute IQM, median, mean and optimality gap of normalised scores, each with its interval.

    :param scores: [n_runs, n_tasks]
    :return: value and interval by the name of the aggregate; a single run has no interval
    """
    values = {metric: float(function(scores)) for metric, function in METRICS.items()}
    if len(scores) < 2:
        return {metric: (value, None) for metric, value in values.items()}
    low, high = stratified_bootstrap(
        scores, lambda drawn: [function(drawn) for function in METRICS.values()], RESAMPLES, confidence
    )
    bounds = zip(low.tolist(), high.tolist(), strict=True)
    return {metric: (values[metric], bound) for metric, bound in zip(METRICS, bounds, strict=True)}


def scales_of(results: Results, normalize: Choice = "auto") -> dict[str, Scale]:
    """Return what becomes 0 and 1 in each environment.

    :raises UserError: a reference is missing, or two are equal
    """
    given: Mapping[str, tuple[float, float]] | None = None
    if isinstance(normalize, Mapping):
        given = normalize
    elif str(normalize) not in CHOICES:
        given = _read_scales(Path(normalize))
    if given is None:
        return {env: _chosen_scale(results, env, str(normalize)) for env in results.environments}
    kind = "0 and 1 = given references"
    for environment in results.environments:
        if environment not in given:
            raise UserError(f"--normalize: there are no references for {environment}")
    return {env: Scale(*_checked(env, given[env]), kind, "given") for env in results.environments}


def _chosen_scale(results: Results, environment: str, choice: str) -> Scale:
    if choice == "none" or (choice == "auto" and results.measure == "success"):
        kind = "success rates" if results.measure == "success" else "scores that are not normalised"
        return Scale(0.0, 1.0, kind, "not normalised")
    if choice in ("auto", "published") and results.measure == "return":
        low, best = random_score(environment), best_reference(environment)
        if low is not None and best is not None and low < best.mean:
            source = f"random actions; best published score, {best.algo} on {best.env_id} ({best.source})"
            return Scale(low, best.mean, "0 = random actions, 1 = best published score", source)
    if choice == "published":
        raise UserError(f"--normalize published: there are no scores of random and trained agents for"
                        f" {environment}; name a YAML file with {environment}: [low, high]")  # fmt: skip
    values = np.concatenate([curve.scores.ravel() for curve in results.of(environment)])
    low, high = float(values.min()), float(values.max())
    if low == high:
        raise UserError(f"all evaluations on {environment} are {low:g}, so that they have no range:"
                        f" --normalize none, or a YAML file with {environment}: [low, high]")  # fmt: skip
    kind = "0 and 1 = lowest and highest evaluation"
    return Scale(low, high, kind, "lowest and highest evaluation of these runs")


def _read_scales(path: Path) -> dict[str, tuple[float, float]]:
    """:raises UserError: there is no such file, or it is no mapping"""
    if not path.is_file():
        raise UserError(f"--normalize is one of {', '.join(CHOICES)} or a YAML file, not {str(path)!r}")
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise UserError(f"{path} should have lines such as CartPole-v1: [22, 500]")
    return content


def _checked(environment: str, pair: object) -> tuple[float, float]:
    """:raises UserError: these are not two finite numbers, the lower first"""
    numbers = [v for v in pair if type(v) in (int, float)] if isinstance(pair, list | tuple) else []
    if len(numbers) != 2 or not all(map(math.isfinite, numbers)) or not numbers[0] < numbers[1]:
        raise UserError(f"--normalize: {environment} needs [low, high], not {str(pair)[:60]}")
    return float(numbers[0]), float(numbers[1])


def _curve(results: Results, environment: str, name: str) -> Curve:
    found = results.curve(environment, name)
    assert found is not None
    return found


def _on_grid(
    curves: dict[str, list[Curve]], scales: dict[str, Scale], n_runs: dict[str, int]
) -> tuple[Values, bool, dict[str, Values]]:
    """Interpolate curves at as many points as the one with the fewest evaluations has."""
    every = [curve for found in curves.values() for curve in found]
    length: dict[str, float] = {}
    for curve in every:
        length[curve.environment] = max(length.get(curve.environment, 0.0), float(curve.steps[-1]))
    n_points = min(len(curve.steps) for curve in every)
    shares = np.arange(1, n_points + 1) / n_points
    in_percent = max(length.values()) > min(length.values()) * (1 + SAME_LENGTH)
    on_grid = {}
    for name, found in curves.items():
        end = min(curve.steps[-1] / length[curve.environment] for curve in found)
        n_reached = max(1, int((shares <= end + SAME_LENGTH).sum()))
        tasks = [
            np.stack([
                np.interp(shares[:n_reached] * length[curve.environment], curve.steps, run)
                for run in scales[curve.environment](curve.scores[: n_runs[name]])
            ])
            for curve in found
        ]  # fmt: skip
        on_grid[name] = np.stack(tasks, axis=1)
    return shares * (100.0 if in_percent else max(length.values())), in_percent, on_grid

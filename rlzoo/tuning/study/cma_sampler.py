"""CMA-ES for studies, without anything of it kept in the study.

Optuna's own sampler keeps its optimiser as a pickle in the study, and unpickling runs whatever somebody has
put there. Here the optimiser is computed again for each trial, from the values of the earlier trials.

Hansen 2016, "The CMA Evolution Strategy: A Tutorial" (arXiv:1604.00772).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

SIGMA = 1 / 6
"""First standard deviation, of a unit interval: six of them span it."""


class CmaEsSampler(BaseSampler):
    """Draws numbers from a normal distribution that moves and shapes itself towards the best trials.

    Complete trials after the first `n_startup_trials`, in the order of their numbers, are its generations.
    Categorical parameters, and all of the first trials, are drawn at random.

    :param n_startup_trials: complete trials before it begins
    :param seed: of the draws of one trial
    """

    def __init__(self, n_startup_trials: int, seed: int) -> None:
        self.n_startup_trials = n_startup_trials
        self.seed = seed
        self.random = RandomSampler(seed=seed)
        self.space = IntersectionSearchSpace()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the numbers that every complete trial has, and that are not fixed."""
        return {
            name: distribution
            for name, distribution in self.space.calculate(study).items()
            if isinstance(distribution, FloatDistribution | IntDistribution) and not distribution.single()
        }

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Draw from the generation that the study has come to; see `optuna.samplers.BaseSampler`."""
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if not search_space or len(complete) < self.n_startup_trials:
            return {}
        from cmaes import CMA

        n = len(search_space)
        optimizer = CMA(
            mean=np.full(n, 0.5),
            sigma=SIGMA,
            bounds=np.tile([0.0, 1.0], (n, 1)),
            n_max_resampling=10 * n,
            seed=self.seed,
        )
        sign = 1 if study.direction == StudyDirection.MINIMIZE else -1
        for generation in generations(complete[self.n_startup_trials :], optimizer.population_size):
            points = [_to_unit(search_space, one.params) for one in generation]
            optimizer.tell(
                [(point, sign * one.values[0]) for point, one in zip(points, generation, strict=True)]
            )
        return _from_unit(search_space, optimizer.ask())

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw a random value; see `optuna.samplers.BaseSampler`."""
        return self.random.sample_independent(study, trial, param_name, param_distribution)


def generations(trials: Sequence[FrozenTrial], size: int) -> list[Sequence[FrozenTrial]]:
    """Return whole generations of this size, in the order of the trials; what is left over is of the next."""
    return [trials[end - size : end] for end in range(size, len(trials) + 1, size)]


def _to_unit(space: Mapping[str, Any], params: Mapping[str, Any]) -> np.ndarray:
    """Return parameters [n] in the unit cube."""
    point = []
    for name, distribution in space.items():
        low, high, scale = _interval(distribution)
        point.append((scale(params[name]) - low) / (high - low))
    return np.clip(point, 0.0, 1.0)


def _from_unit(space: Mapping[str, Any], point: np.ndarray) -> dict[str, Any]:
    """Return parameters of a point [n] in the unit cube, rounded to the steps that they have."""
    params: dict[str, Any] = {}
    for (name, distribution), x in zip(space.items(), point, strict=True):
        low, high, _ = _interval(distribution)
        value = low + float(x) * (high - low)
        if distribution.log:
            value = math.exp(value)
        if distribution.step is not None:
            value = (
                distribution.low + round((value - distribution.low) / distribution.step) * distribution.step
            )
        value = min(max(value, distribution.low), distribution.high)
        params[name] = int(value) if isinstance(distribution, IntDistribution) else float(value)
    return params


def _interval(distribution: Any) -> tuple[float, float, Any]:
    """Return the ends of a distribution's scale, and the function that leads to it.

    Where values are rounded to steps, the first and the last reach half a step beyond the ends, so that each
    has its share.
    """
    half = 0.5 * (distribution.step or 0.0)
    scale = math.log if distribution.log else float
    return scale(distribution.low - half), scale(distribution.high + half), scale

"""Population based bandits (PB2): explore by a Gaussian process instead of random perturbations.

Parker-Holder, Nguyen and Roberts, "Provably Efficient Online Hyperparameter Optimization with
Population-Based Bandits", 2020, arXiv 2002.02518.

Every interval of every member is an observation: x are the numbers among its hyperparameters, each scaled to
[0, 1] in its range (in log space where the range is logarithmic), t is the interval, and y is the change in
return over the interval. A Gaussian process models y, with a kernel under which old observations count less:

    k((x, t), (x', t')) = s^2 exp(-|x - x'|^2 / (2 d l^2)) (1 - eps)^(|t - t'| / 2)

A replaced member gets the hyperparameters that maximise the upper confidence bound in its next interval,

    mean(x, t) + sqrt(beta) deviation(x, t),    beta = 0.2 + max(0, log(0.4 n)) after n observations.

Members that train in that interval already are pending observations whose outcome is taken to be the mean.
They lower the deviation near them, so that several replaced members try different values (GP-BUCB;
Desautels, Krause and Burdick, 2014).

Differences from the paper: the return before the interval is one more input of the kernel, because agents
near the highest return improve less. Outliers among the changes are clipped, and an interval in which a
member failed counts as the lowest change. Booleans and choices are explored as in population based training:
kept, or drawn again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from rlzoo.params.grid import Label
from rlzoo.tuning.pbt.population import Explorer, Generation, Range, Start, sample
from rlzoo.tuning.space.search_space import Space

LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6)  # l of the kernel
EPSILONS = (0.0, 0.05, 0.1, 0.2, 0.4)  # eps of the kernel
NOISES = (0.01, 0.1, 0.3, 1.0, 3.0)  # variance of the noise, as a multiple of s^2
NEWEST = 250  # observations that are fitted, in about a second
N_CANDIDATES = 1000  # uniform ones, for the maximum of the confidence bound
REFINEMENTS = (0.1, 0.03, 0.01)  # deviations of further candidates around the best so far
MIDDLE = 0.5  # of a range, for a hyperparameter that an observation does not have

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Observation:
    """A member in a finished interval, and the change in return over it."""

    interval: int
    start: Start
    change: float


def observations(history: Sequence[Sequence[Generation]]) -> list[Observation]:
    """Return the changes in return of all intervals, in their order.

    The return of untrained agents is not measured. The lowest one after the first interval is the estimate.
    A member that failed has no return. Its change is the lowest of all others, after outliers are clipped.

    :param history: members by interval and number; those of the last interval have ended
    """
    found: list[tuple[int, Start, float | None]] = []
    first = [member.value for member in history[0] if member.value is not None]
    for interval, generation in enumerate(history):
        for member in generation:
            before = min(first, default=None) if interval == 0 else history[interval - 1][member.parent].value
            if before is not None:
                change = None if member.value is None else member.value - before
                found.append((interval, Start(member.params, before), change))
    changes = [change for _, _, change in found if change is not None]
    lowest = float(clip_outliers(np.array(changes)).min()) if changes else 0.0
    return [
        Observation(interval, start, lowest if change is None else change)
        for interval, start, change in found
    ]


@dataclass(frozen=True)
class TimeVaryingGP:
    """Gaussian process over inputs and time; see the equations above.

    :param x: inputs of the observations, float64 [n, d]
    :param t: their times [n]
    :param y: their values [n], standardised
    :param variance: s^2
    :param noise: variance of the noise divided by s^2
    """

    x: Array
    t: Array
    y: Array
    length: float
    epsilon: float
    noise: float
    variance: float

    @classmethod
    def fit(cls, x: Array, t: Array, y: Array) -> TimeVaryingGP:
        """Return the process with the length scale, eps and noise that maximise the marginal likelihood.

        For given C = K / s^2 + noise I, the likelihood is highest with s^2 = y' C^-1 y / n. It is then
        -n/2 log(s^2) - 1/2 log det C, up to a constant. All combinations of a grid are compared.
        """
        best, score = cls(x, t, y, LENGTHS[0], EPSILONS[0], NOISES[0], 1.0), -math.inf
        for length, epsilon in product(LENGTHS, EPSILONS):
            eigenvalues, vectors = np.linalg.eigh(_correlation(x, t, x, t, length, epsilon))
            projected = np.square(vectors.T @ y)
            for noise in NOISES:
                spectrum = np.maximum(eigenvalues, 0.0) + noise
                variance = max(float(np.mean(projected / spectrum)), 1e-12)
                likelihood = -0.5 * (len(y) * math.log(variance) + float(np.log(spectrum).sum()))
                if likelihood > score:
                    best, score = cls(x, t, y, length, epsilon, noise, variance), likelihood
        return best

    def predict(self, x: Array, t: Array) -> tuple[Array, Array]:
        """Return means and standard deviations of the noiseless values at some inputs and times."""
        known = _correlation(self.x, self.t, self.x, self.t, self.length, self.epsilon)
        factor = np.linalg.cholesky(known + self.noise * np.eye(len(self.y)))
        across = np.linalg.solve(
            factor, _correlation(self.x, self.t, x, t, self.length, self.epsilon)
        )  # [n, m]
        mean = across.T @ np.linalg.solve(factor, self.y)
        left = np.maximum(1.0 - np.square(across).sum(0), 0.0)
        return mean, np.sqrt(self.variance * left)

    def believe(self, x: Array, t: Array) -> TimeVaryingGP:
        """Return the process after pending observations whose values are the present means."""
        mean, _ = self.predict(x, t)
        return replace(self, x=np.vstack([self.x, x]), t=np.append(self.t, t), y=np.append(self.y, mean))


def _correlation(x: Array, t: Array, others: Array, other_t: Array, length: float, epsilon: float) -> Array:
    """Return the kernel divided by s^2, between all pairs of two sets of points."""
    squares = np.square(x[:, None] - others[None]).mean(-1)  # |x - x'|^2 / d
    ages = np.abs(t[:, None] - other_t[None])
    similar: Array = np.exp(-0.5 * squares / length**2) * (1.0 - epsilon) ** (0.5 * ages)
    return similar


class Bandit:
    """Explores by the upper confidence bound of all intervals so far.

    :param history: members by interval and number; all of the last interval have ended
    """

    def __init__(self, space: Space, history: Sequence[Sequence[Generation]]) -> None:
        self.space, self.interval = space, len(history)
        self.observations = observations(history)[-NEWEST:]
        self._fitted: dict[tuple[str, ...], TimeVaryingGP] = {}  # by the hyperparameters that a copy has

    def __call__(
        self, parent: Generation, rng: np.random.Generator, pending: Sequence[Start]
    ) -> dict[str, Label]:
        """Return hyperparameters for a copy of a member.

        :param pending: the members of the next interval that are known
        """
        explorer = Explorer(rng, parent.params)
        sample(self.space, explorer)  # chooses what has no order; the numbers are replaced below
        ranges = explorer.ranges
        if parent.value is None or not ranges or not self.observations:
            return explorer.params
        scale = _Scale(ranges, [each.start.before for each in self.observations])
        process = self._fit(scale).believe(scale.inputs(pending), np.full(len(pending), float(self.interval)))
        n = len(self.observations)
        beta = 0.2 + max(0.0, math.log(0.4 * n))
        before = scale.context(parent.value)

        def bound(candidates: Array) -> Array:
            x = np.hstack([candidates, np.full((len(candidates), 1), before)])
            mean, deviation = process.predict(x, np.full(len(x), float(self.interval)))
            return mean + math.sqrt(beta) * deviation

        best = maximise(bound, scale.positions(parent.params), rng)
        chosen = {name: each.value(float(u)) for (name, each), u in zip(ranges.items(), best, strict=True)}
        return {**explorer.params, **chosen}

    def _fit(self, scale: _Scale) -> TimeVaryingGP:
        """Return the process of all observations; copies with the same hyperparameters share it."""
        names = tuple(scale.ranges)
        if names not in self._fitted:
            times = np.array([each.interval for each in self.observations], dtype=np.float64)
            changes = np.array([each.change for each in self.observations])
            inputs = scale.inputs([each.start for each in self.observations])
            self._fitted[names] = TimeVaryingGP.fit(inputs, times, standardise(changes))
        return self._fitted[names]


@dataclass(frozen=True)
class _Scale:
    """Maps hyperparameters and the return before an interval to [0, 1]."""

    ranges: Mapping[str, Range]
    returns: Sequence[float]

    def positions(self, params: Mapping[str, Label]) -> Array:
        """Return the position of each hyperparameter in its range."""
        found = [(params.get(name), each) for name, each in self.ranges.items()]
        return np.array(
            [each.position(value) if isinstance(value, int | float) else MIDDLE for value, each in found]
        )

    def context(self, before: float) -> float:
        """Return the position of a return among all that were observed."""
        low, high = min(self.returns), max(self.returns)
        return min(max((before - low) / (high - low), 0.0), 1.0) if high > low else MIDDLE

    def inputs(self, starts: Sequence[Start]) -> Array:
        """Return the inputs of the Gaussian process, [n, hyperparameters + 1]."""
        rows = [[*self.positions(each.params), self.context(each.before)] for each in starts]
        return np.array(rows, dtype=np.float64).reshape(len(starts), len(self.ranges) + 1)


def clip_outliers(changes: Array) -> Array:
    """Clip changes at a distance of twice the middle 80% from it.

    One agent that diverged must not hide the differences of all others. Nothing is clipped where the middle
    80% are equal: the few other changes are then all that is known.
    """
    low, high = np.quantile(changes, [0.1, 0.9])
    if low == high:
        return changes
    clipped: Array = np.clip(changes, low - 2 * (high - low), high + 2 * (high - low))
    return clipped


def standardise(changes: Array) -> Array:
    """Clip outliers, and scale to mean 0 and standard deviation 1."""
    clipped = clip_outliers(changes)
    deviation = float(clipped.std())
    scaled: Array = (clipped - clipped.mean()) / (deviation if deviation > 0 else 1.0)
    return scaled


def maximise(score: Callable[[Array], Array], start: Array, rng: np.random.Generator) -> Array:
    """Return the best of random points in the unit cube, then of points ever closer around the best.

    :param score: of points [m, d]
    :param start: a point that is tried, too
    """
    points = np.vstack([start, rng.random((N_CANDIDATES, len(start)))])
    best = points[int(np.argmax(score(points)))]
    for deviation in REFINEMENTS:
        near = best + rng.normal(0.0, deviation, (N_CANDIDATES // 4, len(start)))
        points = np.vstack([best, np.clip(near, 0.0, 1.0)])
        best = points[int(np.argmax(score(points)))]
    return best

"""The population of population based training: members, exploit and explore.

Jaderberg et al., "Population Based Training of Neural Networks", 2017. All members train for an interval.
Then the worst quarter copies agents and hyperparameters of members in the best quarter (exploit), and
perturbs the copied hyperparameters (explore). Random numbers follow from the seed, the interval and the
member, so the result does not depend on how many members train at the same time. `bandit.py` has another
way to explore.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np

from rlzoo.callbacks.hyperparameter_schedule import CHANGEABLE
from rlzoo.params.grid import Label
from rlzoo.tuning.space.search_space import Space

QUARTILE = 0.25  # of the population is replaced, by members of the best such part
RESAMPLE = 0.25  # probability that a hyperparameter is drawn again instead of perturbed
FACTORS = (0.8, 1.2)  # of a perturbation; in a linear range it moves by 0.2 of the width of the range

L = TypeVar("L", bound=Label)


@dataclass
class Generation:
    """A member in one interval.

    :param parent: number of the member that it continues; itself, or one that it copied
    :param params: values in the search space, by their names there
    :param value: mean return after the interval; None before
    """

    member: int
    interval: int
    parent: int
    params: dict[str, Label]
    value: float | None = None
    n_steps: int = 0
    seconds: float = 0.0
    error: str = ""  # why it has no value


@dataclass(frozen=True)
class Start:
    """Hyperparameters with which a member begins an interval, and the return of its agent before it."""

    params: Mapping[str, Label]
    before: float


Explore: TypeAlias = Callable[[Generation, np.random.Generator, Sequence[Start]], dict[str, Label]]
"""Returns hyperparameters for a copy of a member, given the members of the next interval so far."""


@dataclass(frozen=True)
class Range:
    """The range of a number that can change during training."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    integer: bool = False

    def position(self, value: float) -> float:
        """Return the place of a value in the range, from 0 (low) to 1 (high)."""
        low, high, value = self.low, self.high, min(max(value, self.low), self.high)
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low) if high > low else 0.5

    def value(self, position: float) -> float:
        """Return the value at a place in the range; an int in a range of integers."""
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            value = math.exp(low + position * (high - low))
        else:
            value = self.low + position * (self.high - self.low)
        return self.snap(round(value) if self.integer else value)

    def perturbed(self, value: float, factor: float) -> float:
        """Return a value multiplied by a factor; in a linear range, moved by that fraction of its width.

        Multiplication would take every gamma between 0.8 and 0.999 to one of the two ends.
        """
        return value * factor if self.log else value + (factor - 1) * (self.high - self.low)

    def snap(self, value: float) -> float:
        """Return the nearest value that the range has."""
        if self.step is not None:
            last = math.floor((self.high - self.low) / self.step + 1e-9)  # 0.3 / 0.1 is below 3
            value = self.low + min(round((value - self.low) / self.step), last) * self.step
        return min(max(value, self.low), self.high)


class Explorer:
    """A trial of which every suggestion is a random draw, or the perturbation of a given value.

    Ranges of numbers that were suggested and not frozen are kept in `ranges`, by name.

    :param rng: source of randomness
    :param params: given values, by name; empty: everything is drawn
    """

    def __init__(self, rng: np.random.Generator, params: Mapping[str, Label]) -> None:
        self.rng, self.given = rng, params
        self.params: dict[str, Label] = {}
        self.ranges: dict[str, Range] = {}
        self.frozen = False  # keep the given value of the next suggestion

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """Suggest a float."""
        given, found = self._given(name), self._range(name, Range(low, high, log, step))
        if given is not None and self.frozen:
            value = float(given)
        elif given is not None and self.rng.random() >= RESAMPLE:
            value = found.perturbed(float(given), float(self.rng.choice(FACTORS)))
        elif log:
            value = math.exp(self.rng.uniform(math.log(low), math.log(high)))
        else:
            value = float(self.rng.uniform(low, high))
        self.params[name] = value = found.snap(value)
        return value

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Suggest an integer; a perturbation changes it by at least one step."""
        given, found = self._given(name), self._range(name, Range(low, high, log, step, True))
        if given is not None and self.frozen:
            value = int(given)
        elif given is not None and self.rng.random() >= RESAMPLE:
            factor = float(self.rng.choice(FACTORS))
            value = round(found.perturbed(int(given), factor))
            if value == int(given):
                value += step if factor > 1 else -step
        elif log:
            value = round(math.exp(self.rng.uniform(math.log(low), math.log(high))))
        else:
            value = low + step * int(self.rng.integers((high - low) // step + 1))
        self.params[name] = value = int(found.snap(value))
        return value

    def suggest_categorical(self, name: str, choices: Sequence[L]) -> L:
        """Suggest one of several values; a given one is kept unless it is drawn again."""
        given = self.given.get(name)
        kept = [choice for choice in choices if choice == given and type(choice) is type(given)]
        if kept and (self.frozen or self.rng.random() >= RESAMPLE):
            value = kept[0]
        else:
            value = choices[int(self.rng.integers(len(choices)))]
        self.params[name] = value
        return value

    def _range(self, name: str, found: Range) -> Range:
        """Return a range, and keep it where the number can change."""
        if not self.frozen:
            self.ranges[name] = found
        return found

    def _given(self, name: str) -> float | None:
        value = self.given.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def sample(space: Space, explorer: Explorer) -> dict[str, Any]:
    """Sample plain values by key; what cannot change during training keeps its given value."""
    known, sampled = dict(space.given), {}
    for key, row in space.rows.items():
        if row.applies(known):
            explorer.frozen = bool(explorer.given) and key not in CHANGEABLE
            known[key] = sampled[key] = row.suggest(explorer, key, known)
    return sampled


def replay(space: Space, params: Mapping[str, Label]) -> dict[str, Any]:
    """Return the plain values by key that belong to values in the search space."""
    explorer = Explorer(np.random.default_rng(0), params)
    known, sampled = dict(space.given), {}
    for key, row in space.rows.items():
        if row.applies(known):
            explorer.frozen = True
            known[key] = sampled[key] = row.suggest(explorer, key, known)
    return sampled


def ranges_of(space: Space, members: Iterable[Generation]) -> dict[str, Range]:
    """Return the ranges of the numbers that can change while these members are trained."""
    ranges: dict[str, Range] = {}
    for member in members:
        explorer = Explorer(np.random.default_rng(0), member.params)
        sample(space, explorer)
        ranges |= explorer.ranges
    return ranges


def first_generation(space: Space, size: int, seed: int) -> list[Generation]:
    """Return the members of the first interval, with hyperparameters drawn at random."""
    members = []
    for number in range(size):
        explorer = Explorer(generator(seed, 0, number), {})
        sample(space, explorer)
        members.append(Generation(number, 0, number, explorer.params))
    return members


def perturb(
    space: Space, parent: Generation, rng: np.random.Generator, pending: Sequence[Start]
) -> dict[str, Label]:
    """Return the hyperparameters of a member, perturbed or drawn again."""
    explorer = Explorer(rng, parent.params)
    sample(space, explorer)
    return explorer.params


def next_generation(
    space: Space, members: Sequence[Generation], seed: int, explore: Explore | None = None
) -> list[Generation]:
    """Return the members of the next interval: the worst continue as copies of the best, and explore.

    :param members: all members after an interval, by number; one without a value counts as worst
    :param explore: chooses the hyperparameters of the copies; None: `perturb`
    """
    explore = explore or partial(perturb, space)
    n_replaced = max(1, int(len(members) * QUARTILE)) if len(members) > 1 else 0
    ranked = sorted(members, key=lambda member: -math.inf if member.value is None else member.value)
    worst = {member.member for member in ranked[:n_replaced]}
    worst |= {member.member for member in members if member.value is None}
    best = [member for member in ranked[len(ranked) - n_replaced :] if member.value is not None]
    starts = [
        Start(member.params, member.value)
        for member in members
        if member.member not in worst and member.value is not None
    ]
    following = []
    for member in members:
        parent, params = member, member.params
        if member.member in worst:
            rng = generator(seed, member.interval + 1, member.member)
            parent = best[int(rng.integers(len(best)))]
            params = explore(parent, rng, starts)
            if parent.value is not None:
                starts.append(Start(params, parent.value))
        following.append(Generation(member.member, member.interval + 1, parent.member, dict(params)))
    return following


def lineage(history: Sequence[Sequence[Generation]], member: int) -> list[Generation]:
    """Return the ancestors of a member of the last interval, the first one first, and the member itself."""
    line = []
    for generation in reversed(history):
        line.append(generation[member])
        member = generation[member].parent
    return line[::-1]


def generator(seed: int, interval: int, member: int) -> np.random.Generator:
    """Return the random numbers of a member at the beginning of an interval."""
    return np.random.default_rng(np.random.SeedSequence([seed % 2**64, interval, member]))

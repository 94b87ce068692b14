"""Enumerate a search space: every combination of values that it can sample.

A space is a function that asks a trial for one value after another; which values it asks for may depend on
the earlier ones. So the function is run once per combination, depth first: each run replays the choices of
the previous one up to the last parameter that has an option left, and takes its next option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias, TypeVar

T = TypeVar("T")
L = TypeVar("L", bound="Label")

Label: TypeAlias = "str | int | float | bool | None"
"""A value that a trial records."""


class SuggestingTrial(Protocol):
    """The methods of `optuna.Trial` that sample values."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """Sample a float."""
        ...

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Sample an integer."""
        ...

    def suggest_categorical(self, name: str, choices: Sequence[Label]) -> Label:
        """Sample one of the choices."""
        ...


class NotEnumerable(Exception):
    """Error for a parameter with too many values to enumerate; `name` is its name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


MAX_VALUES = 10_000
"""Values of one parameter that are still enumerated."""


def combinations(sample: Callable[[SuggestingTrial], T]) -> Iterator[tuple[dict[str, Label], T]]:
    """Yield every combination: the parameters that a trial records, and the result of `sample(trial)`.

    :raises NotEnumerable: a parameter is continuous
    """
    options: list[int] = []
    while True:
        trial = _GridTrial(options)
        value = sample(trial)
        yield trial.params, value
        options = trial.next_options()
        if not options:
            return


class _GridTrial:
    """A trial of one combination.

    :param options: index of the option of each parameter, in the order of sampling; 0 for those beyond it
    """

    def __init__(self, options: Sequence[int]) -> None:
        self.options = list(options)
        self.counts: list[int] = []
        self.params: dict[str, Label] = {}

    def next_options(self) -> list[int]:
        """Return the options of the next combination; empty after the last one."""
        options = self.options[: len(self.counts)]
        while options and options[-1] + 1 == self.counts[len(options) - 1]:
            options.pop()
        if options:
            options[-1] += 1
        return options

    def suggest_categorical(self, name: str, choices: Sequence[Label]) -> Label:
        return self._choose(name, choices)

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        values = range(low, high + 1, step)
        if len(values) > MAX_VALUES:
            raise NotEnumerable(name)
        return self._choose(name, values)

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        if low == high:
            return self._choose(name, [low])
        if step is None or (high - low) / step > MAX_VALUES:
            raise NotEnumerable(name)
        n_steps = int((high - low) / step + 1e-9)
        return self._choose(name, [low + i * step for i in range(n_steps + 1)])

    def _choose(self, name: str, values: Sequence[L]) -> L:
        if len(self.counts) == len(self.options):
            self.options.append(0)
        value = values[self.options[len(self.counts)]]
        self.counts.append(len(values))
        self.params[name] = value
        return value

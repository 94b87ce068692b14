"""Enumerate a search space: every combination that it can sample.

A space is a function that asks a trial for one value after the other; which values may depend on earlier
answers. So it is run again and again, each time with the next answer to the last question that has one left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
C = TypeVar("C")


class NotEnumerable(Exception):
    """A parameter has too many values; holds its name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


LONGEST = 10_000
"""Values of one parameter that are still enumerated."""


def walk(sample: Callable[[Any], T]) -> Iterator[tuple[dict[str, object], T]]:
    """Yield every combination: what a trial records, and what `sample(trial)` returns.

    :raises NotEnumerable: a parameter is continuous
    """
    turns: list[int] = []
    while True:
        trial = _Walker(turns)
        value = sample(trial)
        yield trial.params, value
        turns = trial.next_turns()
        if not turns:
            return


class _Walker:
    """Trial that answers each question with the option whose turn it is."""

    def __init__(self, turns: list[int]) -> None:
        self.turns = list(turns)
        self.counts: list[int] = []
        self.params: dict[str, object] = {}

    def next_turns(self) -> list[int]:
        """Return those of the next combination; none after the last."""
        turns = self.turns[: len(self.counts)]
        while turns and turns[-1] + 1 == self.counts[len(turns) - 1]:
            turns.pop()
        if turns:
            turns[-1] += 1
        return turns

    def suggest_categorical(self, name: str, choices: Sequence[C]) -> C:
        """Answer with one of the choices."""
        return self._answer(name, choices)

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Answer with an integer from low to high."""
        options = range(low, high + 1, step)
        if len(options) > LONGEST:
            raise NotEnumerable(name)
        return self._answer(name, options)

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """Answer with a number from low to high, in steps."""
        if low == high:
            return self._answer(name, [low])
        if step is None or (high - low) / step > LONGEST:
            raise NotEnumerable(name)
        n_steps = int((high - low) / step + 1e-9)
        return self._answer(name, [low + i * step for i in range(n_steps + 1)])

    def _answer(self, name: str, options: Sequence[C]) -> C:
        if len(self.counts) == len(self.turns):
            self.turns.append(0)
        answer = options[self.turns[len(self.counts)]]
        self.counts.append(len(options))
        self.params[name] = answer
        return answer

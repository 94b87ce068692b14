"""Walk through a search space: every combination that it can draw, one after the other.

A space is a function that asks a trial for one value after the other; which it asks for may depend on the
answers. So it is run again and again, each time with the next answer to the last question that has one left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


class Endless(Exception):
    """A parameter has too many values to walk through; holds its name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


LONGEST = 10_000
"""Values of one parameter that are still walked through."""


def walk(sample: Callable[[Any], Any]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Every combination: what a trial records, and what `sample(trial)` makes of it.

    :raises Endless: a parameter is continuous
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
    """Stands for a trial: answers each question with the option that its turn is."""

    def __init__(self, turns: list[int]) -> None:
        self.turns = list(turns)
        self.counts: list[int] = []
        self.params: dict[str, Any] = {}

    def next_turns(self) -> list[int]:
        """Those of the combination after this one; none where this was the last."""
        turns = self.turns[: len(self.counts)]
        while turns and turns[-1] + 1 == self.counts[len(turns) - 1]:
            turns.pop()
        if turns:
            turns[-1] += 1
        return turns

    def suggest_categorical(self, name: str, choices: list[Any]) -> Any:
        return self._answer(name, choices)

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> Any:
        options = range(low, high + 1, step)
        if len(options) > LONGEST:
            raise Endless(name)
        return self._answer(name, options)

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> Any:
        if low == high:
            return self._answer(name, [low])
        if step is None or (high - low) / step > LONGEST:
            raise Endless(name)
        n_steps = int((high - low) / step + 1e-9)
        return self._answer(name, [low + i * step for i in range(n_steps + 1)])

    def _answer(self, name: str, options: Any) -> Any:
        if len(self.counts) == len(self.turns):
            self.turns.append(0)
        answer = options[self.turns[len(self.counts)]]
        self.counts.append(len(options))
        self.params[name] = answer
        return answer

"""Hyperparameters of a search space: how each is drawn, and what it may be.

A parameter suggests plain values, as a YAML file would hold them. What a trial records is what its sampler
can learn from: `n_steps` of 512 as `log2(n_steps)` of 9, `gamma` of 0.99 as `1 - gamma` of 0.01, a linear
schedule as its first value and the word `linear`. Some depend on values that were drawn before them, or that
are fixed; `known` holds these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeAlias

from rlzoo.core.errors import UserError
from rlzoo.params.grid import Endless, walk

NOTHING: Mapping[str, Any] = {}
OTHER_VERSION = "the search space was not made by this version of rlzoo"


class Parameter:
    """What one hyperparameter may be."""

    kinds: ClassVar[dict[str, type[Parameter]]] = {}

    def __init_subclass__(cls) -> None:
        Parameter.kinds[cls.__name__] = cls

    def suggest(self, trial: Any, name: str, known: Mapping[str, Any] = NOTHING) -> Any:
        """Draw a value.

        :param trial: of Optuna, or anything with its `suggest_float`, `suggest_int`, `suggest_categorical`
        :param name: the key of the hyperparameter, such as `policy_kwargs.net_arch`
        """
        raise NotImplementedError

    def contains(self, value: Any, known: Mapping[str, Any] = NOTHING) -> bool:
        """Whether a value can be drawn, or lies between two that can."""
        raise NotImplementedError

    def applies(self, known: Mapping[str, Any]) -> bool:
        """Whether the hyperparameter has an effect."""
        return True

    def needs(self) -> set[str]:
        """Keys that `known` must hold."""
        inner = [getattr(self, field.name) for field in fields(self)]  # type: ignore[arg-type]
        return {key for part in inner if isinstance(part, Parameter) for key in part.needs()}

    def grid(self) -> list[Any] | None:
        """Every value; None where they cannot be counted."""
        try:
            return [value for _, value in walk(lambda trial: self.suggest(trial, "value"))]
        except Endless:
            return None

    def to_json(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {"kind": type(self).__name__, **{name: _to_json(value) for name, value in values.items()}}

    @staticmethod
    def from_json(values: Any) -> Parameter:
        """:raises UserError: another version of rlzoo, or another program, wrote it"""
        try:
            given = dict(values)
            kind: Any = Parameter.kinds[given.pop("kind")]
            return kind(**{name: _from_json(value) for name, value in given.items()})
        except (KeyError, TypeError, ValueError):
            raise UserError(OTHER_VERSION) from None


SearchSpace: TypeAlias = dict[str, Parameter]
"""Hyperparameters by key, such as `gamma` or `policy_kwargs.net_arch`, and what each may be."""


def _to_json(value: Any) -> Any:
    return value.to_json() if isinstance(value, Parameter) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, Mapping) and "kind" in value:
        return Parameter.from_json(value)
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Float(Parameter):
    """A number; with `log`, its order of magnitude is drawn evenly."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def suggest(self, trial: Any, name: str, known: Mapping[str, Any] = NOTHING) -> float:
        value: float = trial.suggest_float(name, self.low, self.high, log=self.log, step=self.step)
        return value

    def contains(self, value: Any, known: Mapping[str, Any] = NOTHING) -> bool:
        return _is_number(value) and self.low <= value <= self.high


@dataclass(frozen=True)
class Int(Parameter):
    """A whole number."""

    low: int
    high: int
    log: bool = False
    step: int = 1

    def suggest(self, trial: Any, name: str, known: Mapping[str, Any] = NOTHING) -> int:
        value: int = trial.suggest_int(name, self.low, self.high, log=self.log, step=self.step)
        return value

    def contains(self, value: Any, known: Mapping[str, Any] = NOTHING) -> bool:
        return _is_number(value) and self.low <= value <= self.high and value % 1 == 0


@dataclass(frozen=True)
class Power(Parameter):
    """A power of two, from `low` to `high`, which are such."""

    low: int
    high: int

    def suggest(self, trial: Any, name: str, known: Mapping[str, Any] = NOTHING) -> int:
        lowest, highest = self.low.bit_length() - 1, self.high.bit_length() - 1
        return 2 ** int(trial.suggest_int(f"log2({name})", lowest, highest))

    def contains(self, value: Any, known: Mapping[str, Any] = NOTHING) -> bool:
        return Int(self.low, self.high).contains(value) and math.log2(value) % 1 == 0


@dataclass(frozen=True)
class Near1(Parameter):
    """A number below 1, whose distance `low` to `high` from 1 counts in orders of magnitude."""

    low: float
    high: float

    def suggest(self, trial: Any, name: str, known: Mapping[str, Any] = NOTHING) -> float:
        distance: float = trial.suggest_float(f"1 - {name}", self.low, self.high, log=True)
        return 1.0 - distance

    def contains(self, value: Any, known: Mapping[str, Any] = NOTHING) -> bool:
        return _is_number(value) and self.low - 1e-9 <= 1 - value <= self.high + 1e-9


@dataclass(frozen=True, init=False)
class Choice(Parameter):
    """One of some values without an order."""

    values: tuple[Any, ...]

    def __init__(self, *choices: Any, values: Iterable[Any] = ()) -> None:
        object.__setattr__(self, "values", (*choices, *values))

    def suggest(self, trial: Any, name: str, known: Mapping[str, Any] = NOTHING) -> Any:
        by_label = {_label(value): value for value in self.values}
        return by_label[trial.suggest_categorical(name, list(by_label))]

    def contains(self, value: Any, known: Mapping[str, Any] = NOTHING) -> bool:
        return any(_same_layers(value) == _same_layers(choice) for choice in self.values)


@dataclass(frozen=True)
class Or(Parameter):
    """One certain value, or what another parameter says."""

    value: Any
    other: Parameter

    def suggest(self, trial: Any, name: str, known: Mapping[str, Any] = NOTHING) -> Any:
        label = _label(self.value)
        if trial.suggest_categorical(f"{name} is", [label, "another"]) == label:
            return _plain(self.value)
        return self.other.suggest(trial, name, known)

    def contains(self, value: Any, known: Mapping[str, Any] = NOTHING) -> bool:
        return _plain(value) == _plain(self.value) or self.other.contains(value, known)


@dataclass(frozen=True)
class Scheduled(Parameter):
    """A number throughout the training, or one that falls from there to 0 in a straight line."""

    start: Parameter

    def suggest(self, trial: Any, name: str, known: Mapping[str, Any] = NOTHING) -> float | str:
        value: float = self.start.suggest(trial, name, known)
        shape = trial.suggest_categorical(f"{name} schedule", ["constant", "linear"])
        return f"lin_{value!r}" if shape == "linear" else value

    def contains(self, value: Any, known: Mapping[str, Any] = NOTHING) -> bool:
        if isinstance(value, str) and value.startswith("lin_"):
            try:
                value = float(value.removeprefix("lin_"))
            except ValueError:
                return False  # falls to another value than 0
        return self.start.contains(value, known)


@dataclass(frozen=True)
class Ratio(Parameter):
    """A whole number, at least 1, in proportion to others, such as gradient steps to environment steps.

    :param of: keys of these; it is their product that counts
    :param otherwise: draws it where one of them is no number
    """

    of: tuple[str, ...]
    low: float
    high: float
    otherwise: Parameter | None = None

    def suggest(self, trial: Any, name: str, known: Mapping[str, Any] = NOTHING) -> int:
        whole = self._whole(known)
        if whole is None and self.otherwise is not None:
            count: int = self.otherwise.suggest(trial, name, known)
            return count
        ratio = trial.suggest_float(f"{name} ratio", self.low, self.high, log=True)
        return max(1, round(ratio * (whole or 1)))

    def contains(self, value: Any, known: Mapping[str, Any] = NOTHING) -> bool:
        whole = self._whole(known)
        if whole is None and self.otherwise is not None:
            return self.otherwise.contains(value, known)
        if value in (None, -1):  # as many as there are
            return self.low <= 1 <= self.high
        low, high = max(1, round(self.low * (whole or 1))), max(1, round(self.high * (whole or 1)))
        return Int(low, high).contains(value)

    def needs(self) -> set[str]:
        return super().needs() | set(self.of)

    def _whole(self, known: Mapping[str, Any]) -> int | None:
        numbers = [known.get(key, 1) for key in self.of]
        return math.prod(numbers) if all(_is_number(number) for number in numbers) else None


@dataclass(frozen=True)
class If(Parameter):
    """A parameter that has an effect only where another hyperparameter has one of some values."""

    key: str
    values: tuple[Any, ...]
    then: Parameter

    def suggest(self, trial: Any, name: str, known: Mapping[str, Any] = NOTHING) -> Any:
        return self.then.suggest(trial, name, known)

    def contains(self, value: Any, known: Mapping[str, Any] = NOTHING) -> bool:
        return self.then.contains(value, known)

    def applies(self, known: Mapping[str, Any]) -> bool:
        return known.get(self.key) in self.values

    def needs(self) -> set[str]:
        return super().needs() | {self.key}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _label(value: Any) -> Any:
    """What a trial records: storages keep texts, numbers, booleans and null."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(_plain(value))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _same_layers(value: Any) -> Any:
    """`{pi: [64], vf: [64]}` is another way to write `[64]`."""
    if isinstance(value, Mapping) and value:
        first, *others = (_plain(item) for item in value.values())
        if set(value) == {"pi", "vf"} and others == [first]:
            return first
    return _plain(value)

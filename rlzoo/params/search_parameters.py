"""Parameters of a search space: how each hyperparameter is sampled, and which values it can have.

A parameter suggests plain values, as a YAML file would hold them. What a trial records is the quantity that a
sampler can learn from: `log2(n_steps)` of 9 for `n_steps` of 512, `1 - gamma` of 0.01 for `gamma` of 0.99,
the initial value and the word `linear` for a linear schedule. Some parameters depend on values that were
sampled before them, or that are fixed; these are in `known`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, TypeAlias, TypeGuard

from rlzoo.core.errors import UserError
from rlzoo.params.grid import Label, NotEnumerable, SuggestingTrial, combinations

NOTHING: Mapping[str, object] = {}
OTHER_VERSION = "the search space was not made by this version of rlzoo"


@dataclass(frozen=True)
class Parameter:
    """The values that one hyperparameter can have."""

    kinds: ClassVar[dict[str, Callable[..., Parameter]]] = {}
    kind: ClassVar[str] = ""

    def __init_subclass__(cls, kind: str = "") -> None:
        """Register a class under the name that studies store: `kind`, by default that of the class."""
        cls.kind = kind or cls.__name__
        Parameter.kinds[cls.kind] = cls

    def suggest(self, trial: SuggestingTrial, name: str, known: Mapping[str, object] = NOTHING) -> object:
        """Sample a value.

        :param name: the key of the hyperparameter, such as `policy_kwargs.net_arch`
        """
        raise NotImplementedError

    def contains(self, value: object, known: Mapping[str, object] = NOTHING) -> bool:
        """Return whether a value can be sampled, or is between two that can."""
        raise NotImplementedError

    def applies(self, known: Mapping[str, object]) -> bool:
        """Return whether the hyperparameter has an effect."""
        return True

    def needs(self) -> set[str]:
        """Return the keys that `known` must hold."""
        inner = [getattr(self, field.name) for field in fields(self)]
        return {key for part in inner if isinstance(part, Parameter) for key in part.needs()}

    def grid(self) -> list[object] | None:
        """Return every value; None where they cannot be enumerated."""
        try:
            return [value for _, value in combinations(lambda trial: self.suggest(trial, "value"))]
        except NotEnumerable:
            return None

    def to_json(self) -> dict[str, object]:
        """Return the parameter as a study stores it."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": self.kind, **{name: _to_json(value) for name, value in values.items()}}

    @staticmethod
    def from_json(values: object) -> Parameter:
        """Build the parameter that `to_json` described.

        :raises UserError: another version of rlzoo, or another program, wrote it
        """
        if not isinstance(values, Mapping):
            raise UserError(OTHER_VERSION)
        try:
            kind = Parameter.kinds[values["kind"]]
            return kind(**{name: _from_json(value) for name, value in values.items() if name != "kind"})
        except (KeyError, TypeError, ValueError):
            raise UserError(OTHER_VERSION) from None


SearchSpace: TypeAlias = dict[str, Parameter]
"""Parameters by key of the hyperparameter, such as `gamma` or `policy_kwargs.net_arch`."""


def _to_json(value: object) -> object:
    return value.to_json() if isinstance(value, Parameter) else value


def _from_json(value: object) -> object:
    if isinstance(value, Mapping) and "kind" in value:
        return Parameter.from_json(value)
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Float(Parameter):
    """A float from `low` to `high`; with `log`, log-uniform."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def suggest(self, trial: SuggestingTrial, name: str, known: Mapping[str, object] = NOTHING) -> float:
        return trial.suggest_float(name, self.low, self.high, log=self.log, step=self.step)

    def contains(self, value: object, known: Mapping[str, object] = NOTHING) -> bool:
        return _is_number(value) and self.low <= value <= self.high


@dataclass(frozen=True)
class Int(Parameter):
    """An integer from `low` to `high`; with `log`, log-uniform."""

    low: int
    high: int
    log: bool = False
    step: int = 1

    def suggest(self, trial: SuggestingTrial, name: str, known: Mapping[str, object] = NOTHING) -> int:
        return trial.suggest_int(name, self.low, self.high, log=self.log, step=self.step)

    def contains(self, value: object, known: Mapping[str, object] = NOTHING) -> bool:
        return _is_number(value) and self.low <= value <= self.high and value % 1 == 0


@dataclass(frozen=True)
class PowerOfTwo(Parameter, kind="Power"):
    """A power of two from `low` to `high`, both powers of two."""

    low: int
    high: int

    def suggest(self, trial: SuggestingTrial, name: str, known: Mapping[str, object] = NOTHING) -> int:
        lowest, highest = self.low.bit_length() - 1, self.high.bit_length() - 1
        exponent = trial.suggest_int(f"log2({name})", lowest, highest)
        return 1 << int(exponent)

    def contains(self, value: object, known: Mapping[str, object] = NOTHING) -> bool:
        return _is_number(value) and self.low <= value <= self.high and math.log2(value) % 1 == 0


@dataclass(frozen=True)
class OneMinusLogUniform(Parameter, kind="Near1"):
    """A number below 1, such as gamma: 1 minus the number is log-uniform from `low` to `high`."""

    low: float
    high: float

    def suggest(self, trial: SuggestingTrial, name: str, known: Mapping[str, object] = NOTHING) -> float:
        return 1.0 - trial.suggest_float(f"1 - {name}", self.low, self.high, log=True)

    def contains(self, value: object, known: Mapping[str, object] = NOTHING) -> bool:
        return _is_number(value) and self.low - 1e-9 <= 1 - value <= self.high + 1e-9


@dataclass(frozen=True, init=False)
class Choice(Parameter):
    """One of several values without an order."""

    values: tuple[object, ...]

    def __init__(self, *choices: object, values: Iterable[object] = ()) -> None:
        object.__setattr__(self, "values", (*choices, *values))

    def suggest(self, trial: SuggestingTrial, name: str, known: Mapping[str, object] = NOTHING) -> object:
        by_label = {_label(value): value for value in self.values}
        return by_label[trial.suggest_categorical(name, list(by_label))]

    def contains(self, value: object, known: Mapping[str, object] = NOTHING) -> bool:
        return any(_same_layers(value) == _same_layers(choice) for choice in self.values)


@dataclass(frozen=True)
class OneOrSampled(Parameter, kind="Or"):
    """A fixed value, such as None, or one that another parameter samples."""

    value: object
    other: Parameter

    def suggest(self, trial: SuggestingTrial, name: str, known: Mapping[str, object] = NOTHING) -> object:
        label = _label(self.value)
        if trial.suggest_categorical(f"{name} is", [label, "another"]) == label:
            return _plain(self.value)
        return self.other.suggest(trial, name, known)

    def contains(self, value: object, known: Mapping[str, object] = NOTHING) -> bool:
        return _plain(value) == _plain(self.value) or self.other.contains(value, known)


@dataclass(frozen=True)
class Scheduled(Parameter):
    """A constant, or a linear schedule from that value to 0."""

    start: Parameter

    def suggest(self, trial: SuggestingTrial, name: str, known: Mapping[str, object] = NOTHING) -> object:
        value = self.start.suggest(trial, name, known)
        shape = trial.suggest_categorical(f"{name} schedule", ["constant", "linear"])
        return f"lin_{value!r}" if shape == "linear" else value

    def contains(self, value: object, known: Mapping[str, object] = NOTHING) -> bool:
        if isinstance(value, str) and value.startswith("lin_"):
            try:
                value = float(value.removeprefix("lin_"))
            except ValueError:
                return False  # a schedule to another value than 0
        return self.start.contains(value, known)


@dataclass(frozen=True)
class FractionOf(Parameter, kind="Ratio"):
    """An integer, at least 1, that is sampled as a fraction of other hyperparameters.

    Gradient steps per environment step are an example.

    :param of: keys of the others; the fraction is of their product
    :param otherwise: samples the value where one of them is not a number
    """

    of: tuple[str, ...]
    low: float
    high: float
    otherwise: Parameter | None = None

    def suggest(self, trial: SuggestingTrial, name: str, known: Mapping[str, object] = NOTHING) -> object:
        product = self._product(known)
        if product is None and self.otherwise is not None:
            return self.otherwise.suggest(trial, name, known)
        ratio = trial.suggest_float(f"{name} ratio", self.low, self.high, log=True)
        return max(1, round(ratio * (product or 1)))

    def contains(self, value: object, known: Mapping[str, object] = NOTHING) -> bool:
        product = self._product(known)
        if product is None and self.otherwise is not None:
            return self.otherwise.contains(value, known)
        if value in (None, -1):  # as many as there are
            return self.low <= 1 <= self.high
        low, high = max(1, round(self.low * (product or 1))), max(1, round(self.high * (product or 1)))
        return Int(low, high).contains(value)

    def needs(self) -> set[str]:
        return super().needs() | set(self.of)

    def _product(self, known: Mapping[str, object]) -> float | None:
        values = [known.get(key, 1) for key in self.of]
        numbers = [value for value in values if _is_number(value)]
        return math.prod(numbers) if len(numbers) == len(values) else None


@dataclass(frozen=True)
class Conditional(Parameter, kind="If"):
    """A parameter that applies only where another hyperparameter (`key`) has one of some values."""

    key: str
    values: tuple[object, ...]
    then: Parameter

    def suggest(self, trial: SuggestingTrial, name: str, known: Mapping[str, object] = NOTHING) -> object:
        return self.then.suggest(trial, name, known)

    def contains(self, value: object, known: Mapping[str, object] = NOTHING) -> bool:
        return self.then.contains(value, known)

    def applies(self, known: Mapping[str, object]) -> bool:
        return known.get(self.key) in self.values

    def needs(self) -> set[str]:
        return super().needs() | {self.key}


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _label(value: object) -> Label:
    """Return what a trial records: storages keep strings, numbers, booleans and null."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(_plain(value))


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _same_layers(value: object) -> object:
    """Return `[64]` for `{pi: [64], vf: [64]}`, which means the same."""
    if isinstance(value, Mapping) and value:
        first, *others = (_plain(item) for item in value.values())
        if set(value) == {"pi", "vf"} and others == [first]:
            return first
    return _plain(value)

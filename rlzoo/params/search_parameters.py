"""Ranges of hyperparameters in a search space: how each is sampled, and which values it contains.

A parameter suggests plain values, as a YAML file would hold them. A trial records what its sampler can learn
from: `log2(n_steps)` of 9 for `n_steps` of 512, `1 - gamma` of 0.01 for `gamma` of 0.99, the initial value
and the word `linear` for a linear schedule. Some depend on values that were sampled before, or that are
fixed: `known` holds these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias, TypeGuard

from rlzoo.core.errors import UserError
from rlzoo.params.grid import NotEnumerable, walk

Known: TypeAlias = Mapping[str, object]
"""Values by key that were sampled before, or are fixed."""

Label: TypeAlias = "bool | int | float | str | None"
"""What a storage keeps of a categorical value."""

NOTHING: Known = {}
OTHER_VERSION = "the search space was not made by this version of rlzoo"


class Trial(Protocol):
    """The methods of an Optuna trial that parameters call."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float: ...

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int: ...

    def suggest_categorical(self, name: str, choices: Sequence[Label]) -> Label: ...


class Parameter:
    """Range of one hyperparameter."""

    kinds: ClassVar[dict[str, Callable[..., Parameter]]] = {}  # by the name in stored studies
    kind: ClassVar[str]

    def __init_subclass__(cls, kind: str | None = None) -> None:
        """Register a range under the name by which stored studies know it.

        :param kind: the name; None: that of the class
        """
        cls.kind = kind or cls.__name__
        Parameter.kinds[cls.kind] = cls

    def suggest(self, trial: Trial, name: str, known: Known = NOTHING) -> object:
        """Sample a value.

        :param trial: an Optuna trial, or anything with its `suggest_` methods
        :param name: the key of the hyperparameter, such as `policy_kwargs.net_arch`
        """
        raise NotImplementedError

    def contains(self, value: object, known: Known = NOTHING) -> bool:
        """Return whether a value can be sampled, or lies between two that can."""
        raise NotImplementedError

    def applies(self, known: Known) -> bool:
        """Return whether the hyperparameter has an effect."""
        return True

    def needs(self) -> set[str]:
        """Return the keys that `known` must hold."""
        return {key for part in vars(self).values() if isinstance(part, Parameter) for key in part.needs()}

    def grid(self) -> list[object] | None:
        """Return every value; None where they are not enumerable."""
        try:
            return [value for _, value in walk(lambda trial: self.suggest(trial, "value"))]
        except NotEnumerable:
            return None

    def to_json(self) -> dict[str, object]:
        """Return the range as stored studies hold it."""
        return {"kind": self.kind, **{name: _to_json(value) for name, value in vars(self).items()}}

    @staticmethod
    def from_json(values: object) -> Parameter:
        """Return the range for what `to_json` returned.

        :raises UserError: it comes from another version of rlzoo, or from another program
        """
        try:
            given = dict(values)  # type: ignore[call-overload]
            kind = Parameter.kinds[given.pop("kind")]
            return kind(**{name: _from_json(value) for name, value in given.items()})
        except (KeyError, TypeError, ValueError):
            raise UserError(OTHER_VERSION) from None


SearchSpace: TypeAlias = dict[str, Parameter]
"""Hyperparameters by key, such as `gamma` or `policy_kwargs.net_arch`, and the range of each."""


def _to_json(value: object) -> object:
    return value.to_json() if isinstance(value, Parameter) else value


def _from_json(value: object) -> object:
    if isinstance(value, Mapping) and "kind" in value:
        return Parameter.from_json(value)
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Float(Parameter):
    """Real number, uniform or, with `log`, log-uniform."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def suggest(self, trial: Trial, name: str, known: Known = NOTHING) -> float:
        return trial.suggest_float(name, self.low, self.high, log=self.log, step=self.step)

    def contains(self, value: object, known: Known = NOTHING) -> bool:
        return _is_number(value) and self.low <= value <= self.high


@dataclass(frozen=True)
class Int(Parameter):
    """Integer, uniform or, with `log`, log-uniform."""

    low: int
    high: int
    log: bool = False
    step: int = 1

    def suggest(self, trial: Trial, name: str, known: Known = NOTHING) -> int:
        return trial.suggest_int(name, self.low, self.high, log=self.log, step=self.step)

    def contains(self, value: object, known: Known = NOTHING) -> bool:
        return _is_number(value) and self.low <= value <= self.high and value % 1 == 0


@dataclass(frozen=True)
class PowerOfTwo(Parameter, kind="Power"):
    """Power of two from `low` to `high`, which are powers of two themselves."""

    low: int
    high: int

    def suggest(self, trial: Trial, name: str, known: Known = NOTHING) -> int:
        lowest, highest = self.low.bit_length() - 1, self.high.bit_length() - 1
        exponent = trial.suggest_int(f"log2({name})", lowest, highest)
        return 1 << int(exponent)

    def contains(self, value: object, known: Known = NOTHING) -> bool:
        inside = _is_number(value) and Int(self.low, self.high).contains(value)
        return inside and _is_number(value) and math.log2(value) % 1 == 0


@dataclass(frozen=True)
class OneMinusLogUniform(Parameter, kind="Near1"):
    """Number below 1 whose distance from 1 is log-uniform from `low` to `high`."""

    low: float
    high: float

    def suggest(self, trial: Trial, name: str, known: Known = NOTHING) -> float:
        return 1.0 - trial.suggest_float(f"1 - {name}", self.low, self.high, log=True)

    def contains(self, value: object, known: Known = NOTHING) -> bool:
        return _is_number(value) and self.low - 1e-9 <= 1 - value <= self.high + 1e-9


@dataclass(frozen=True, init=False)
class Choice(Parameter):
    """One of some values without an order (categorical)."""

    values: tuple[object, ...]

    def __init__(self, *choices: object, values: Iterable[object] = ()) -> None:
        object.__setattr__(self, "values", (*choices, *values))

    def suggest(self, trial: Trial, name: str, known: Known = NOTHING) -> object:
        by_label = {_label(value): value for value in self.values}
        return by_label[trial.suggest_categorical(name, list(by_label))]

    def contains(self, value: object, known: Known = NOTHING) -> bool:
        return any(_same_layers(value) == _same_layers(choice) for choice in self.values)


@dataclass(frozen=True)
class OneOrSampled(Parameter, kind="Or"):
    """Either one given value, or a value of another range."""

    value: object
    other: Parameter

    def suggest(self, trial: Trial, name: str, known: Known = NOTHING) -> object:
        label = _label(self.value)
        if trial.suggest_categorical(f"{name} is", [label, "another"]) == label:
            return _plain(self.value)
        return self.other.suggest(trial, name, known)

    def contains(self, value: object, known: Known = NOTHING) -> bool:
        return _plain(value) == _plain(self.value) or self.other.contains(value, known)


@dataclass(frozen=True)
class Scheduled(Parameter):
    """Number that is constant throughout training, or annealed linearly to 0."""

    start: Parameter

    def suggest(self, trial: Trial, name: str, known: Known = NOTHING) -> object:
        value = self.start.suggest(trial, name, known)
        shape = trial.suggest_categorical(f"{name} schedule", ["constant", "linear"])
        return f"lin_{value!r}" if shape == "linear" else value

    def contains(self, value: object, known: Known = NOTHING) -> bool:
        if isinstance(value, str) and value.startswith("lin_"):
            try:
                value = float(value.removeprefix("lin_"))
            except ValueError:
                return False  # ends at another value than 0
        return self.start.contains(value, known)


@dataclass(frozen=True)
class FractionOf(Parameter, kind="Ratio"):
    """Integer of at least 1, as a log-uniform fraction of other hyperparameters.

    :param of: keys of these; the fraction is of their product
    :param otherwise: range where one of them is not a number
    """

    of: tuple[str, ...]
    low: float
    high: float
    otherwise: Parameter | None = None

    def suggest(self, trial: Trial, name: str, known: Known = NOTHING) -> object:
        whole = self._whole(known)
        if whole is None and self.otherwise is not None:
            return self.otherwise.suggest(trial, name, known)
        ratio = trial.suggest_float(f"{name} ratio", self.low, self.high, log=True)
        return max(1, round(ratio * (whole or 1)))

    def contains(self, value: object, known: Known = NOTHING) -> bool:
        whole = self._whole(known)
        if whole is None and self.otherwise is not None:
            return self.otherwise.contains(value, known)
        if value in (None, -1):  # the whole
            return self.low <= 1 <= self.high
        low, high = max(1, round(self.low * (whole or 1))), max(1, round(self.high * (whole or 1)))
        return Int(low, high).contains(value)

    def needs(self) -> set[str]:
        return super().needs() | set(self.of)

    def _whole(self, known: Known) -> float | None:
        numbers = [number for key in self.of if _is_number(number := known.get(key, 1))]
        return math.prod(numbers) if len(numbers) == len(self.of) else None


@dataclass(frozen=True)
class Conditional(Parameter, kind="If"):
    """Range of a hyperparameter that has an effect only with some values of another one."""

    key: str
    values: tuple[object, ...]
    then: Parameter

    def suggest(self, trial: Trial, name: str, known: Known = NOTHING) -> object:
        return self.then.suggest(trial, name, known)

    def contains(self, value: object, known: Known = NOTHING) -> bool:
        return self.then.contains(value, known)

    def applies(self, known: Known) -> bool:
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

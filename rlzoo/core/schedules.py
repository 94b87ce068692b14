"""Schedules: values as functions of training progress, which `Counters` count.

A schedule is called with `progress_remaining`, which decreases from 1 (start of training) to 0 (end). As a
string, in YAML and on the command line, it is a name and numbers joined by underscores:

    lin_3e-4                        from 3e-4 to 0              LinearSchedule(3e-4, 0)
    lin_3e-4_1e-5                   from 3e-4 to 1e-5
    lin_3e-4_1e-5_0.5               the same in the first half of training, then 1e-5
    cos_3e-4, cos_3e-4_1e-5         cosine annealing to 0, to 1e-5
    exp_3e-4_1e-5                   exponential decay
    const_3e-4, 3e-4                constant
    piecewise_0:1e-3_0.5:1e-4_1:0   piecewise linear between points `fraction of training done:value`;
                                    `_outside:1e-5` adds the value before the first and after the last point
    middle_drop_7e-4, double_linear_con_7e-4, double_middle_drop_7e-4       schedules of Stable Baselines
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from rlzoo.core.errors import UserError, nearest, unknown

Schedule: TypeAlias = Callable[[float], float]


@dataclass(slots=True)
class Counters:
    """Counters of a training; the loop advances them, algorithms read them.

    :param total_timesteps: number of environment steps at which this training ends, counted from zero
    :param collected: steps of each environment since the last update, off-policy only
    :param ended: episodes that ended in these steps
    :param episodes: episodes that ended since the training began, off-policy only
    :param warm_up: actions are still random
    """

    num_timesteps: int = 0
    total_timesteps: int = 0
    iteration: int = 0
    n_updates: int = 0
    collected: int = 0
    ended: int = 0
    episodes: int = 0
    warm_up: bool = False

    @property
    def progress_remaining(self) -> float:
        """Fraction of the training that is left, from 1 to 0: the argument of every schedule."""
        return max(0.0, 1.0 - self.num_timesteps / self.total_timesteps) if self.total_timesteps else 1.0


@dataclass(frozen=True)
class ConstantSchedule:
    """Constant value `val`."""

    val: float

    def __call__(self, progress_remaining: float) -> float:
        return self.val


@dataclass(frozen=True)
class LinearSchedule:
    """Linear from `start` to `end`, which is reached after the fraction `end_fraction` of training.

    >>> LinearSchedule(3e-4, 0.0)(0.5)
    0.00015
    """

    start: float
    end: float
    end_fraction: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.end_fraction <= 1:
            raise UserError(f"end_fraction of a linear schedule must be in (0, 1], not {self.end_fraction}")

    def __call__(self, progress_remaining: float) -> float:
        left = max(0.0, 1 - (1 - progress_remaining) / self.end_fraction)
        return self.end + (self.start - self.end) * left


class SimpleLinearSchedule(LinearSchedule):
    """Linear from `initial_value` to 0.

    >>> SimpleLinearSchedule(0.1)(0.5)
    0.05
    """

    def __init__(self, initial_value: float | str) -> None:
        super().__init__(float(initial_value), 0.0)

    @property
    def initial_value(self) -> float:
        """Value at the start of training."""
        return self.start


def linear_schedule(initial_value: float | str) -> SimpleLinearSchedule:
    """Return a linear schedule from `initial_value` to 0.

    >>> linear_schedule(0.1)(0.5)
    0.05
    """
    return SimpleLinearSchedule(initial_value)


@dataclass(frozen=True)
class CosineSchedule:
    """Cosine annealing from `start` to `end`."""

    start: float
    end: float = 0.0

    def __call__(self, progress_remaining: float) -> float:
        return self.end + (self.start - self.end) * (1 - math.cos(math.pi * progress_remaining)) / 2


@dataclass(frozen=True)
class ExponentialSchedule:
    """Exponential decay from `start` to `end`, both positive."""

    start: float
    end: float

    def __post_init__(self) -> None:
        if self.start <= 0 or self.end <= 0:
            raise UserError(
                f"an exponential schedule needs two positive values, not {self.start} and {self.end}"
            )

    def __call__(self, progress_remaining: float) -> float:
        return float(self.start * (self.end / self.start) ** (1 - progress_remaining))


@dataclass(frozen=True)
class PiecewiseSchedule:
    """Piecewise linear interpolation of points.

    :param endpoints: pairs (fraction of training done, value), with increasing fractions
    :param outside_value: value before the first and after the last point; None if they cover [0, 1]
    """

    endpoints: tuple[tuple[float, float], ...]
    outside_value: float | None = None

    def __post_init__(self) -> None:
        points = tuple((float(time), float(value)) for time, value in self.endpoints)
        object.__setattr__(self, "endpoints", points)
        times = [time for time, _ in points]
        if len(points) < 2 or any(later <= earlier for earlier, later in pairwise(times)):
            raise UserError(f"a piecewise schedule needs at least two points of rising time, not {points}")
        if self.outside_value is None and (times[0] > 0 or times[-1] < 1):
            raise UserError(
                f"a piecewise schedule over [{times[0]}, {times[-1]}] of training needs an outside value"
            )

    def __call__(self, progress_remaining: float) -> float:
        done = 1 - progress_remaining
        for (left, value), (right, next_value) in pairwise(self.endpoints):
            if left <= done <= right:
                return value + (next_value - value) * (done - left) / (right - left)
        if self.outside_value is None:
            return self.endpoints[0 if done < 0 else -1][1]  # rounding, or a run longer than planned
        return self.outside_value


@dataclass(frozen=True)
class DoubleLinearConSchedule:
    """`double_linear_con` of Stable Baselines: linear at twice the rate, down to `val / 8`."""

    val: float

    def __call__(self, progress_remaining: float) -> float:
        return self.val * max(2 * progress_remaining - 1, 0.125)


@dataclass(frozen=True)
class MiddleDropSchedule:
    """`middle_drop` of Stable Baselines: linear for a quarter of training, then `0.075 * val`."""

    val: float

    def __call__(self, progress_remaining: float) -> float:
        return self.val * (progress_remaining if progress_remaining >= 0.75 else 0.075)


@dataclass(frozen=True)
class DoubleMiddleDropSchedule:
    """`double_middle_drop` of Stable Baselines: linear, then `0.075 * val`, and at last `0.125 * val`."""

    val: float

    def __call__(self, progress_remaining: float) -> float:
        if progress_remaining >= 0.75:
            return self.val * progress_remaining
        return self.val * (0.075 if progress_remaining >= 0.25 else 0.125)


@dataclass(frozen=True)
class FloatSchedule:
    """Schedule of a number or a callable, which returns Python floats."""

    value_schedule: Schedule

    def __init__(self, value_schedule: Schedule | float) -> None:
        inner = value_schedule
        if isinstance(inner, FloatSchedule):
            inner = inner.value_schedule
        if not callable(inner):
            inner = ConstantSchedule(_number(inner))
        object.__setattr__(self, "value_schedule", inner)

    def __call__(self, progress_remaining: float) -> float:
        return float(self.value_schedule(progress_remaining))

    def __repr__(self) -> str:
        return f"FloatSchedule({self.value_schedule!r})"


def get_schedule_fn(value_schedule: float | Schedule) -> Schedule:
    """Return a `FloatSchedule`, under its older name."""
    return _renamed("get_schedule_fn", FloatSchedule(value_schedule))


def get_linear_fn(start: float, end: float, end_fraction: float) -> Schedule:
    """Return a `LinearSchedule`, under its older name."""
    return _renamed("get_linear_fn", LinearSchedule(start, end, end_fraction))


def constant_fn(val: float) -> Schedule:
    """Return a `ConstantSchedule`, under its older name."""
    return _renamed("constant_fn", ConstantSchedule(val))


def _renamed(name: str, schedule: Schedule) -> Schedule:
    warnings.warn(f"{name}() is deprecated: use {type(schedule).__name__}()", stacklevel=3)
    return schedule


def make_schedule(value: float | str | Schedule) -> Schedule:
    """Return the schedule of a number, a string or a callable.

    >>> make_schedule("lin_3e-4")(0.5)
    0.00015

    :raises UserError: not a schedule; suggests the nearest name
    """
    if isinstance(value, str):
        return _parse(value)
    if callable(value) and not isinstance(value, type):
        return value if isinstance(value, _OWN) else FloatSchedule(value)
    return ConstantSchedule(_number(value))


def schedule_text(schedule: Schedule) -> str | float | None:
    """Return the value from which `make_schedule` makes an equal schedule; None for a custom callable."""
    if isinstance(schedule, FloatSchedule):
        return schedule_text(schedule.value_schedule)
    if isinstance(schedule, ConstantSchedule):
        return schedule.val
    if isinstance(schedule, PiecewiseSchedule):
        points = [f"{time!r}:{value!r}" for time, value in schedule.endpoints]
        outside = [] if schedule.outside_value is None else [f"outside:{float(schedule.outside_value)!r}"]
        return "_".join(["piecewise", *points, *outside])
    for name, kind in _KINDS.items():
        if type(schedule) is kind or (kind is LinearSchedule and isinstance(schedule, SimpleLinearSchedule)):
            numbers = list(vars(schedule).values())
            if kind is LinearSchedule and numbers[-1] == 1:
                numbers.pop()
            if kind in (LinearSchedule, CosineSchedule) and numbers[1:] == [0]:
                numbers.pop()
            return "_".join([name, *(repr(float(number)) for number in numbers)])
    return None


def lr_schedule(name: str, value: float) -> Schedule:
    """Return the schedule of Stable Baselines' argument `lr_schedule`.

    :param name: constant, linear, double_linear_con, middle_drop or double_middle_drop
    """
    if name == "linear":
        return LinearSchedule(value, 0.0)
    kinds: dict[str, Callable[[float], Schedule]] = {
        "constant": ConstantSchedule,
        "double_linear_con": DoubleLinearConSchedule,
        "middle_drop": MiddleDropSchedule,
        "double_middle_drop": DoubleMiddleDropSchedule,
    }
    if name not in kinds:
        raise unknown("lr_schedule", name, [*kinds, "linear"])
    return kinds[name](_number(value))


_KINDS: dict[str, type] = {
    "lin": LinearSchedule,
    "cos": CosineSchedule,
    "exp": ExponentialSchedule,
    "const": ConstantSchedule,
    "piecewise": PiecewiseSchedule,
    "double_linear_con": DoubleLinearConSchedule,
    "middle_drop": MiddleDropSchedule,
    "double_middle_drop": DoubleMiddleDropSchedule,
}
_COUNTS = {"lin": (1, 3), "cos": (1, 2), "exp": (2, 2)}  # how many numbers follow; others: (1, 1)
_OWN: tuple[type, ...] = (*_KINDS.values(), FloatSchedule)


def _parse(text: str) -> Schedule:
    name = next((name for name in _KINDS if text.startswith(f"{name}_")), None)
    if name is None:
        try:
            return ConstantSchedule(_number(text))
        except UserError:
            first = text.split("_")[0]
            match = nearest(first, _KINDS)
            hint = f"did you mean '{match}_...'?" if match else f"it starts with {'_, '.join(_KINDS)}_"
            raise UserError(f"{text!r} is not a schedule; {hint}") from None
    parts = text.removeprefix(f"{name}_").split("_")
    if name == "piecewise":
        return _parse_piecewise(text, parts)
    fewest, most = _COUNTS.get(name, (1, 1))
    if not fewest <= len(parts) <= most:
        count = str(fewest) if fewest == most else f"{fewest} to {most}"
        raise UserError(f"schedule {text!r}: {name}_ takes {count} number{'s' if count != '1' else ''}")
    numbers = [_number(part, text) for part in parts]
    if name == "lin" and len(numbers) == 1:
        numbers.append(0.0)
    schedule: Schedule = _KINDS[name](*numbers)
    return schedule


def _parse_piecewise(text: str, parts: list[str]) -> Schedule:
    outside = None
    points = []
    for part in parts:
        time, colon, value = part.partition(":")
        if not colon:
            raise UserError(f"schedule {text!r}: {part!r} is not a point `fraction:value`")
        if time == "outside":
            outside = _number(value, text)
        else:
            points.append((_number(time, text), _number(value, text)))
    return PiecewiseSchedule(tuple(points), outside)


def _number(value: object, where: str | None = None) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(value)  # type: ignore[arg-type]
        if not math.isfinite(number):
            raise ValueError
    except (TypeError, ValueError):
        place = f"schedule {where!r}: " if where is not None else ""
        raise UserError(f"{place}{value!r} is not a finite number") from None
    return number

"""Checks of hyperparameters against the `Config` dataclass of an algorithm.

A Config is frozen, keyword-only and flat: one field per hyperparameter, with its type, default and
description (see `rlzoo.params.descriptions`). Values are checked against the annotation of their field, so
a wrong type is found before anything runs.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any, TypeAlias, TypeGuard

from rlzoo.core.errors import UnknownArgument, UserError, unknown
from rlzoo.core.schedules import Schedule, lr_schedule, make_schedule
from rlzoo.core.signatures import TAKEN, constructor_parameters

ScheduleLike: TypeAlias = "float | str | Callable[[float], float]"
"""A number, a schedule's name such as `lin_3e-4`, or a function of the progress remaining (1 to 0)."""


class OutOfRange(UserError):
    """A hyperparameter that is too small or too large, whatever the others are."""


TrainFreq: TypeAlias = "int | tuple[int, str]"
"""Steps of each environment between two rounds of updates, or `(n, "step")` or `(n, "episode")`."""


def _is_number(value: object) -> TypeGuard[float]:
    """Return whether this is a number of Python or NumPy; NaN, as the name says, is none."""
    return isinstance(value, Real) and not isinstance(value, bool) and value == value


def _as_int(value: object) -> int:
    if not _is_number(value) or not abs(value) < 2**63 or not float(value).is_integer():
        raise TypeError  # PyTorch counts with 64 bits
    return int(value)


def _as_float(value: object) -> float:
    if not _is_number(value):
        raise TypeError
    return float(value)


def _as_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _as_schedule(value: object) -> object:
    if isinstance(value, Real):
        value = _as_float(value)
    elif not (isinstance(value, str) or callable(value)):
        raise TypeError
    if not callable(value) and _is_not_finite(value):
        raise TypeError
    make_schedule(value)  # a misspelt name is an error here, not at the first update
    return value


def _is_not_finite(value: object) -> bool:
    """Return whether this is NaN or an infinity, as a number or as a text such as `nan`."""
    try:
        return not math.isfinite(float(str(value)))
    except ValueError:
        return False


def _as_str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _as_train_freq(value: object) -> object:
    if not isinstance(value, list | tuple):
        count, unit = value, "step"
    elif len(value) == 2:
        count, unit = value
    else:
        raise TypeError
    unit = getattr(unit, "value", unit)  # of a TrainFrequencyUnit
    if unit not in ("step", "episode") or _as_int(count) < 1:
        raise TypeError
    return (_as_int(count), unit) if isinstance(value, list | tuple) else _as_int(count)


_CHECKS: dict[str, tuple[Callable[[object], Any], str]] = {
    "int": (_as_int, "a whole number"),
    "float": (_as_float, "a number"),
    "bool": (_as_bool, "true or false"),
    "str": (_as_str, "a text"),
    "TrainFreq": (_as_train_freq, "a number of steps, at least 1, or such as (1, 'episode')"),
    "ScheduleLike": (_as_schedule, "a finite number or a schedule such as 'lin_3e-4'"),
}


def field_names(config: type) -> list[str]:
    """Return the names of the hyperparameters of a Config class, in order."""
    return [field.name for field in dataclasses.fields(config)]


def schedule_names(config: type) -> list[str]:
    """Return the names of those that may be schedules."""
    return [field.name for field in dataclasses.fields(config) if "ScheduleLike" in str(field.type)]


def schedule_of(config: Any, name: str) -> Schedule | None:
    """Return the schedule of a hyperparameter; None where it is not given.

    A `learning_rate` that is a number goes by the Config's `lr_schedule`, if it has one.
    """
    value = getattr(config, name)
    if value is None:
        return None
    named = any((field.name, field.type) == ("lr_schedule", "str") for field in dataclasses.fields(config))
    if name == "learning_rate" and named and isinstance(value, Real):
        return lr_schedule(config.lr_schedule, float(value))
    return make_schedule(value)


def constructor_signature(config: type, common: Mapping[str, object]) -> inspect.Signature:
    """Return the signature of an algorithm's constructor: policy, env, hyperparameters, common arguments.

    :param common: arguments besides the hyperparameters, with their defaults
    """
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    defaults = {name: item.default for name, item in inspect.signature(config).parameters.items()}
    optional = [
        inspect.Parameter(name, kind, default=value) for name, value in {**defaults, **common}.items()
    ]
    return inspect.Signature([inspect.Parameter(name, kind) for name in ("policy", "env")] + optional)


def bind_arguments(
    owner: str, names: list[str], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> dict[str, Any]:
    """Return positional and keyword arguments by name, as Python binds them.

    :raises TypeError: too many, or one given twice
    """
    if len(args) > len(names):
        raise TypeError(f"{owner} takes at most {len(names) + 2} arguments")
    positional = dict(zip(names, args, strict=False))
    if twice := positional.keys() & kwargs.keys():
        raise TypeError(f"{owner} got several values for {sorted(twice)[0]!r}")
    return {**positional, **kwargs}


def build_config(config: type, values: Mapping[str, object], also_known: Iterable[str] = ()) -> Any:
    """Build a Config from values, each checked against the annotation of its field.

    :param also_known: further names to consider when the nearest name to an unknown one is looked for
    :raises UnknownArgument: a name that the Config lacks (also a TypeError)
    :raises UserError: a value of the wrong type or out of range
    """
    fields = {field.name: field for field in dataclasses.fields(config)}
    checked = {}
    for name, value in values.items():
        if name not in fields:
            raise unknown("hyperparameter", name, [*fields, *also_known], UnknownArgument)
        checked[name] = check_value(name, value, str(fields[name].type))
    return config(**checked)


def check_value(name: str, value: object, annotation: str) -> Any:
    """Return the value in the type of its annotation: `1e3` becomes 1000 for an int.

    :raises UserError: it has another type; names both
    """
    kinds = [kind.strip() for kind in annotation.split("|")]
    if value is None and "None" in kinds:
        return None
    known = [kind for kind in kinds if kind in _CHECKS]
    for kind in known:
        try:
            return _CHECKS[kind][0](value)
        except (TypeError, OverflowError):
            continue
        except UserError as error:  # of a schedule
            raise UserError(f"{name}: {error}") from None
    if not known:
        return value  # a field with its own checks (classes, dictionaries)
    expected = " or ".join([_CHECKS[kind][1] for kind in known] + (["null"] if "None" in kinds else []))
    if _is_number(value) and 2**63 <= abs(value) < math.inf:
        expected += " below 2**63"
    raise UserError(f"{name} must be {expected}, not {value!r}")


def check_range(
    config: object,
    names: Iterable[str],
    low: float = float("-inf"),
    high: float = float("inf"),
    above: bool = False,
) -> None:
    """Check that fields are in [low, high] (with `above`: in (low, high]), except functions and None.

    A schedule such as "lin_3e-4" is checked by its value at the start.

    :raises OutOfRange: naming the field, its value and the range
    """
    for name in names:
        value = getattr(config, name)
        number = make_schedule(value)(1.0) if isinstance(value, str) else value
        if not isinstance(number, int | float) or isinstance(number, bool):
            continue
        if (low < number if above else low <= number) and number <= high:
            continue
        bounds = f"{'above' if above else 'at least'} {low:g}" + (
            f" and at most {high:g}" if high != float("inf") else ""
        )
        raise OutOfRange(f"{name} must be {bounds}, not {value!r}")


def check_unused(config: Any, names: Iterable[str], needed: str) -> None:
    """Check that fields without effect have their default values.

    :param needed: what would give them one, such as "prioritized_replay=True"
    :raises UserError: naming the first that was changed
    """
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    for name in names:
        if (value := getattr(config, name)) not in (defaults[name], None):
            raise UserError(f"{name} is of no use without {needed}, but it is {value!r}")


CHECKED_TYPES = {"bool", "int", "float", "str", "None"}  # annotations that values are checked against


def check_arguments(
    where: str, function: Callable[..., object], kwargs: Mapping[str, object], also_known: Iterable[str] = ()
) -> None:
    """Check that a function has these keywords, and that plain values are of the types it declares.

    :param also_known: further keywords, which somebody else takes
    :raises UserError: names the nearest keyword, or the value and its type
    """
    if not kwargs:
        return
    parameters = dict(inspect.signature(function).parameters)
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if isinstance(function, type):  # its base classes may declare what it passes on
        parameters = {**constructor_parameters(function), **parameters}
    for key, value in kwargs.items():
        if key in parameters:
            annotation = str(parameters[key].annotation)
            if set(annotation.split(" | ")) <= CHECKED_TYPES:
                check_value(f"{where}: {key}", value, annotation)
        elif not open_ended and key not in also_known:
            raise unknown(f"argument of {where}", key, {*parameters, *also_known})


def check_constructor(where: str, cls: type, kwargs: Mapping[str, object], wraps: bool = False) -> None:
    """Check the keywords of a constructor as `check_arguments` does, and that none is missing.

    :param wraps: the first argument is an environment, which is not among the keywords
    :raises UserError: names an unknown, a missing or a superfluous keyword
    """
    parameters = list(inspect.signature(cls).parameters.values())
    given = parameters[0].name if wraps and parameters else None
    if given in kwargs:
        raise UserError(f"{where}: {given} is the environment, which is given by rlzoo; leave it out")
    check_arguments(where, cls, kwargs)
    missing = [
        item.name
        for item in parameters
        if item.kind in TAKEN and item.default is item.empty and item.name not in (given, *kwargs)
    ]
    if missing:
        example = ", ".join(f"{name}: ..." for name in missing)
        how = f": write {{{where.split()[-1]}: {{{example}}}}}" if wraps else ""
        raise UserError(f"{where} needs {' and '.join(missing)}{how}")

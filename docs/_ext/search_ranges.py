"""Say in words which values `rlzoo optimize` samples for a hyperparameter."""

from __future__ import annotations

from fractions import Fraction
from functools import singledispatch

from rlzoo.params.search_parameters import (
    Choice,
    Conditional,
    Float,
    FractionOf,
    Int,
    OneMinusLogUniform,
    OneOrSampled,
    Parameter,
    PowerOfTwo,
    Scheduled,
)


def number(value: object) -> str:
    """Write a number or another plain value briefly: `1e-05`, `2,000,000`, `None`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(list(value) if isinstance(value, tuple) else value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


@singledispatch
def in_words(parameter: Parameter) -> str:
    """Return the values of a parameter as a phrase in Markdown.

    :raises NotImplementedError: a kind of parameter that has no words here
    """
    raise NotImplementedError(type(parameter).__name__)


@in_words.register(Float)
@in_words.register(Int)
def _(parameter: Float | Int) -> str:
    text = f"{number(parameter.low)} to {number(parameter.high)}"
    return f"{text}, logarithmic" if parameter.log else text


@in_words.register
def _(parameter: PowerOfTwo) -> str:
    return f"{number(parameter.low)} to {number(parameter.high)}, powers of 2"


@in_words.register
def _(parameter: OneMinusLogUniform) -> str:
    low, high = (f"{1 - bound:.6g}" for bound in (parameter.high, parameter.low))
    return f"{low} to {high}, logarithmic in the distance from 1"


@in_words.register
def _(parameter: Choice) -> str:
    return ", ".join(f"`{number(value)}`" for value in parameter.values)


@in_words.register
def _(parameter: OneOrSampled) -> str:
    return f"`{number(parameter.value)}`, or {in_words(parameter.other)}"


@in_words.register
def _(parameter: Scheduled) -> str:
    return f"{in_words(parameter.start)}; constant or falling linearly to 0"


@in_words.register
def _(parameter: FractionOf) -> str:
    of = " and ".join(f"`{key}`" for key in parameter.of)
    low, high = (str(Fraction(bound).limit_denominator(64)) for bound in (parameter.low, parameter.high))
    factor = of if len(parameter.of) == 1 else f"the product of {of}"
    text = f"{low} to {high} times {factor}, logarithmic"
    if parameter.otherwise is None:
        return text
    return f"{text}; where that is no number, {in_words(parameter.otherwise)}"


@in_words.register
def _(parameter: Conditional) -> str:
    values = " or ".join(f"`{number(value)}`" for value in parameter.values)
    return f"{in_words(parameter.then)}; only if `{parameter.key}` is {values}"

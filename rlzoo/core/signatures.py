"""Inspect the arguments of constructors, and who has written a class or function."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

TAKEN = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def is_own(owner: Any) -> bool:
    """Return whether a class or function is one of rlzoo, also behind a decorator of `functools.wraps`."""
    module = getattr(owner, "__globals__", {}).get("__name__", owner.__module__)
    return str(module).startswith("rlzoo.")


def constructor_parameters(cls: type) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a constructor by name, with those of base classes if it has `**kwargs`."""
    found: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if "__init__" not in base.__dict__ or base is object:
            continue
        parameters = list(inspect.signature(base.__dict__["__init__"]).parameters.values())[1:]  # not self
        for parameter in parameters:
            if parameter.kind in TAKEN:
                found.setdefault(parameter.name, parameter)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return found

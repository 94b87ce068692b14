"""Gradient steps that leave no autograd graph behind in the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


def detached_step(model: Any) -> Callable[..., object]:
    """Return the gradient step of a model, after which the distributions of its policy hold values alone.

    A policy keeps the distribution that it has computed last, and with it the graph of the loss. A compiled
    program cannot return that, and on a GPU the next step on another stream would wait for the stream of a
    graph that lives on.
    """
    step = model.gradient_step
    owners = [model.policy, getattr(model.policy, "actor", None)]
    distributions = [owner.action_dist for owner in owners if hasattr(owner, "action_dist")]

    def gradient_step(batch: object, **arguments: object) -> object:
        result = step(batch, **arguments)
        for distribution in distributions:
            detach_tensors(distribution)
        return result

    return gradient_step


def detach_tensors(distribution: object) -> None:
    """Replace the tensors that a distribution keeps by the same without gradients."""
    for part in (distribution, *getattr(distribution, "parts", ())):
        for name in slots_of(type(part)):
            value = getattr(part, name, None)
            if isinstance(value, Tensor) and value.requires_grad and not isinstance(value, nn.Parameter):
                setattr(part, name, value.detach())


def slots_of(cls: type) -> list[str]:
    """Return the names of the attributes that instances have besides those in `__dict__`."""
    return [name for base in cls.__mro__ for name in getattr(base, "__slots__", ())]


@contextmanager
def replaced_step(model: Any, step: Callable[..., Any]) -> Iterator[None]:
    """Let `step` be the `gradient_step` of a model inside; afterwards one that a script has set is back."""
    inside = {"gradient_step": step, "is_captured": True}
    own = {name: vars(model)[name] for name in inside if name in vars(model)}
    vars(model).update(inside)
    try:
        yield
    finally:
        is_ours = vars(model).get("gradient_step") is step  # else a callback has set another, which stays
        for name in inside if is_ours else ("is_captured",):
            vars(model).pop(name, None)
        vars(model).update(own if is_ours else {})

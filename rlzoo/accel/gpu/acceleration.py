"""Captured and compiled gradient steps for the time of a training, as `cuda_graphs` and `compile` ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from rlzoo.accel.gpu.capturable import (
    GraphDependencies,
    cannot_be_captured,
    capturable,
    make_capturable,
)
from rlzoo.accel.gpu.captured_step import CapturedStep, CudaGraph, Graph
from rlzoo.accel.gpu.detached_step import detached_step, replaced_step
from rlzoo.core.errors import UserError

CHOICES = ("off", "auto", "on")


@contextmanager
def accelerated(model: Any, cuda_graphs: str, is_safe: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Capture or compile the gradient steps of a model inside.

    :param model: an algorithm; `compile_networks` of it says whether to compile
    :param cuda_graphs: "off", "on", or "auto", where it is possible
    :param is_safe: says after changes whether to go on capturing
    :raises UserError: `cuda_graphs` is "on", and its gradient steps cannot be captured
    """
    with ExitStack() as stack:
        if model.compile_networks:
            check_compilable(model)
            from rlzoo.accel.gpu.compiled_step import compiled  # it imports PyTorch's compiler

            stack.enter_context(compiled(model))
        is_replayed = isinstance(vars(model).get("gradient_step"), CapturedStep)
        if cuda_graphs != "off" and may_capture(model) and not is_replayed:
            stack.enter_context(captured(model, is_safe=is_safe))
        yield


def check_acceleration(model: Any) -> None:
    """Check what `learn` will do, before anything is trained.

    :raises UserError: gradient steps cannot be captured or compiled
    """
    if model.compile_networks:
        check_compilable(model)
    if model.cuda_graphs != "off":
        may_capture(model)


def check_compilable(model: Any) -> None:
    """:raises UserError: the gradient steps of a model cannot be compiled"""
    from rlzoo.accel.gpu.compiled_step import cannot_be_compiled, require_compiler

    require_compiler(model.device)
    if (reason := why_not_algorithm(model) or cannot_be_compiled(model)) is not None:
        raise UserError(f"compile is not possible: {reason}")


def may_capture(model: Any) -> bool:
    """Return whether to capture the gradient steps of a model.

    :raises UserError: `cuda_graphs` is unknown, or "on" where they cannot be captured
    """
    if model.cuda_graphs not in CHOICES:
        raise UserError(f"cuda_graphs must be one of {', '.join(CHOICES)}, not {model.cuda_graphs!r}")
    reason = why_not(model)
    if reason is not None and model.cuda_graphs == "on":
        raise UserError(f"cuda_graphs cannot be on: {reason}")
    return reason is None


def why_not(model: Any) -> str | None:
    """Return why the gradient steps of a model cannot be captured, else None."""
    name = type(model).__name__
    if model.device.type != "cuda":
        return f"the agent is on the {model.device.type.upper()}, and CUDA graphs need a CUDA device"
    return why_not_algorithm(model) or _optimizer_problem(model, name)


def why_not_algorithm(model: Any) -> str | None:
    """Return why a model can be neither captured nor compiled on any device, else None."""
    name = type(model).__name__
    if not hasattr(type(model), "gradient_step"):
        return f"{name} has no gradient step that could be captured or compiled"
    if model.overrides_train:
        return f"{name} overrides train(), which takes the gradient steps"
    if getattr(model, "recurrent", False):
        return "recurrent policies have sequences of different lengths"
    if getattr(model, "ranks", None) is not None:
        return "several ranks exchange their gradients in each step"
    if getattr(model.config, "target_kl", None) is not None:
        return "target_kl stops an update between two gradient steps"
    if getattr(model, "parameter_noise", None) is not None:
        return "param_noise adapts itself between gradient steps"
    return None


def _optimizer_problem(model: Any, name: str) -> str | None:
    optimizer = cannot_be_captured(optimizers_of(model))
    return None if optimizer is None else f"steps of {optimizer}, an optimiser of {name}, are not captured"


def optimizers_of(model: Any) -> list[torch.optim.Optimizer]:
    """Return the optimisers of a model."""
    return [part for part in model.state().values() if isinstance(part, torch.optim.Optimizer)]


@contextmanager
def captured(
    model: Any,
    new_graph: Callable[[torch.device], Graph] = CudaGraph,
    is_safe: Callable[[], bool] = lambda: True,
) -> Iterator[CapturedStep]:
    """Replace the `gradient_step` of a model, also a compiled one, by a captured one inside.

    :param new_graph: makes a graph
    :param is_safe: says after changes whether to go on capturing
    """
    compiled_step = vars(model).get("gradient_step")
    prepared: list[torch.optim.Optimizer] = []

    def may_replay() -> bool:
        changed = why_not_algorithm(model) or _optimizer_problem(model, type(model).__name__)
        return changed is None and is_safe()

    with ExitStack() as stack:

        def prepare(optimizers: list[torch.optim.Optimizer]) -> None:
            if compiled_step is not None or cannot_be_captured(optimizers):
                return  # a compiled step prepares them itself
            for optimizer in optimizers:
                if any(optimizer is one for one in prepared):
                    make_capturable(optimizer, model.device)  # its options were replaced
                else:
                    stack.enter_context(capturable([optimizer], model.device))
                    prepared.append(optimizer)

        dependencies = GraphDependencies(model, prepare)
        step = CapturedStep(
            compiled_step or detached_step(model),
            model.device,
            new_graph,
            dependencies.have_changed,
            may_replay,
        )
        try:
            with replaced_step(model, step):
                yield step
        finally:
            model.set_training_mode(False)  # a replay leaves the mode as it was

"""Gradient steps compiled by `torch.compile`: losses, gradients, optimisers and target networks in one.

A gradient step of a small network is a few hundred operations, most of which take less time than calling
them. Compiled, everything but the matrix products becomes a few loops over memory, in C++ or Triton. The code
of the algorithm is traced as it stands; only where it asks for gradients and for a step of an optimiser,
`TracedParameters` says the same in tensor operations.

Compiling takes seconds to a minute at the first step. PyTorch keeps its results on disk, so that the next
training of the same networks starts faster.
"""

from __future__ import annotations

import importlib.util
import math
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo import config as dynamo
from torch._dynamo.exc import BackendCompilerFailed
from torch._dynamo.utils import counters
from torch._inductor.exc import InductorError

from rlzoo.accel.gpu.capturable import capturable, is_known, network_optimizers_of, release
from rlzoo.accel.gpu.detached_step import detached_step, replaced_step
from rlzoo.core.errors import UserError

PROGRAMS = 1_000  # agents of one process that may have some each; PyTorch's default is 8 for all

STATE: dict[type[torch.optim.Optimizer], tuple[str, ...]] = {
    torch.optim.AdamW: ("exp_avg", "exp_avg_sq"),
    torch.optim.Adam: ("exp_avg", "exp_avg_sq"),
    torch.optim.RMSprop: ("square_avg",),
}
"""What the optimisers with compiled steps keep, as large as the parameters; AdamW is derived from Adam."""
UNSUPPORTED = ("amsgrad", "maximize", "differentiable", "momentum", "centered")
"""Options of these that `TracedParameters` has no arithmetic for."""


def require_compiler(device: torch.device) -> None:
    """:raises UserError: there is no compiler for the code that `torch.compile` writes"""
    if device.type == "cpu" and shutil.which("g++") is None and shutil.which("clang++") is None:
        raise UserError("compile needs a C++ compiler on the CPU: install g++ (Debian: apt install g++)")
    if device.type == "cuda" and importlib.util.find_spec("triton") is None:
        raise UserError("compile needs Triton on a CUDA device: pip install triton")
    if not hasattr(dynamo, "trace_autograd_ops"):
        raise UserError(f"compile needs a newer PyTorch than {torch.__version__}, such as 2.13")


def cannot_be_compiled(model: Any) -> str | None:
    """Return why the optimisers of a model cannot be compiled, else None."""
    problems = (problem_of(optimizer.owner.optimizer) for optimizer in network_optimizers_of(model))
    return next(filter(None, problems), None)


def problem_of(optimizer: torch.optim.Optimizer) -> str | None:
    """Return why steps of an optimiser cannot be compiled, else None."""
    name = type(optimizer).__name__
    has_arithmetic = isinstance(optimizer, tuple(STATE)) and is_known(optimizer)
    if not has_arithmetic or len(optimizer.param_groups) != 1:
        return f"steps of {name} are not compiled, only those of Adam, AdamW and RMSprop"
    used = [option for option in UNSUPPORTED if optimizer.param_groups[0].get(option)]
    return f"steps of {name} with {used[0]} are not compiled" if used else None


class TracedParameters:
    """The parameters of a network, whose gradients and optimiser steps can be traced.

    It takes the place of their `ParameterGroup`.

    :param group: the `ParameterGroup`
    :param optimizer: of these; its state stays where it is, and is updated in place
    """

    def __init__(self, group: Any, optimizer: torch.optim.Optimizer) -> None:
        self.parameters: list[nn.Parameter] = group.parameters
        self.gradients: list[Tensor] = []
        self.adopt(optimizer)

    def adopt(self, optimizer: torch.optim.Optimizer) -> None:
        """Find the state of an optimiser; somebody may have replaced it by that of a file, or by another."""
        self.kept = optimizer
        self.kind = next(kind for kind in STATE if isinstance(optimizer, kind))
        self.settings = self.kept.param_groups[0]
        if not isinstance(self.settings["lr"], Tensor):  # as `capturable` has it, and a file has not
            device = self.parameters[0].device
            self.settings |= {
                "lr": torch.tensor(float(self.settings["lr"]), device=device),
                "capturable": True,
            }
        vectors: list[Tensor] = self.settings["params"]
        for vector in vectors:
            if not (state := self.kept.state[vector]):
                state["step"] = torch.zeros((), device=vector.device)
                state.update({name: torch.zeros_like(vector) for name in STATE[self.kind]})
        self.found = [self.kept.state[vector][STATE[self.kind][0]] for vector in vectors]
        self.steps: list[Tensor] = [self.kept.state[vector]["step"] for vector in vectors]
        self.columns = [
            self._by_parameter([self.kept.state[vector][name] for vector in vectors])
            for name in STATE[self.kind]
        ]

    @property
    def is_current(self) -> bool:
        """Whether the optimiser still has the options and the state that were found."""
        if self.kept.param_groups[0] is not self.settings:
            return False
        states = (self.kept.state[vector] for vector in self.settings["params"])
        first = STATE[self.kind][0]
        return all(state.get(first) is found for state, found in zip(states, self.found, strict=True))

    def _by_parameter(self, values: list[Tensor]) -> list[Tensor]:
        """Return a view for each parameter of what is one vector, or a tensor for each parameter already."""
        if len(values) != len(self.parameters):
            values = list(values[0].split([parameter.numel() for parameter in self.parameters]))
        return [value.view_as(parameter) for value, parameter in zip(values, self.parameters, strict=True)]

    def recorded(self, owner: object) -> AbstractContextManager[None]:
        """See `ParameterGroup.recorded`; a traced step evaluates modules."""
        return nullcontext()

    def backward(self, loss: Any, only: bool = False) -> None:
        trained = [parameter for parameter in self.parameters if parameter.requires_grad]
        if isinstance(loss, Tensor):
            found = iter(torch.autograd.grad(loss, trained, allow_unused=True) if trained else ())
        else:  # `KnownGradients`, which a step has that is not compiled
            found = iter(loss.grad(trained, allow_unused=True) if trained else ())
        self.gradients = []
        for parameter in self.parameters:
            gradient = next(found) if parameter.requires_grad else None
            self.gradients.append(torch.zeros_like(parameter) if gradient is None else gradient)

    def clip_grad_norm(self, max_norm: float) -> Tensor:
        squares = torch.stack([gradient.square().sum() for gradient in self.gradients])
        norm = squares.sum().sqrt()
        scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        self.gradients = [gradient * scale for gradient in self.gradients]
        return norm

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        gradients, self.gradients = self.gradients, []
        lr, decay = self.settings["lr"], self.settings["weight_decay"]
        with torch.no_grad():
            for step in self.steps:
                step.add_(1)
            is_rmsprop = self.kind is torch.optim.RMSprop
            change, rates = (self._rmsprop, (lr,)) if is_rmsprop else (self._adam, self._rates_of_adam())
            for i, (parameter, gradient) in enumerate(zip(self.parameters, gradients, strict=True)):
                if not parameter.requires_grad:
                    continue
                if decay and self.kind is torch.optim.AdamW:
                    parameter.mul_(1 - lr * decay)
                elif decay:
                    gradient = gradient + decay * parameter
                moments = [column[i] for column in self.columns]
                parameter.sub_(change(gradient, *moments, *rates))

    def _rates_of_adam(self) -> tuple[Tensor, Tensor]:
        """Return the learning rate and the factor of the root, both with Adam's bias correction.

        PyTorch's compiler computes an exponential that several loops use once, but a power in each loop, for
        each of its vectors: half of the time of the loop over 300 x 400 weights.
        """
        log1, log2 = (math.log(beta) if beta else -math.inf for beta in self.settings["betas"])
        step = self.steps[0]
        return self.settings["lr"] / (1 - (step * log1).exp()), (1 - (step * log2).exp()).rsqrt()

    def _adam(self, gradient: Tensor, average: Tensor, square: Tensor, lr: Tensor, factor: Tensor) -> Tensor:
        """Update the averages; return the change of Adam (Kingma and Ba 2015, algorithm 1)."""
        beta1, beta2 = self.settings["betas"]
        average.lerp_(gradient, 1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        return lr * average / (square.sqrt() * factor + self.settings["eps"])

    def _rmsprop(self, gradient: Tensor, square: Tensor, lr: Tensor) -> Tensor:
        """Update the average; return the change of RMSprop, whose epsilon is outside the root."""
        alpha = self.settings["alpha"]
        square.mul_(alpha).addcmul_(gradient, gradient, value=1 - alpha)
        return lr * gradient / (square.sqrt() + self.settings["eps"])


class CompiledStep:
    """The gradient step of a model, compiled at its first call; called with what it takes otherwise.

    Floats among the arguments become tensors, so that schedules need no further programs.

    :param model: an algorithm with a `gradient_step` whose work does not depend on the values of tensors
    """

    def __init__(self, model: Any) -> None:
        self.model, self.name, self.device = model, type(model).__name__, model.device
        self.own: object = vars(model).get("gradient_step")  # of a script
        self.any_threads: bool = model.threads.is_active  # else C++ is compiled for each number of threads
        self.network_optimizers = network_optimizers_of(model)
        self.groups = [optimizer.parameters for optimizer in self.network_optimizers]
        self.optimizers = [optimizer.owner.optimizer for optimizer in self.network_optimizers]
        self.traced = [TracedParameters(*pair) for pair in zip(self.groups, self.optimizers, strict=True)]
        options: dict[str, Any] = {
            "fallback_random": True,  # the random numbers of steps that are not compiled
            "cpp.dynamic_threads": self.any_threads,
        }
        self.compiled = torch.compile(detached_step(model), dynamic=False, options=options)

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """Return None: the copy of an agent has other parameters."""

    def is_for(self, model: Any) -> bool:
        """Return whether a model still has the parameters and optimisers that the step was compiled for.

        Nor does it fit where the number of threads was fixed and is adapted now, or the other way round, or a
        script has replaced `gradient_step`.
        """
        if model.threads.is_active != self.any_threads or vars(model).get("gradient_step") is not self.own:
            return False
        present = network_optimizers_of(model)
        parts = [part for optimizer in present for part in (optimizer.parameters, optimizer.owner.optimizer)]
        known = [part for pair in zip(self.groups, self.optimizers, strict=True) for part in pair]
        return len(parts) == len(known) and all(one is two for one, two in zip(parts, known, strict=True))

    def __call__(self, batch: Any, **arguments: object) -> Any:
        for optimizer, parameters in zip(self.network_optimizers, self.traced, strict=True):
            present = optimizer.owner.optimizer
            if present is not parameters.kept or not parameters.is_current:
                if (reason := problem_of(present)) is not None:
                    raise UserError(f"compile is not possible: {reason}")
                parameters.adopt(present)
        given = {
            name: torch.full((), value, device=self.device) if isinstance(value, float) else value
            for name, value in arguments.items()
        }
        n_programs = counters["stats"]["unique_graphs"]
        try:
            result = self.compiled(batch, **given)
        except (BackendCompilerFailed, InductorError) as error:
            raise UserError(
                f"the gradient step of {self.name} cannot be compiled here; train without compile."
                f" The compiler says: {str(error).strip().splitlines()[0]}"
            ) from error
        if counters["stats"]["unique_graphs"] > n_programs:
            self.model.threads.ignore_step()  # its time says nothing of the number of threads
        return result


@contextmanager
def compiled(model: Any) -> Iterator[None]:
    """Replace the `gradient_step` of a model by a compiled one inside; a later training uses it again."""
    if model.compiled_step is None or not model.compiled_step.is_for(model):
        model.compiled_step = CompiledStep(model)
    step: CompiledStep = model.compiled_step
    config: Any = dynamo
    settings = {
        "trace_autograd_ops": True,
        "recompile_limit": PROGRAMS,
        "accumulated_recompile_limit": PROGRAMS,
    }
    with config.patch(**settings), capturable(step.optimizers, model.device):
        for optimizer, traced in zip(step.network_optimizers, step.traced, strict=True):
            optimizer.parameters = traced
        try:
            with replaced_step(model, step):
                yield
        finally:
            for traced in step.traced:
                release(traced.kept.param_groups[0])
            for optimizer, group in zip(step.network_optimizers, step.groups, strict=True):
                optimizer.parameters = group

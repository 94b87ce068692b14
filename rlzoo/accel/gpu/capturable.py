"""What captured and compiled gradient steps need to know of a model and of its optimisers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


def network_optimizers_of(model: Any) -> list[Any]:
    """Return what minimises the losses of a model: each `NetworkOptimizer` of it."""
    owners = [model, getattr(model, "entropy_coefficient", None)]
    values = [value for owner in owners if owner is not None for value in vars(owner).values()]
    return [value for value in values if hasattr(value, "owner") and hasattr(value, "parameters")]


def is_known(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether the steps of an optimiser are those of PyTorch or of this package."""
    step_of = next(base for base in type(optimizer).__mro__ if "step" in vars(base)).__module__
    return step_of.startswith(("torch.optim.", "rlzoo."))


def cannot_be_captured(optimizers: Iterable[torch.optim.Optimizer]) -> str | None:
    """Return the name of the first optimiser whose steps cannot be captured, else None."""
    for optimizer in optimizers:
        if not all("capturable" in group for group in optimizer.param_groups):
            return type(optimizer).__name__
    return None


@contextmanager
def capturable(optimizers: Iterable[torch.optim.Optimizer], device: torch.device) -> Iterator[None]:
    """Let optimisers be captured inside; their state dicts are as outside: numbers, and not capturable."""
    chosen = list(optimizers)
    hooks = [optimizer.register_state_dict_post_hook(_as_outside) for optimizer in chosen]
    for optimizer in chosen:
        make_capturable(optimizer, device)
    try:
        yield
    finally:
        for hook, optimizer in zip(hooks, chosen, strict=True):
            hook.remove()
            for group in optimizer.param_groups:
                release(group)


def make_capturable(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """Keep learning rate and step count of an optimiser as tensors of the device."""
    for group in optimizer.param_groups:
        group["capturable"] = True
        group["lr"] = torch.tensor(float(group["lr"]), device=device)
    for state in optimizer.state.values():
        if isinstance(step := state.get("step"), Tensor):
            state["step"] = step.to(device)


def _as_outside(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    groups = [dict(group) for group in state["param_groups"]]
    for group in groups:
        release(group)
    return {**state, "param_groups": groups}


def release(group: dict[str, Any]) -> None:
    """Give the options of an optimiser the values that they have outside."""
    group["capturable"], group["lr"] = False, float(group["lr"])


READ_ELSEWHERE = {
    "learning_rate", "learning_starts", "train_freq", "gradient_steps", "batch_size", "n_epochs",
    "clip_range", "clip_range_vf",
}  # fmt: skip
"""Hyperparameters that a gradient step does not read, or is given as arguments or tensors."""


class GraphDependencies:
    """What a captured gradient step depends on besides the values of tensors.

    A graph holds only while the hyperparameters, the policy, the optimisers with their options and averages,
    the memory of the parameters, and the choice of those that are trained stay the same. A callback may
    change any of them.

    :param model: an algorithm
    :param prepare: called with the optimisers that take the steps, at first and after each change
    """

    def __init__(self, model: Any, prepare: Callable[[list[torch.optim.Optimizer]], None]) -> None:
        self.model, self.prepare = model, prepare
        self._note()

    def have_changed(self) -> bool:
        """Return whether something else is there than at the last call."""
        objects = self._objects()
        same_objects = len(objects) == len(self.objects) and all(map(operator.is_, objects, self.objects))
        if same_objects and self._numbers() == self.numbers and self._same_hyperparameters():
            return False
        self._note()
        return True

    def _note(self) -> None:
        self.network_optimizers = network_optimizers_of(self.model)
        self.prepare([network.owner.optimizer for network in self.network_optimizers])
        self.config, self.hyperparameters = self.model.config, self._hyperparameters()
        self.objects, self.numbers = self._objects(), self._numbers()

    def _hyperparameters(self) -> dict[str, object]:
        return {name: value for name, value in vars(self.model.config).items() if name not in READ_ELSEWHERE}

    def _same_hyperparameters(self) -> bool:
        if self.model.config is self.config:
            return True
        self.config = self.model.config
        return self._hyperparameters() == self.hyperparameters

    def _numbers(self) -> list[float | None]:
        """Return the target entropy, and where the parameters are in memory."""
        target_entropy = getattr(getattr(self.model, "entropy_coefficient", None), "target_entropy", None)
        groups = [network.parameters.parameters for network in self.network_optimizers]
        groups += [value.copies for value in vars(self.model).values() if hasattr(value, "copies")]
        return [target_entropy, *(parameter.data_ptr() for group in groups for parameter in group)]

    def _objects(self) -> list[object]:
        model = self.model
        found = [model.policy, getattr(model, "entropy_coefficient", None)]
        for network in self.network_optimizers:
            optimizer = network.owner.optimizer
            found.append(optimizer)
            for group in optimizer.param_groups:
                found += [group, *group.values()]
            for state in optimizer.state.values():
                found += [value for value in state.values() if isinstance(value, Tensor)]
            found += [parameter.requires_grad for parameter in network.parameters.parameters]
        return found

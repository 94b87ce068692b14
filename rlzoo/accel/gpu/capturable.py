"""Optimisers whose steps can be captured: learning rate and step count are tensors of the device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


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
        for group in optimizer.param_groups:
            group["capturable"] = True
            group["lr"] = torch.tensor(float(group["lr"]), device=device)
        for state in optimizer.state.values():
            if isinstance(step := state.get("step"), Tensor):
                state["step"] = step.to(device)
    try:
        yield
    finally:
        for hook, optimizer in zip(hooks, chosen, strict=True):
            hook.remove()
            for group in optimizer.param_groups:
                release(group)


def _as_outside(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    groups = [dict(group) for group in state["param_groups"]]
    for group in groups:
        release(group)
    return {**state, "param_groups": groups}


def release(group: dict[str, Any]) -> None:
    """Give the options of an optimiser the values that they have outside."""
    group["capturable"], group["lr"] = False, float(group["lr"])

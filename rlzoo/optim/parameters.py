"""Parameters chosen by name, parameters in pairs, and the learning rate of an optimiser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn


def get_parameters_by_name(model: nn.Module, included_names: Iterable[str]) -> list[torch.Tensor]:
    """Return parameters and buffers of a module whose names contain one of some texts.

    :param model: the module
    :param included_names: texts such as `"running_"`
    :return: tensors in the order of `state_dict`, sharing memory with the module
    """
    texts = list(included_names)
    return [value for name, value in model.state_dict().items() if any(text in name for text in texts)]


def update_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Give every parameter group of an optimiser a learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate


def zip_strict(*iterables: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Return `zip(*iterables, strict=True)`.

    :raises ValueError: while iterating, when one of them ends before another
    """
    return zip(*iterables, strict=True)

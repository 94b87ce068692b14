"""Slow-moving averages of parameters (Polyak averaging), for target networks."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


@torch.no_grad()
def polyak_update(params: Iterable[Tensor], target_params: Iterable[Tensor], tau: float) -> None:
    """target <- tau * param + (1 - tau) * target, in place.

    :param tau: 1 copies, 0 changes nothing
    :raises ValueError: when the two have different lengths
    """
    sources, targets = list(params), list(target_params)
    if len(sources) != len(targets):
        raise ValueError(f"{len(sources)} parameters cannot update {len(targets)} target parameters")
    if sources:
        torch._foreach_lerp_(targets, sources, tau)

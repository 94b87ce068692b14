"""Slow-moving averages of parameters (Polyak averaging): target networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rlzoo.accel.flat_parameters import FlatParameters, flatten


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


class Target:
    """A network that follows another one slowly.

    :param flat: the parameters of `source` that are learned, in one vector; those of `target` are laid out
        alike, so that an average is one operation
    :param source: the network that learns; parameters outside of `flat` (a shared extractor) are followed too
    :param target: its copy, which takes its values now and never has gradients
    """

    def __init__(self, flat: FlatParameters, source: nn.Module, target: nn.Module) -> None:
        self.target = target
        target.load_state_dict(source.state_dict())
        target.requires_grad_(False)
        followers = {
            id(mine): own for mine, own in zip(source.parameters(), target.parameters(), strict=True)
        }
        self.source_vector = flat.vector.detach()
        self.vector = flatten([followers.pop(id(parameter)) for parameter in flat.parameters])
        self.others = [(mine, followers[id(mine)]) for mine in source.parameters() if id(mine) in followers]
        self.statistics = list(zip(source.buffers(), target.buffers(), strict=True))

    @torch.no_grad()
    def update(self, tau: float) -> None:
        """target <- tau * source + (1 - tau) * target; statistics of normalisation layers are copied."""
        self.vector.lerp_(self.source_vector, tau)
        if self.others:
            mine, own = zip(*self.others, strict=True)
            polyak_update(mine, own, tau)
        for gathered, copied in self.statistics:
            copied.copy_(gathered)

    def state_dict(self) -> dict[str, Any]:
        """Of the network that follows."""
        return self.target.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """:raises RuntimeError: of another network"""
        self.target.load_state_dict(state)

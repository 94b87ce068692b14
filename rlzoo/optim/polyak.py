"""Polyak averaging of parameters: target networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rlzoo.accel.flat_parameters import FlatParameters, ParameterGroup, flatten
from rlzoo.accel.foreach import foreach_lerp_


@torch.no_grad()
def polyak_update(params: Iterable[Tensor], target_params: Iterable[Tensor], tau: float) -> None:
    """Update target <- tau * param + (1 - tau) * target, in place.

    :param tau: 1 copies, 0 changes nothing
    :raises ValueError: when the two have different lengths
    """
    sources, targets = list(params), list(target_params)
    if len(sources) != len(targets):
        raise ValueError(f"{len(sources)} parameters cannot update {len(targets)} target parameters")
    if sources:
        foreach_lerp_(targets, sources, tau)


class TargetNetwork:
    """Target network, updated by Polyak averaging.

    :param parameters: trainable parameters of the online network
    :param online: the online network; its other parameters (of a shared extractor) are averaged too
    :param target: a network of the same shape; it takes the values of the online one, and has no gradients
    """

    def __init__(self, parameters: ParameterGroup, online: nn.Module, target: nn.Module) -> None:
        self.target = target
        target.load_state_dict(online.state_dict())
        target.requires_grad_(False)
        pairs = list(zip(online.parameters(), target.parameters(), strict=True))
        self.pairs, self.parameters = pairs, parameters
        self.statistics = list(zip(online.buffers(), target.buffers(), strict=True))
        if isinstance(parameters, FlatParameters):  # one operation on vectors of the same layout
            counterpart = {id(source): copy for source, copy in pairs}
            copies = [counterpart.pop(id(parameter)) for parameter in parameters.parameters]
            vector = flatten(copies)
            self.copies, self.places = copies, [copy.data_ptr() for copy in copies]
            self.others = [(source, copy) for source, copy in pairs if id(source) in counterpart]
            self.vectors = [(parameters.vector.detach(), vector)]
        else:
            self.copies, self.places, self.others, self.vectors = [], [], pairs, []

    def __setstate__(self, state: dict[str, object]) -> None:
        """Lay out the parameters of a copied target network in one vector."""
        vars(self).update(state)
        if self.copies:
            vector = flatten(self.copies)
            self.places = [copy.data_ptr() for copy in self.copies]
            self.vectors = [(self.parameters.vector.detach(), vector)]

    @property
    def sources(self) -> list[Tensor]:
        """What is averaged: a vector, and the parameters that are not in it."""
        return [online.detach() for online, _ in (*self.vectors, *self.others)]

    @property
    def targets(self) -> list[Tensor]:
        """The averages of `sources`."""
        return [target.detach() for _, target in (*self.vectors, *self.others)]

    def _gather(self) -> None:
        """Copy parameters whose memory was replaced, as by `parameter.data = values`, into the vectors."""
        self.parameters.gather()
        if [copy.data_ptr() for copy in self.copies] != self.places:
            vector = self.vectors[0][1]
            values = vector.split([copy.numel() for copy in self.copies])
            for copy, value in zip(self.copies, values, strict=True):
                if copy.data_ptr() != value.data_ptr():
                    value.copy_(copy.reshape(-1))
                    copy.data = value.view(copy.shape)

    @torch.no_grad()
    def update(self, tau: float) -> None:
        """Set target <- tau * online + (1 - tau) * target; statistics of normalisation layers are copied."""
        if torch.compiler.is_dynamo_compiling():  # which is slow where a vector and its parts are both used
            for online, target in self.pairs:
                target.lerp_(online, tau)
        else:
            self._gather()
            polyak_update(self.sources, self.targets, tau)
        for source, copied in self.statistics:
            copied.copy_(source)

    @property
    def vector(self) -> Tensor:
        """All averaged parameters as one vector, a copy."""
        return torch.cat([target.reshape(-1) for target in self.targets])

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the target network."""
        return self.target.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the state of the target network.

        :raises RuntimeError: the state is of another network
        """
        self.target.load_state_dict(state)

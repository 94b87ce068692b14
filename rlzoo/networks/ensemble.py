"""Several networks of one shape, evaluated as one: every layer of all of them is a single batched product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rlzoo.accel.batched_linear import batched_linear
from rlzoo.accel.matmul_precision import affine
from rlzoo.networks.batch_renorm import BatchRenorm


class EnsembleLinear(nn.Module):
    """`n` linear layers: [n, B, in_features] or [B, in_features] (the same for all) -> [n, B, out_features].

    Weights are [n, in_features, out_features], so that their gradients are products as they are stored.
    Initial values are those of nn.Linear.
    """

    def __init__(self, n: int, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n, in_features, out_features))
        self.bias = nn.Parameter(torch.empty(n, 1, out_features))
        bound = 1 / math.sqrt(in_features)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return batched_linear(x, self.weight, self.bias)

    def first(self, x: Tensor) -> Tensor:
        """Compute the first layer alone: [B, in_features] -> [B, out_features]."""
        return affine(x, self.weight[0], self.bias[0, 0])


class EnsembleLayerNorm(nn.Module):
    """`n` layer normalisations (Ba et al. 2016): [n, B, width] -> [n, B, width]."""

    def __init__(self, n: int, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n, 1, width))
        self.bias = nn.Parameter(torch.zeros(n, 1, width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.bias, F.layer_norm(x, x.shape[-1:], eps=self.eps), self.weight)

    def first(self, x: Tensor) -> Tensor:
        """Compute the first normalisation alone: [B, width] -> [B, width]."""
        return F.layer_norm(x, x.shape[-1:], self.weight[0, 0], self.bias[0, 0], self.eps)


class EnsembleMlp(nn.Module):
    """`n` multi-layer perceptrons: [B, input_dim] -> [n, B, output_dim].

    In a state dict each network has separate tensors, named as those of an nn.Sequential called
    `<name><i>`: `qf0.0.weight` [out, in], `qf0.0.bias` [out].

    :param dropout: probability of zeroing a hidden unit in training mode, before normalisation
    :param layer_norm: normalise hidden layers before their activation
    :param batch_norm: makes the normalisation of a layer from `(width, n)`, put before the first layer and
        after every activation
    """

    def __init__(
        self,
        n: int,
        input_dim: int,
        output_dim: int,
        net_arch: Sequence[int],
        activation_fn: type[nn.Module] = nn.ReLU,
        dropout: float = 0.0,
        layer_norm: bool = False,
        batch_norm: Any = None,
        name: str = "qf",
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [batch_norm(input_dim, n)] if batch_norm is not None else []
        width = input_dim
        for next_width in net_arch:
            layers.append(EnsembleLinear(n, width, next_width))
            if dropout > 0:
                layers.append(nn.Dropout(dropout))
            if layer_norm:
                layers.append(EnsembleLayerNorm(n, next_width))
            layers.append(nn.ReLU(inplace=True) if activation_fn is nn.ReLU else activation_fn())
            if batch_norm is not None:
                layers.append(batch_norm(next_width, n))
            width = next_width
        layers.append(EnsembleLinear(n, width, output_dim))
        self.layers = nn.Sequential(*layers)
        self.n, self.name = n, name
        self.register_state_dict_post_hook(_split)
        self.register_load_state_dict_pre_hook(_join)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x

    def first(self, x: Tensor) -> Tensor:
        """Compute the first network alone: [B, input_dim] -> [B, output_dim]."""
        for layer in self.layers:
            x = layer.first(x) if isinstance(layer, EnsembleLinear | EnsembleLayerNorm) else layer(x)
        return x

    def networks(self) -> list[nn.Sequential]:
        """Return the networks as separate modules, for inspection and inference.

        Their parameters share memory with those of the ensemble, which are the ones that are trained, and
        take no gradients. Each call returns new modules.
        """
        state = self.state_dict()
        made = []
        for i in range(self.n):
            prefix = f"{self.name}{i}."
            network = nn.Sequential(*map(_single, self.layers)).train(self.training)
            mine = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
            network.load_state_dict(mine, assign=True)
            made.append(network.requires_grad_(False))
        return made


def _single(layer: nn.Module) -> nn.Module:
    """Return a layer of one network with parameters yet to be assigned; what has none as it is."""
    if isinstance(layer, EnsembleLinear):
        _, in_features, out_features = layer.weight.shape
        return nn.Linear(in_features, out_features, device="meta")
    if isinstance(layer, EnsembleLayerNorm):
        return nn.LayerNorm(layer.weight.shape[-1], layer.eps, device="meta")
    if isinstance(layer, BatchRenorm):
        return BatchRenorm(layer.scale.shape[-1], None, layer.momentum, layer.eps, layer.warmup_steps)
    return layer


def _split(ensemble: EnsembleMlp, state_dict: dict[str, Tensor], prefix: str, _: object) -> None:
    """Give every network of the ensemble its own entries, views of the tensors they share."""
    start = f"{prefix}layers."
    stacked = {
        key.removeprefix(start): state_dict.pop(key) for key in list(state_dict) if key.startswith(start)
    }
    for i in range(ensemble.n):
        for key, tensor in stacked.items():
            layer, _, kind = key.partition(".")
            part = tensor[i] if tensor.dim() else tensor
            if tensor.dim():
                part = part.squeeze(0) if _is_vector(ensemble.layers[int(layer)], kind) else part.t()
            state_dict[f"{prefix}{ensemble.name}{i}.{key}"] = part


def _join(ensemble: EnsembleMlp, state_dict: dict[str, Tensor], prefix: str, *_: object) -> None:
    """Stack the entries of the networks; what is missing or has another shape is left for torch to report."""
    for index, layer in enumerate(ensemble.layers):
        own = dict([*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False)])
        for kind, tensor in own.items():
            names = [f"{prefix}{ensemble.name}{i}.{index}.{kind}" for i in range(ensemble.n)]
            parts = [state_dict.pop(name) for name in names if name in state_dict]
            if len(parts) < ensemble.n or any(p.shape != parts[0].shape for p in parts):
                continue
            if tensor.dim():
                vector = _is_vector(layer, kind)
                parts = [part.unsqueeze(0) if vector else part.t() for part in parts]
            state_dict[f"{prefix}layers.{index}.{kind}"] = torch.stack(parts) if tensor.dim() else parts[0]


def _is_vector(layer: nn.Module, kind: str) -> bool:
    """Return whether each network's share of a tensor has one axis (kept as a row, added to a batch)."""
    return kind == "bias" or not isinstance(layer, EnsembleLinear)

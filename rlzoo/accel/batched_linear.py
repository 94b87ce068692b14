"""Linear layers of several networks as one batched product."""

from __future__ import annotations

import torch
from torch import Tensor

from rlzoo.accel.matmul_precision import affine
from rlzoo.accel.switch import enabled

FAST = enabled("batched_ensemble")


def batched_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x_i W_i + b_i for each of `n` networks, [n, B, out_features].

    :param x: [n, B, in_features], or [B, in_features], the same for all
    :param weight: [n, in_features, out_features]
    :param bias: [n, 1, out_features]
    """
    if not FAST:
        inputs = x.expand(len(weight), *x.shape[-2:])
        layers = zip(inputs, weight, bias, strict=True)
        return torch.stack([affine(rows, w, b[0]) for rows, w, b in layers])
    if weight.shape[2] == 1:  # a single output: as a batched product it takes several times as long
        return (x * weight.mT).sum(2, keepdim=True) + bias
    if x.dim() == 2:
        x = x.expand(len(weight), *x.shape)
    return affine(x, weight, bias)

"""Precision of float32 matrix products: `highest` is float32; the others are faster where there is hardware.

high    CUDA: TF32, with 10 bits of mantissa instead of 23
medium  CUDA: TF32 or bfloat16; CPU: bfloat16, with 7 bits, in wide linear layers, where the processor
        multiplies it

On a CPU, both factors are rounded to bfloat16, the processor adds their products in float32, and the result
is rounded to bfloat16 before the bias is added in float32; gradients of inputs and weights likewise. Weights,
biases, optimisers and targets stay float32, as in mixed-precision training (Micikevicius et al. 2018, section
3.1; Kalamkar et al. 2019). Layers from observations, and to values, quantiles and actions, are narrow and
stay float32. PyTorch's own setting rounds the products of every layer, and only on processors with AMX.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor
from torch.nn import functional as F

LEAST_WIDTH = 128
"""Inputs and outputs from which on a layer is wide."""
LEAST_MULTIPLICATIONS = 2**23
"""Of one product, from which on bfloat16 is faster: 128 rows with 256 inputs and outputs."""

in_bfloat16 = False
"""Whether wide layers of this process are computed in bfloat16."""


def set_matmul_precision(precision: str, device: torch.device) -> None:
    """Set the precision of this process; print one line where it has no effect.

    :param precision: "highest", "high" or "medium"
    """
    global in_bfloat16
    reason = without_effect(precision, device)
    in_bfloat16 = device.type == "cpu" and precision == "medium" and reason is None
    if device.type != "cpu":
        torch.set_float32_matmul_precision(precision)
    if reason is not None:
        print(f"rlzoo: --matmul-precision {precision} has no effect: {reason}", file=sys.stderr)


def without_effect(precision: str, device: torch.device) -> str | None:
    """Return why a precision is float32 on a device all the same, else None."""
    if precision == "highest":
        return None
    if device.type == "cuda":
        major = torch.cuda.get_device_capability(device)[0]
        return None if major >= 8 else "TF32 needs compute capability 8.0 (Ampere)"
    if device.type == "cpu":
        if precision == "high":
            return "processors have no TF32; medium is bfloat16"
        return None if cpu_multiplies_bfloat16() else "this processor does not multiply bfloat16"
    return f"it is for CUDA devices and CPUs, not for {device.type}"


def cpu_multiplies_bfloat16() -> bool:
    """Return whether this processor multiplies bfloat16 in hardware (AVX512-BF16, AMX, ARM BF16)."""
    if not torch.backends.mkldnn.is_available():
        return False
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return any(bool(capabilities.get(name)) for name in ("avx512_bf16", "amx_bf16", "arm_bf16", "bf16"))


def is_rounded(x: Tensor, weight: Tensor) -> bool:
    """Return whether the products of a layer with this input are computed in bfloat16.

    :param x: [..., batch, features]
    :param weight: [..., in, out] or [..., out, in]
    """
    if not in_bfloat16 or not x.is_cpu or x.dtype is not torch.float32:
        return False
    height, width = weight.shape[-2:]
    n_rows = x.numel() // x.shape[-1]
    return min(height, width) >= LEAST_WIDTH and n_rows * height * width >= LEAST_MULTIPLICATIONS


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x W^T + b, as `torch.nn.functional.linear` does.

    :param x: [..., in]
    :param weight: [out, in]
    :param bias: [out]
    """
    if not is_rounded(x, weight):
        return F.linear(x, weight, bias)
    y = F.linear(x.bfloat16(), weight.bfloat16()).float()
    return y if bias is None else y.add_(bias)


def rounded_product(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of matrices [..., p, q] and [..., q, r], computed in bfloat16."""
    return (a.bfloat16() @ b.bfloat16()).float()

"""Precision of float32 matrix products: `highest` is float32; the others are faster where there is hardware.

high    CUDA: TF32, with 10 bits of mantissa instead of 23; CPU: gradients of wide linear layers in bfloat16,
        with 7 bits, where the processor multiplies it
medium  CUDA: TF32 or bfloat16; CPU: values of critics, too

On a CPU, the factors of a product are rounded to bfloat16, the processor adds in float32, and the result is
rounded to bfloat16. Weights, biases and optimisers stay float32, as in mixed-precision training (Micikevicius
et al. 2018, section 3.1; Kalamkar et al. 2019). So do actions and log-probabilities, and unless `medium` is
asked for, values: a Q-value of 900 is rounded by up to 2, which is more than many actions differ by. In the
actor's loss of off-policy algorithms, where only its gradient counts, `high` rounds values as well.

Layers from observations, and to values, quantiles and actions, are narrow and stay float32. PyTorch's own
setting rounds every product of the process, and only on processors with AMX.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

LEAST_WIDTH = 128
"""Inputs and outputs from which on a layer is wide."""
LEAST_MULTIPLICATIONS = 2**23
"""Of one product, from which on bfloat16 is faster: 128 rows with 256 inputs and outputs."""

gradients_in_bfloat16 = False
"""Whether gradients of wide layers of this process are computed in bfloat16."""
values_in_bfloat16 = False
"""Whether values of critics are, too."""


def set_matmul_precision(precision: str, device: torch.device) -> None:
    """Set the precision of this process; print one line where it has no effect.

    :param precision: "highest", "high" or "medium"
    """
    global gradients_in_bfloat16, values_in_bfloat16
    reason = without_effect(precision, device)
    gradients_in_bfloat16 = device.type == "cpu" and precision != "highest" and reason is None
    values_in_bfloat16 = gradients_in_bfloat16 and precision == "medium"
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
        return None if cpu_multiplies_bfloat16() else "this processor does not multiply bfloat16"
    return f"it is for CUDA devices and CPUs, not for {device.type}"


def cpu_multiplies_bfloat16() -> bool:
    """Return whether this processor multiplies bfloat16 in hardware (AVX512-BF16, AMX, ARM BF16)."""
    if not torch.backends.mkldnn.is_available():
        return False
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return any(bool(capabilities.get(name)) for name in ("avx512_bf16", "amx_bf16", "arm_bf16", "bf16"))


def is_rounded(x: Tensor, weight: Tensor) -> bool:
    """Return whether products of a layer with this input gain from bfloat16, and may be computed in it.

    :param x: [..., batch, features]
    :param weight: [..., in, out] or [..., out, in]
    """
    if not gradients_in_bfloat16 or not x.is_cpu or x.dtype is not torch.float32:
        return False
    height, width = weight.shape[-2:]
    n_rows = x.numel() // x.shape[-1]
    return min(height, width) >= LEAST_WIDTH and n_rows * height * width >= LEAST_MULTIPLICATIONS


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x W^T + b, as `torch.nn.functional.linear` does; gradients may be computed in bfloat16.

    :param x: [..., in]
    :param weight: [out, in]
    :param bias: [out]
    """
    if bias is None or x.dim() != 2 or not torch.is_grad_enabled() or not is_rounded(x, weight):
        return F.linear(x, weight, bias)
    y: Tensor = _RoundedGradients.apply(x, weight.t(), bias)  # type: ignore[no-untyped-call]
    return y


def affine(x: Tensor, weight: Tensor, bias: Tensor, rounded: bool = False) -> Tensor:
    """Return x W + b of a layer, or of `n` layers; gradients may be computed in bfloat16.

    :param x: [batch, in], or [n, batch, in]
    :param weight: [in, out], or [n, in, out]
    :param bias: [out], or [n, 1, out]
    :param rounded: x W may be computed in bfloat16, too: only gradients of the result count
    """
    rounded = rounded or values_in_bfloat16
    if not (rounded or torch.is_grad_enabled()) or not is_rounded(x, weight):
        return torch.addmm(bias, x, weight) if x.dim() == 2 else torch.baddbmm(bias, x, weight)
    if rounded:
        return rounded_product(x, weight).add_(bias)
    y: Tensor = _RoundedGradients.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return y


def rounded_product(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of matrices [..., p, q] and [..., q, r], computed in bfloat16."""
    return (a.bfloat16() @ b.bfloat16()).float()


class _Context:
    """What autograd keeps between the two passes."""

    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[bool, ...]
    save_for_backward: Callable[..., None]


class _RoundedGradients(torch.autograd.Function):
    """`affine` in float32, with gradients of its input and weights in bfloat16."""

    @staticmethod
    def forward(ctx: _Context, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight) if x.dim() == 2 else torch.baddbmm(bias, x, weight)

    @staticmethod
    def backward(ctx: _Context, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        by_x, by_weight, by_bias = ctx.needs_input_grad
        narrow = gradient.bfloat16()
        return (
            rounded_product(narrow, weight.mT) if by_x else None,
            rounded_product(x.mT, narrow) if by_weight else None,
            gradient.sum(-2, keepdim=gradient.dim() == 3) if by_bias else None,
        )

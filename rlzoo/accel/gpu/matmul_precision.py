"""Precision of float32 matrix products: `highest` is float32; the others are faster where there is hardware.

high    CUDA: TF32, with 10 bits of mantissa instead of 23
medium  CUDA: TF32 or bfloat16; CPU: bfloat16, with 7 bits, where the processor multiplies it
"""

from __future__ import annotations

import sys

import torch


def set_matmul_precision(precision: str, device: torch.device) -> None:
    """Set the precision of this process; print one line where it has no effect.

    :param precision: "highest", "high" or "medium"
    """
    torch.set_float32_matmul_precision(precision)
    if (reason := without_effect(precision, device)) is not None:
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

"""Which device tensors live on."""

from __future__ import annotations

import warnings

import torch

from rlzoo.core.errors import UserError


def get_device(device: torch.device | str = "auto") -> torch.device:
    """Resolve `"auto"` to CUDA where it is available and to the CPU elsewhere.

    Where CUDA is asked for and not available, a warning says so and the CPU is used.

    :raises UserError: the name is no device
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except RuntimeError:
        known = "'auto', 'cpu', 'cuda' or 'cuda:<index>'"
        raise UserError(f"unknown device {str(device)!r}; use {known}") from None
    if resolved.type == "cuda" and not torch.cuda.is_available():
        warnings.warn(f"device {str(device)!r} is not available on this machine: using the CPU", stacklevel=2)
        return torch.device("cpu")
    return resolved

"""Which device tensors live on."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
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


def obs_as_tensor(obs: Any, device: torch.device | str) -> Any:
    """Return an observation as a tensor on a device, or a dict of observations as a dict of tensors.

    :param obs: array, or dict of arrays
    :raises TypeError: neither
    """
    if isinstance(obs, dict):
        return {key: torch.as_tensor(value, device=device) for key, value in obs.items()}
    if isinstance(obs, np.ndarray | torch.Tensor):
        return torch.as_tensor(obs, device=device)
    raise TypeError(f"an observation is an array or a dict of arrays, not {type(obs).__name__}")

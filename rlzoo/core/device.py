"""Select devices, and move observations to them."""

from __future__ import annotations

import warnings

import numpy as np
import torch

from rlzoo.core.errors import UserError


def get_device(device: torch.device | str = "auto") -> torch.device:
    """Return a device; "auto" is CUDA if it is available, else the CPU.

    If CUDA is requested but not available, warn and return the CPU.

    :raises UserError: an unknown device
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


def gpu_hint(device: torch.device, algorithm: str) -> str | None:
    """Return a sentence when an algorithm trains a small network on a GPU, else None."""
    if device.type == "cpu":
        return None
    return (
        f"{algorithm} is on the GPU ({device}) with a policy for vectors: it is mostly faster on the CPU"
        ', device="cpu"'
    )


def obs_as_tensor(
    obs: np.ndarray | torch.Tensor | dict[str, np.ndarray], device: torch.device | str
) -> torch.Tensor | dict[str, torch.Tensor]:
    """Convert observations, an array or a dict of arrays, to tensors on a device.

    :raises TypeError: another type
    """
    if isinstance(obs, dict):
        return {key: torch.as_tensor(value, device=device) for key, value in obs.items()}
    if isinstance(obs, np.ndarray | torch.Tensor):
        return torch.as_tensor(obs, device=device)
    raise TypeError(f"an observation is an array or a dict of arrays, not {type(obs).__name__}")

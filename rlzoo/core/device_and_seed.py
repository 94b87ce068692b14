"""Devices, and the seeds and states of the global random generators."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

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


RngState: TypeAlias = dict[str, Any]  # states of "python", "numpy", "torch" and "cuda"


def set_random_seed(seed: int, using_cuda: bool = False) -> None:
    """Seed Python, NumPy and PyTorch.

    :param seed: any integer; NumPy is seeded with it modulo 2**32
    :param using_cuda: also make cuDNN use deterministic algorithms
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    if using_cuda:
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Restore the global random states of PyTorch, NumPy and Python at the end of the block."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    numpy_state, python_state = np.random.get_state(), random.getstate()
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        np.random.set_state(numpy_state)
        random.setstate(python_state)


def get_rng_state() -> RngState:
    """Return the states of all generators that `set_random_seed` seeds, for a checkpoint."""
    state: RngState = {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_rng_state(state: RngState) -> None:
    """Restore the states that `get_rng_state` returned; CUDA states are ignored without CUDA.

    :raises ValueError: an invalid state
    """
    try:
        _set_rng_state(state)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError) as error:
        raise ValueError(f"invalid state of the random generators: {error}") from None


def _set_rng_state(state: RngState) -> None:
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])

"""What a training runs on: devices, versions and commit, and the states of the random generators."""

from __future__ import annotations

import contextlib
import functools
import platform
import random
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium
import numpy as np
import torch

import rlzoo
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


SIMULATORS = (
    "mujoco",
    "box2d",
    "box2d-py",
    "ale-py",
    "pybullet",
    "pybullet_envs_gymnasium",
    "gymnasium-robotics",
    "panda-gym",
    "highway-env",
    "minigrid",
    "envpool",
)
"""Packages that environments are made of."""


def get_system_info(print_info: bool = True) -> tuple[dict[str, str], str]:
    """Return platform and versions, for bug reports.

    :param print_info: also print them
    :return: the entries by name, and the same as text, one line each
    """
    info = {
        "OS": f"{platform.platform()} {platform.version()}",
        "Python": platform.python_version(),
        "rlzoo": rlzoo.__version__ + (f" ({commit[:12]})" if (commit := git_commit()) else ""),
        "PyTorch": torch.__version__,
        "GPU Enabled": str(torch.cuda.is_available()),
        "Numpy": np.__version__,
        "Gymnasium": gymnasium.__version__,
    }
    text = "".join(f"- {name}: {value}\n" for name, value in info.items())
    if print_info:
        print(text)
    return info, text


@functools.cache
def processor_name() -> str:
    """Return the name of the processor's model where the system tells it, else of its architecture."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


def utc_now() -> str:
    """Return the time, UTC, ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@functools.cache
def versions() -> dict[str, str]:
    """Return versions of rlzoo and of what its results depend on, with the simulators installed."""
    found = {
        "rlzoo": rlzoo.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "gymnasium": gymnasium.__version__,
        "numpy": np.__version__,
    }
    for name in SIMULATORS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@functools.cache
def git_commit(checkout: Path = Path(rlzoo.__file__).parents[1]) -> str | None:
    """Return the commit of a checkout, read from its `.git` without running git; None outside of one."""
    try:
        git = checkout / ".git"
        if git.is_file():  # a linked worktree or a submodule: the file says where its data is
            git = checkout / git.read_text().removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return _hash(head)
        reference = head.removeprefix("ref:").strip()
        shared = git / "commondir"
        places = [git, git / shared.read_text().strip()] if shared.exists() else [git]
        for place in places:
            if (place / reference).is_file():
                return _hash((place / reference).read_text().strip())
        for line in (places[-1] / "packed-refs").read_text().splitlines():
            if line.endswith(f" {reference}"):
                return _hash(line.split()[0])
    except (OSError, UnicodeDecodeError):
        pass  # not a checkout, or one in the middle of a change
    return None


def _hash(text: str) -> str | None:
    return text if re.fullmatch(r"[0-9a-f]{40,64}", text) else None


def precision_of_torch() -> str | None:
    """Return PyTorch's precision of float32 products; None if a script has set it in PyTorch's newer way, for
    each library by itself."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None

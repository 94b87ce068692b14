"""What rlzoo runs on: versions, platform, and the commit of its checkout."""

from __future__ import annotations

import contextlib
import functools
import platform
import re
import time
from importlib import metadata
from pathlib import Path

import gymnasium
import numpy as np
import torch

import rlzoo

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

"""Networks of gradient steps compiled by `torch.compile`."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from rlzoo.core.errors import UserError

FUNCTIONS: tuple[tuple[str, str], ...] = (
    ("", "evaluate_actions"),
    ("actor", "action_log_prob"),
    ("actor", "forward"),
    ("actor_target", "forward"),
    ("critic", "values"),
    ("critic_target", "values"),
    ("q_net", "forward"),
    ("q_net_target", "forward"),
    ("quantile_net", "forward"),
    ("quantile_net_target", "forward"),
)
"""What gradient steps call: parts of a policy ("" is the policy itself) and their methods."""


def require_compiler(device: torch.device) -> None:
    """:raises UserError: there is no compiler for the code that `torch.compile` writes"""
    if device.type == "cpu" and shutil.which("g++") is None and shutil.which("clang++") is None:
        raise UserError("compile needs a C++ compiler on the CPU: install g++ (Debian: apt install g++)")
    if device.type == "cuda" and importlib.util.find_spec("triton") is None:
        raise UserError("compile needs Triton on a CUDA device: pip install triton")


@contextmanager
def compiled_networks(policy: Any) -> Iterator[None]:
    """Replace the methods that gradient steps call by compiled ones inside.

    The results are the same up to rounding: random numbers are those of PyTorch, too. Each is compiled at
    its first call, which takes tens of seconds.
    """
    require_compiler(policy.device)
    replaced: list[tuple[nn.Module, str]] = []
    for part, method in FUNCTIONS:
        owner = getattr(policy, part, None) if part else policy
        if isinstance(owner, nn.Module) and hasattr(type(owner), method) and method not in vars(owner):
            setattr(owner, method, torch.compile(getattr(owner, method), options={"fallback_random": True}))
            replaced.append((owner, method))
    try:
        yield
    finally:
        for owner, method in replaced:
            delattr(owner, method)

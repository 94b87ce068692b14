"""Memory: how much is available, a limit for networks, and the reuse of freed blocks by the C library."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.parameter import is_lazy

from rlzoo.accel.switch import enabled
from rlzoo.core.cpu_cores import cgroup_folders
from rlzoo.core.errors import UserError

ON = enabled("tune_malloc")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
LARGEST_IN_HEAP = 32 * 2**20
"""The most that glibc accepts: larger blocks always come from the kernel."""


def tune_malloc() -> bool:
    """Ask glibc to reuse blocks of up to 32 MB instead of giving them back to the kernel at every free.

    The activations of a network live for one minibatch: some tens of megabytes with convolutions, half a
    megabyte for each layer of a pair of critics. If the kernel supplied them each time, every page
    would be zeroed at its first use, which took a third of the time of an update of PPO on images and a
    fifth of one of SAC. What is kept is the largest amount that was in use at once.

    :return: whether the C library took it; false on other systems than Linux with glibc
    """
    if not sys.platform.startswith("linux") or not ON:
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_IN_HEAP) and mallopt(M_TRIM_THRESHOLD, 2**31 - 1))


def available_memory() -> int:
    """Return the bytes this process can take without swapping: the system's, or fewer by a cgroup's limit."""
    return min([_system_memory(), *map(_memory_of, cgroup_folders("memory"))])


def _system_memory() -> int:
    """Return the free bytes of the system; where that is unknown, all there are."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == "MemAvailable":
                return int(rest.split()[0]) * 1024
    except OSError:
        pass  # not Linux
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError):  # not POSIX
        return sys.maxsize


def _memory_of(group: Path) -> int:
    """Return the free bytes of one cgroup, version 2 or 1; cached files count as free, as they can go."""
    versions = [("max", "current", ""), ("limit_in_bytes", "usage_in_bytes", "total_")]
    for limit, usage, prefix in versions:
        try:
            most, used = (int((group / f"memory.{name}").read_text()) for name in (limit, usage))
            rows = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            cached = sum(int(rows[f"{prefix}{state}_file"]) for state in ("active", "inactive"))
            return max(0, most - used + cached)
        except (OSError, ValueError, KeyError):
            continue  # not of this version, not readable, or "max": no limit
    return sys.maxsize


FREE_BYTES = 64 * 2**20
"""What networks may have beyond the limit that a file sets, or the memory."""
_NO_MEMORY = ("can't allocate memory", "out of memory", "overflowed", "Overflow when unpacking")
"""What PyTorch says where the system refuses memory, and where a size is no machine number."""


class TooManyParameters(UserError):
    """Networks ask for more parameters than they may have."""


@contextmanager
def parameter_budget(max_bytes: int | None = None, max_tensors: int | None = None) -> Iterator[None]:
    """Refuse parameters beyond a limit while networks are built in this thread.

    A layer's tensors are counted when it registers them, so before they are initialised: until then the
    system has only promised their memory. Copies (`copy.deepcopy`) and lazy layers, whose sizes are not known
    yet, are not counted.

    :param max_bytes: by default half of the available memory, as parameters are copied into one vector; at
        least `FREE_BYTES`
    :raises TooManyParameters: the parameters made inside the block take more than `max_bytes`, or are more
        than `max_tensors` tensors
    """
    n_bytes = n_tensors = 0
    thread = threading.get_ident()

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal n_bytes, n_tensors, max_bytes
        if parameter is None or is_lazy(parameter) or threading.get_ident() != thread:
            return
        n_bytes += parameter.numel() * parameter.element_size()
        n_tensors += 1
        if max_bytes is None and n_bytes > FREE_BYTES:
            max_bytes = available_memory() // 2
        if max_bytes is not None and n_bytes > max_bytes:
            raise TooManyParameters(f"the networks need {n_bytes / 1e6:,.0f} MB or more for their parameters")
        if max_tensors is not None and n_tensors > max_tensors:
            raise TooManyParameters(f"the networks have more than {max_tensors:,} parameter tensors")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    except (RuntimeError, TypeError) as error:
        if any(sign in str(error) for sign in _NO_MEMORY):
            raise TooManyParameters("the networks need more memory than there is") from error
        raise
    finally:
        handle.remove()

"""Available memory, and the treatment of freed memory by the C library."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from rlzoo.accel.switch import enabled

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
    """Return the bytes that programs can take without swapping; where that is unknown, all there are."""
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

"""How many more files, pipes and sockets this process may open."""

from __future__ import annotations

import os
from contextlib import suppress

from rlzoo.core.errors import UserError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

OF_A_WORKER = 3  # its pipe, and two that tell when it or this process has ended
OF_THE_START = 8  # the server that forks workers, and what is open while one starts


def free_file_handles() -> float:
    """Return the number of further files that may be opened; infinite where the system does not say."""
    if resource is None:
        return float("inf")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    with suppress(OSError):
        return limit - len(os.listdir("/proc/self/fd")) if limit != resource.RLIM_INFINITY else float("inf")
    return float("inf")


def check_file_handles(n_workers: int) -> None:
    """Check that worker processes can be started: where one fails halfway, others die with a traceback.

    :raises UserError: too few files may be opened
    """
    needed, free = OF_A_WORKER * n_workers + OF_THE_START, free_file_handles()
    if free < needed:
        raise UserError(
            f"{n_workers} worker processes need {needed} file handles, but {free:.0f} are free:"
            " raise the limit (ulimit -n) or train with --vec-env dummy"
        )

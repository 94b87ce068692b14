"""How many processor cores this process may use, and how many of them are idle."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path


def available_cores() -> int:
    """Return the number of cores this process may use: those it is bound to, or fewer by a cgroup's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.floor(min(cores, cpu_quota())))


def thread_limit() -> int:
    """Return the most threads to train with: one for each core, or fewer by OMP_NUM_THREADS."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # the others are nested levels
    return min(available_cores(), int(first)) if first.isdecimal() and int(first) else available_cores()


def cpu_quota(membership: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")) -> float:
    """Return the processor time per wall time that cgroups allow, the least of all levels; or inf."""
    return min(map(_quota_of, cgroup_folders("cpu", membership, mount)), default=math.inf)


def cgroup_folders(
    controller: str, membership: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")
) -> Iterator[Path]:
    """Yield the folders of the control groups of this process and of their parents, which may not exist.

    Inside a container the path may be that of the host, which is not mounted there: then the levels that are
    missing have no files, and the top of the mount is the container's own group.

    :param controller: what is limited, `cpu` or `memory`
    :param membership: the groups of the process, one line `id:controllers:path` each
    """
    try:
        groups = [line.split(":", 2) for line in membership.read_text().splitlines()]
    except OSError:  # not Linux
        return
    for _, controllers, path in (group for group in groups if len(group) == 3):
        tops = {"": [mount, mount / "unified"]}.get(controllers, [mount / controllers, mount / controller])
        if controllers and controller not in controllers.split(","):
            continue
        for top in tops:
            group = top / path.strip().lstrip("/")
            yield from (level for level in (group, *group.parents) if level.is_relative_to(top))


def _quota_of(group: Path) -> float:
    """Return the quota of one cgroup, version 2 or 1."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            quota, period = (word for name in names for word in (group / name).read_text().split())
            if quota not in ("max", "-1"):
                return float(quota) / float(period)
        except (OSError, ValueError, ZeroDivisionError):
            continue  # not of this version, or not readable
    return math.inf


class IdleCores:
    """Meter of the free time of the cores that this process may use; reading it takes 0.1 ms.

    Idle time is free. The time of niced processes is free for a process that is not niced itself: beside one
    of nice 19 it gets 98% of a core.
    """

    def __init__(self, statistics: Path = Path("/proc/stat"), clock: Callable[[], float] = time.monotonic):
        self.statistics, self.clock = statistics, clock
        self.before: tuple[float, float] | None = None

    def __call__(self) -> float | None:
        """Return how many cores were free on average since the last call; None if that is not known."""
        try:
            lines = [line.split() for line in self.statistics.read_text().splitlines()]
            rows = {name: columns for name, *columns in filter(None, lines)}
            free = (3, 4) if os.getpriority(os.PRIO_PROCESS, 0) > 0 else (1, 3, 4)  # niced, idle, iowait
            own = [rows[f"cpu{core}"] for core in os.sched_getaffinity(0)]
            ticks = sum(int(row[column]) for row in own for column in free)
            now = (self.clock(), ticks / os.sysconf("SC_CLK_TCK"))
        except (OSError, AttributeError, ValueError, LookupError):  # not Linux, or cores of a container
            return None
        before, self.before = self.before, now
        return None if before is None or now[0] <= before[0] else (now[1] - before[1]) / (now[0] - before[0])

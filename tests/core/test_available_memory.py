"""Memory that this process may take: of the system, or fewer by the limit of a control group."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rlzoo.accel import memory
from rlzoo.core.cpu_cores import cgroup_folders

GB = 10**9
STAT = f"anon 1\nactive_file {GB}\ninactive_file {GB}\n"


@pytest.fixture
def available(tmp_path, monkeypatch):
    """Write the membership of the process and files of its groups; a system has 9 GB left."""

    def write(membership: str, **files: object) -> int:
        (tmp_path / "cgroup").write_text(membership)
        for name, text in files.items():
            path = tmp_path / "fs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}".strip() + "\n")
        folders = list(cgroup_folders("memory", tmp_path / "cgroup", tmp_path / "fs"))
        monkeypatch.setattr(memory, "cgroup_folders", lambda controller: folders)
        monkeypatch.setattr(memory, "_system_memory", lambda: 9 * GB)
        return memory.available_memory()

    return write


def v2(folder: str, most: object, used: int) -> dict[str, object]:
    return {
        f"{folder}memory.max": most,
        f"{folder}memory.current": used,
        f"{folder}memory.stat": STAT,
    }


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 9),
        (v2("a/b/", "max", 3 * GB), 9),
        (v2("a/b/", 8 * GB, 5 * GB), 5),  # 2 GB are cached files
        (v2("a/b/", 8 * GB, 5 * GB) | v2("a/", 6 * GB, 5 * GB), 3),
        (v2("", 4 * GB, 5 * GB), 1),  # of a container
        (v2("a/b/", GB, 9 * GB), 0),
        (v2("a/b/", 100 * GB, GB), 9),
        (v2("a/b/", 8 * GB, 5 * GB) | {"a/b/memory.stat": "nonsense"}, 9),
    ],
)
def test_limit_is_the_least_of_all_levels(available, files, expected):
    assert available("0::/a/b\n", **files) == expected * GB


@pytest.mark.parametrize(("limit", "expected"), [(9223372036854771712, 9), (7 * GB, 3)])
def test_limit_of_version_1_is_read(available, limit, expected):
    folder = "memory/docker/x"
    files = {
        f"{folder}/memory.limit_in_bytes": limit,
        f"{folder}/memory.usage_in_bytes": 6 * GB,
        f"{folder}/memory.stat": STAT + f"total_active_file {GB}\ntotal_inactive_file {GB}\n",
    }
    assert available("5:cpu:/other\n3:memory:/docker/x\n0::/\n", **files) == expected * GB


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="needs Linux")
def test_system_has_memory_left():
    assert 10 * 2**20 < memory.available_memory() < sys.maxsize

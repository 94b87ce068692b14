"""Cores that this process may use, and those that are idle."""

from __future__ import annotations

import math
import os

import pytest

from rlzoo.core import cpu_cores as cores
from rlzoo.core.cpu_cores import IdleCores, cpu_quota, thread_limit


@pytest.fixture
def cgroups(tmp_path):
    """Write the membership of the process and files of its groups."""

    def write(membership: str, **files: str) -> float:
        (tmp_path / "cgroup").write_text(membership)
        for name, text in files.items():
            path = tmp_path / "fs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return cpu_quota(tmp_path / "cgroup", tmp_path / "fs")

    return write


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, math.inf),
        ({"a/b/cpu.max": "max 100000\n"}, math.inf),
        ({"a/b/cpu.max": "150000 100000\n"}, 1.5),
        ({"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "100000 50000\n"}, 2.0),
        ({"cpu.max": "300000 100000\n"}, 3.0),  # of a container
        ({"unified/a/cpu.max": "300000 100000\n"}, 3.0),
        ({"a/b/cpu.max": "nonsense\n"}, math.inf),
    ],
)
def test_quota_is_the_least_of_all_levels(cgroups, files, expected):
    assert cgroups("0::/a/b\n", **files) == expected


@pytest.mark.parametrize("controllers", ["cpu,cpuacct", "cpu"])
def test_quota_of_version_1_is_read(cgroups, controllers):
    folder = f"{controllers}/docker/x"
    files = {f"{folder}/cpu.cfs_quota_us": "-1\n", f"{folder}/cpu.cfs_period_us": "100000\n"}
    membership = f"5:memory:/other\n3:{controllers}:/docker/x\n0::/\n"
    assert cgroups(membership, **files) == math.inf
    files[f"{controllers}/cpu.cfs_quota_us"] = "250000\n"
    files[f"{controllers}/cpu.cfs_period_us"] = "100000\n"
    assert cgroups(membership, **files) == 2.5


def test_quota_without_cgroups_is_none(tmp_path):
    assert cpu_quota(tmp_path / "none") == math.inf


@pytest.mark.parametrize(
    ("value", "expected"), [("1", 1), ("2", 2), ("9", 3), ("2,1", 2), ("", 3), ("0", 3), ("many", 3)]
)
def test_omp_num_threads_is_an_upper_bound(monkeypatch, value, expected):
    monkeypatch.setattr(cores, "cpu_quota", lambda: 3.7)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert thread_limit() == expected


def test_idle_cores_are_those_it_may_use(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    file, now, ticks = tmp_path / "stat", [0.0], os.sysconf("SC_CLK_TCK")
    meter = IdleCores(file, lambda: now[0])
    assert meter() is None
    file.write_text("cpu 0 0 0 9 9\ncpu0 0 0 0 0 0\ncpu1 0 0 0 0 0\ncpu2 0 0 0 0 0\n")
    assert meter() is None
    now[0] = 2.0
    file.write_text(
        f"cpu 0 0 0 9 9\ncpu0 0 0 0 {ticks} 0\ncpu1 0 0 0 {ticks} {ticks}\ncpu2 0 0 0 {9 * ticks} 0\n"
    )
    assert meter() == pytest.approx(1.5)


@pytest.mark.parametrize("rows", ["cpu0 0 0 0 9 9\ncpu1 0 0 0 9 9\n", "cpu 0 0 0 9 9\n", "cpu4 0 0 0 9 9\n"])
def test_idle_cores_are_unknown_without_the_row_of_each(tmp_path, monkeypatch, rows):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 5}, raising=False)
    (tmp_path / "stat").write_text(rows)
    now = iter([1.0, 2.0])
    meter = IdleCores(tmp_path / "stat", lambda: next(now))
    assert (meter(), meter()) == (None, None)


@pytest.mark.parametrize(("niceness", "expected"), [(0, 0.75), (-5, 0.75), (10, 0.25)])
def test_niced_processes_leave_cores_free(tmp_path, monkeypatch, niceness, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    monkeypatch.setattr(os, "getpriority", lambda *_: niceness)
    file, now, ticks = tmp_path / "stat", [0.0], os.sysconf("SC_CLK_TCK")
    meter = IdleCores(file, lambda: now[0])
    file.write_text("cpu0 0 0 0 0 0\n")
    meter()
    now[0] = 4.0
    file.write_text(f"cpu0 {ticks} {2 * ticks} 0 {ticks} 0\n")
    assert meter() == pytest.approx(expected)

"""PyTorch's worker threads leave their cores to environments soon after an operation."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

OURS = "10000"
SETTINGS = [
    ({}, OURS),
    ({"GOMP_SPINCOUNT": "7"}, "7"),
    ({"OMP_WAIT_POLICY": "active"}, "None"),
    ({"RLZOO_PLAIN": "brief_spin"}, "None"),
    ({"RLZOO_PLAIN": "1"}, "None"),
]
WAITING = """
import time
import rlzoo, torch

torch.set_num_threads(2)
numbers = torch.zeros(2**20)
numbers.add_(1)
before = time.process_time()
for _ in range(20):
    numbers.add_(1)
    time.sleep(0.03)
print((time.process_time() - before) / 20)
"""


def output(script: str, **variables: str) -> str:
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "RLZOO_PLAIN")
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**inherited, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(("variables", "expected"), SETTINGS)
def test_import_sets_the_spin_count_unless_told_otherwise(variables, expected):
    script = "import rlzoo, os; print(os.environ.get('GOMP_SPINCOUNT'))"
    assert output(script, **variables) == expected


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="GNU OpenMP")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="GNU OpenMP does not spin on one core")
def test_an_idle_worker_thread_uses_little_processor_time():
    assert float(output(WAITING)) < 0.004  # seconds; 0.010 without the setting

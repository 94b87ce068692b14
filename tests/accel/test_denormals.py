"""Numbers below the normal ones are zero inside, and as they were outside."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from rlzoo.accel.threads import denormals_as_zero

SMALLEST = torch.tensor(torch.finfo(torch.float32).tiny)


@pytest.fixture(autouse=True)
def _supported():
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor cannot flush denormal numbers")


def test_they_are_zero_inside_and_back_outside():
    assert SMALLEST / 2 > 0
    with denormals_as_zero():
        assert SMALLEST / 2 == 0 and SMALLEST * 1 == SMALLEST
    assert SMALLEST / 2 > 0


def test_what_was_on_before_stays_on():
    with denormals_as_zero():
        with denormals_as_zero():
            pass
        assert SMALLEST / 2 == 0


def test_an_error_inside_switches_back():
    with pytest.raises(ZeroDivisionError), denormals_as_zero():
        1 / 0  # noqa: B018
    assert SMALLEST / 2 > 0


SHARED_OUT = """
import torch
from rlzoo.accel.threads import denormals_as_zero, restore_float_modes, set_num_threads
torch.ones(2**20).add_(1)
if {start}:
    set_num_threads(2)
if {stop}:
    restore_float_modes()
tiny = torch.full((2**22,), torch.finfo(torch.float32).tiny)
with denormals_as_zero():
    halves = tiny / 2
print(float((halves == 0).float().mean()))
"""


@pytest.mark.parametrize(("start", "stop"), [(True, False), (False, False), (True, True)])
def test_worker_threads_that_run_already_flush_in_trainings(start, stop):
    done = subprocess.run(
        [sys.executable, "-c", SHARED_OUT.format(start=start, stop=stop)],
        env={**os.environ, "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    zeros = float(done.stdout)
    assert zeros == 1 if start and not stop else 0 < zeros < 1

"""Freed memory is used again without asking the kernel."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from rlzoo.accel.memory import tune_malloc


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc")
def test_large_blocks_are_reused_without_new_pages():
    import resource

    if not tune_malloc():
        pytest.skip("the C library has no mallopt")

    def fill():
        blocks = [np.ones(24 * 2**20, np.uint8) for _ in range(4)]
        return sum(int(block[0]) for block in blocks)

    fill()  # from here on the heap is large enough
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        assert fill() == 4
    pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert pages < 2000  # new blocks would touch 5 * 4 * 6144 pages

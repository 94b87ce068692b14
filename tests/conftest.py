"""Every test process: one thread, no window, no leftover files in the working folder."""

from __future__ import annotations

import os
import signal

# Before torch or matplotlib are imported: both read these once.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")

# Who runs the tests in the background may have them ignore Ctrl-C and hang-ups; some tests need both.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

import pytest  # noqa: E402

from rlzoo.io.trust import VARIABLE  # noqa: E402


@pytest.fixture(autouse=True)
def _trust_of_each_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test trusts, or the developer does, is nothing to the next."""
    monkeypatch.setenv(VARIABLE, "")

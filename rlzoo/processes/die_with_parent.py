"""How a worker process learns that its parent is gone: its standard input ends."""

from __future__ import annotations

import os
import signal
import sys
import threading


def end_with_parent() -> None:
    """Send this process SIGTERM when its standard input ends, which the parent's death closes."""
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    """Read standard input, which the parent never writes to."""
    try:
        while os.read(0, 4096):
            pass
    except OSError as error:
        print(f"rlzoo: standard input: {error}", file=sys.stderr)
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGTERM)  # to that thread, so that it wakes from what it waits for

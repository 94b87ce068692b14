"""Which exceptions out of an environment's code are failures of the environment."""

from __future__ import annotations

import signal


def is_failure(error: BaseException) -> bool:
    """Whether an environment failed, and not somebody asked the process to end while its code ran.

    `sys.exit()` in an environment (some do that when their window is closed) and what else is no `Exception`
    are failures. Ctrl-C is none, nor is whatever a signal handler raised.
    """
    if isinstance(error, Exception):
        return True
    return not isinstance(error, (KeyboardInterrupt, GeneratorExit)) and not _from_signal_handler(error)


def _from_signal_handler(error: BaseException) -> bool:
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = {getattr(handler, "__code__", None) for handler in handlers}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def describe(error: BaseException) -> str:
    """The class of an error, and its text if it has one."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")

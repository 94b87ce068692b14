"""Tell failures of an environment from requests to end the process."""

from __future__ import annotations

import signal


def is_failure(error: BaseException) -> bool:
    """Return whether an exception raised while an environment ran is a failure of the environment.

    Failures are every `Exception`, and `sys.exit()` (some environments call it when their window is closed).
    Ctrl-C and exceptions raised by signal handlers are requests to end the process.
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
    """Return the class of an error and its message, if any."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")

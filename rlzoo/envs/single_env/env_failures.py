"""Tell failures of an environment from requests to end the process."""

from __future__ import annotations

import signal
import traceback
from pathlib import Path
from types import FrameType


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
    """Return the class of an error, its message, if any, and the line of foreign code that raised it."""
    text = f"{type(error).__name__}: {error}".removesuffix(": ")
    frames = list(traceback.walk_tb(error.__traceback__))
    foreign = [
        (frame, line) for frame, line in frames if not _is_of(frame, "rlzoo", "gymnasium", "importlib")
    ]
    if not foreign:
        return text
    frame, line = foreign[-1]
    return f"{text} ({Path(frame.f_code.co_filename).name}, line {line})"


SIGNATURES = {
    "step": "step(action) returns (observation, reward, terminated, truncated, info)",
    "reset": "reset(seed=None, options=None) returns (observation, info)",
}
"""Methods of Gymnasium's environments; older ones of Gym return four values and one."""


def hint_at_older_api(call: str, error: BaseException) -> str:
    """Return what a method of an environment returns in Gymnasium, if its caller expected other values.

    :param call: the method
    :param error: raised by the caller; an error of the environment's own code gives no hint
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if call not in SIGNATURES or not frames or not _is_of(frames[-1], "rlzoo", "gymnasium"):
        return ""
    wrong_number = isinstance(error, ValueError) and "values to unpack" in str(error)
    unknown_keyword = isinstance(error, TypeError) and "unexpected keyword argument" in str(error)
    return f"; in Gymnasium, {SIGNATURES[call]}" if wrong_number or unknown_keyword else ""


def _is_of(frame: FrameType, *packages: str) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in packages

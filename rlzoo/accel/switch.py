"""Switch for the speed-ups: `RLZOO_PLAIN=1` in the environment turns all of them off.

`RLZOO_PLAIN` may also list the names of those to turn off, such as `RLZOO_PLAIN=fast_mlp,flat_parameters`.
Set it before importing rlzoo: speed-ups read it when they are imported.
"""

from __future__ import annotations

import os

from rlzoo.core.errors import unknown

TRICKS = (
    "array_actor",
    "batched_ensemble",
    "closed_form_backward",
    "fast_mlp",
    "flat_parameters",
    "flush_denormals",
    "manual_step",
    "onednn",
    "threads",
    "tune_malloc",
    "without_dynamo",
)
"""Names of the speed-ups that can be turned off; README.md in this folder describes each."""


def enabled(trick: str, setting: str | None = None) -> bool:
    """Return whether a speed-up is on.

    :param trick: one of `TRICKS`
    :param setting: value to read instead of the environment variable `RLZOO_PLAIN`
    :raises ValueError: `trick` is unknown
    :raises UserError: `setting` names another than those, 1 or 0

    >>> enabled("fast_mlp", "1"), enabled("fast_mlp", "threads"), enabled("fast_mlp", "")
    (False, True, True)
    """
    if trick not in TRICKS:
        raise ValueError(f"unknown speed-up {trick!r}, known are: {', '.join(TRICKS)}")
    setting = os.environ.get("RLZOO_PLAIN", "") if setting is None else setting
    turned_off = {name.strip() for name in setting.split(",")}
    for name in sorted(turned_off - {"", "0", "1", *TRICKS}):
        raise unknown("speed-up in RLZOO_PLAIN", name, ("1", *TRICKS))
    return "1" not in turned_off and trick not in turned_off

"""Read the files that the logger writes."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from rlzoo.core.errors import UserError

if TYPE_CHECKING:
    import pandas as pd


def read_csv(filename: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a file of `CSVOutputFormat`, one row per dump.

    >>> returns = read_csv("logs/ppo/CartPole-v1_1/progress.csv")["rollout/ep_rew_mean"]

    :raises UserError: the file is missing, empty or damaged
    """
    import pandas as pd

    try:
        return pd.read_csv(filename)
    except pd.errors.EmptyDataError:
        raise UserError(f"{os.fspath(filename)} is empty: nothing has been logged yet") from None
    except (OSError, OverflowError, ValueError) as error:  # pandas' own errors are ValueErrors
        raise _unreadable(filename, error) from None


def read_json(filename: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a file of `JSONOutputFormat`, one row per dump.

    :raises UserError: the file is missing or damaged
    """
    import pandas as pd

    try:
        with open(filename, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError("a line is not a JSON object")
        return pd.DataFrame(rows)
    except (OSError, OverflowError, RecursionError, ValueError) as error:
        raise _unreadable(filename, error) from None


def _unreadable(filename: str | os.PathLike[str], error: Exception) -> UserError:
    if isinstance(error, OSError):
        return UserError(f"cannot read {os.fspath(filename)}: {error.strerror}")
    return UserError(f"{os.fspath(filename)} is damaged: {' '.join(str(error).split())[:200]}")

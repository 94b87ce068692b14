"""Cells of CSV files that people open in a spreadsheet."""

from __future__ import annotations

import json
from typing import Any


def cell(value: Any) -> Any:
    """A value as a cell: lists as JSON, and a text that a spreadsheet would take for a formula as a text.

    >>> cell([0, 1]), cell("=1+1"), cell("ppo"), cell(-1.5)
    ('[0, 1]', "'=1+1", 'ppo', -1.5)
    """
    if isinstance(value, list | tuple | dict):
        return json.dumps(value)
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula and not _is_number(value) else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

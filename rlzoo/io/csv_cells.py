"""Cells of CSV files that people open in a spreadsheet."""

from __future__ import annotations

import json


def cell(value: object) -> object:
    """Return a value as a cell: lists as JSON, and a string that looks like a formula quoted.

    >>> cell([0, 1]), cell("=1+1"), cell("ppo"), cell(-1.5)
    ('[0, 1]', "'=1+1", 'ppo', -1.5)
    """
    if isinstance(value, list | tuple | dict):
        return json.dumps(value)
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) and not is_number(value):
        return f"'{value}"
    return value


def is_number(text: str) -> bool:
    """Return whether a cell holds a number, NaN and infinities included."""
    try:
        float(text)
    except ValueError:
        return False
    return True

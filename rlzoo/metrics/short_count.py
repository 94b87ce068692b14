"""Format large numbers for tables."""

from __future__ import annotations


def short_count(number: int) -> str:
    """Format a number in thousands or millions, with three digits.

    >>> short_count(1_000_448), short_count(51_300), short_count(950)
    ('1M', '51.3k', '950')
    """
    if number >= 999_500:
        return f"{number / 1e6:.3g}M"
    return f"{number / 1e3:.3g}k" if number >= 1000 else str(number)

"""Mutated files of every loader are refused in one line, or used."""

from __future__ import annotations

import pytest

from tests.fuzz import short
from tests.fuzz.loaders import LOADERS
from tests.fuzz.sandbox import Batch, run_cases

NAMES = tuple(loader.name for loader in LOADERS)


def check_nothing_breaks(batch: Batch) -> None:
    outcomes = list(run_cases(batch))
    assert {outcome.loader for outcome in outcomes} == set(batch.names)
    assert not (breaks := [str(outcome) for outcome in outcomes if outcome.is_break]), "\n".join(breaks)


def test_mutated_files_and_odd_command_lines_break_nothing():
    """The long forms are `python -m tests.fuzz files` and `commands`."""
    check_nothing_breaks(Batch("short", tuple(loader.name for loader in short.LOADERS), 0, first=0, count=2))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_mutated_files_break_nothing(name):
    check_nothing_breaks(Batch("files", (name,), seed=1, first=0, count=200))

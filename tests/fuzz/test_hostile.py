"""Run folders and studies that name what is to be executed."""

from __future__ import annotations

import pytest

from tests.fuzz import hostile
from tests.fuzz.sandbox import Batch
from tests.fuzz.test_files import check_nothing_breaks

NAMES = tuple(loader.name for loader in hostile.LOADERS)


@pytest.mark.slow
def test_nothing_that_a_folder_names_is_executed():
    check_nothing_breaks(Batch("hostile", NAMES, seed=0, first=0, count=1))

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from rlzoo.tuning.report.ranking import rank, ranking_table, write_ranking

RESULTS = {4: [10.0, 12.0, 14.0], 7: [20.0], 0: [13.0, 13.0], 9: []}


def test_best_first_with_intervals_of_student() -> None:
    seven, zero, four, nine = rank(RESULTS)
    assert [seven.trial, zero.trial, four.trial, nine.trial] == [7, 0, 4, 9]
    # Of three values with standard deviation 2, half the interval is 4.302653 * 2 / sqrt(3) wide.
    assert four.mean == 12
    assert (four.low, four.high) == pytest.approx((12 - 4.968275, 12 + 4.968275), abs=1e-5)
    assert (zero.low, zero.high, zero.n) == (13, 13, 2)
    assert (seven.low, seven.high) == (-math.inf, math.inf)
    assert math.isnan(nine.mean)
    assert nine.n == 0


def test_equals_come_by_number() -> None:
    assert [row.trial for row in rank({3: [1.0], 1: [1.0], 2: [1.0]})] == [1, 2, 3]


def test_table_and_file(tmp_path: Path) -> None:
    rows = rank(RESULTS)
    lines = ranking_table(rows).splitlines()
    assert len(lines) == 5
    assert len({len(line) for line in lines}) == 1
    assert lines[3].split() == ["3", "4", "12.00", "7.03", "to", "16.97", "3"]
    assert "none yet" in lines[4]
    write_ranking(rows, tmp_path / "retrained.csv")
    with (tmp_path / "retrained.csv").open() as file:
        records = list(csv.DictReader(file))
    assert [record["trial"] for record in records] == ["7", "0", "4", "9"]
    assert records[0]["low"] == ""
    assert float(records[2]["high"]) == pytest.approx(16.968275, abs=1e-5)

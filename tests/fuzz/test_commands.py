"""Odd command lines: exit code 0, 1, 2 or 130, no traceback, nothing left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from rlzoo.cli.main import COMMANDS
from tests.fuzz import commands
from tests.fuzz.sandbox import Batch
from tests.fuzz.test_files import check_nothing_breaks

NAMES = tuple(loader.name for loader in commands.LOADERS)


def test_every_command_has_lines_to_begin_with():
    assert commands.BASES.keys() == set(COMMANDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_odd_command_lines_break_nothing(name):
    check_nothing_breaks(Batch("commands", (name,), seed=1, first=0, count=40))


@pytest.mark.parametrize(
    ("behaviour", "complaint"),
    [
        (lambda: 3, "exit code 3"),
        (lambda: print("Traceback (most recent call last)", file=sys.stderr) or 1, "Traceback"),
        (lambda: Path("left").mkdir() or 2, "left after exit code 2"),
        (lambda: 1 / 0, "ZeroDivisionError"),
        (lambda: subprocess.Popen(["sleep", "60"]) and 0, "processes go on"),
    ],
)
def test_what_no_command_may_do_is_noticed(behaviour, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "main", lambda arguments: behaviour())
    monkeypatch.setattr(commands, "ENDING", 0.1)
    (tmp_path / commands.LINE).write_text('["train"]')
    with pytest.raises(commands.Wrong, match=complaint):
        commands.run_line(tmp_path, Random(0))


def test_a_good_command_is_none_of_these(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "main", lambda arguments: 0)
    (tmp_path / commands.LINE).write_text('["train"]')
    commands.run_line(tmp_path, Random(0))


def test_large_numbers_are_capped_where_they_take_the_machine():
    line = commands.capped(["--n-jobs", "1e3", "--n-trials", "nan", "--seed", "1000", "-n", "-1"])
    assert line == ["--n-jobs", "2", "--n-trials", "nan", "--seed", "1000", "-n", "-1"]

"""The sandbox notices everything that a file must not do, and a break can be repeated."""

from __future__ import annotations

import shlex
from random import Random
from typing import Any

import pytest

from tests.fuzz.__main__ import main
from tests.fuzz.archives import mutate_file
from tests.fuzz.loader import Loader
from tests.fuzz.planted import ELSEWHERE, EXPECTED
from tests.fuzz.sandbox import Batch, Outcome, run_cases


def planted(*names: str, **changes: Any) -> list[Outcome]:
    values = {"what": "planted", "names": names, "seed": 0, "first": 0, "count": 1}
    return list(run_cases(Batch(**{**values, **changes})))


def test_each_planted_break_is_noticed():
    expected = {name: kind for name, (_, kind) in EXPECTED.items()}
    hanging = [name for name, kind in expected.items() if kind == "hang"]
    others = [name for name in expected if name not in hanging]
    outcomes = planted(*others) + planted(*hanging, seconds=0.5)
    assert {outcome.loader: outcome.kind for outcome in outcomes} == expected
    assert not ELSEWHERE.exists()
    breaks = {outcome.loader for outcome in outcomes if outcome.is_break}
    assert breaks == expected.keys() - {"own_error", "interrupted"}


def test_cases_go_on_behind_one_that_ends_the_process():
    outcomes = planted("die", "own_error", count=2)
    assert [(outcome.loader, outcome.number, outcome.kind) for outcome in outcomes] == [
        ("die", 0, "died"),
        ("die", 1, "died"),
        ("own_error", 0, "refused"),
        ("own_error", 1, "refused"),
    ]


def test_an_honest_file_that_is_refused_is_a_break():
    assert [outcome.kind for outcome in planted("dishonest")] == ["dishonest", "refused"]


def test_a_break_names_the_command_that_repeats_it(capsys):
    (outcome,) = planted("foreign_error", seed=3, first=7)
    python, option, package, *arguments = shlex.split(str(outcome).splitlines()[-1])
    assert (python, option, package) == ("python", "-m", "tests.fuzz")
    assert main(arguments) == 1
    said = capsys.readouterr().out
    assert str(outcome) in said
    assert said.splitlines()[-1].split()[:4] == ["foreign_error", "1", "0", "1"]
    assert main(["planted", "--loader", "own_error", "--count", "2"]) == 0


@pytest.mark.parametrize("suffix", [".json", ".yml", ".csv", ".png"])
def test_mutations_follow_from_the_seed(suffix):
    data = b'{"a": [1, 2.5, "x"], "b": {"c": null, "d": true}}'
    versions = {mutate_file(Random(seed), f"x{suffix}", data) for seed in range(200)}
    assert len(versions) > 50
    assert mutate_file(Random(5), f"x{suffix}", data) == mutate_file(Random(5), f"x{suffix}", data)


def test_one_file_of_several_is_mutated():
    loader = Loader("x", None, None, ("*.yml",), lambda rng, name, data: data[::-1], alone=False)
    files = {"a.yml": b"ab", "b.yml": b"cd", "c.txt": b"ef"}
    for seed in range(20):
        mutated = loader.mutated(Random(seed), files)
        assert mutated.keys() == files.keys() and mutated["c.txt"] == b"ef"
        assert 1 <= sum(mutated[name] != files[name] for name in files) <= 2

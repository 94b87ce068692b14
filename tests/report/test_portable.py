"""What describes a run, without what is of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlzoo.benchmark.portable import portable, refusing
from rlzoo.core.errors import UserError


def name_of(path: str) -> str:
    return Path(path).name


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/elsewhere/maze.xml", "maze.xml"),
        ("~/maze.xml", "maze.xml"),
        ("file:'/elsewhere/maze.xml'", "file:'maze.xml'"),
        ("-i/elsewhere/a.zip", "-ia.zip"),
        ("file:///elsewhere/maze.xml", "maze.xml"),
        ("sqlite:////elsewhere/studies.db", "studies.db"),
        ("mysql://me:secret@db.example/studies", "mysql://db.example/studies"),
        ("https://token@host/x", "https://host/x"),
        ("https://host/x?token=abc&size=3", "https://host/x?token=***&size=3"),
        ("password:'two words'", "password:***"),
        ("api_key:abc", "api_key:***"),
        ({"password": "abc", "n": 3}, {"password": "***", "n": 3}),
        ({"db": {"access_token": "abc", "api-key": ""}}, {"db": {"access_token": "***", "api-key": ""}}),
        ({"password": 1234, "token": None}, {"password": "***", "token": None}),
        (
            {"aws_secret_access_key": "abc", "accessToken": ["abc"]},
            {"aws_secret_access_key": "***", "accessToken": "***"},
        ),
        ("key:hf_abcdefghijklmnopqrstuvwxyzabcdefgh", "key:***"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("mysql://me:se/cret@db.example/studies", "mysql://db.example/studies"),
        ("mazes:[/elsewhere/a.xml, /elsewhere/b.xml]", "mazes:[a.xml, b.xml]"),
        ("as in /elsewhere/maze.xml, smaller", "as in maze.xml, smaller"),
        ([["/elsewhere/a", 1.5, None, True]], [["a", 1.5, None, True]]),
    ],
)
def test_paths_and_passwords_are_left_out(value, expected):
    assert portable(value, name_of) == expected


@pytest.mark.parametrize(
    "value",
    [
        "lin_0.001",
        "torch.nn.ReLU",
        "ALE/Pong-v5",
        "n_tokens:5",
        "https://host/x",
        "a/b",
        "1 / 2",
        "",
        {"n_tokens": "5"},
    ],
)
def test_other_texts_stay_as_they_are(value):
    assert portable(value, name_of) == value


def test_paths_below_the_working_directory_become_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert portable(f"--conf-file={tmp_path}/a/b.yml", refusing(Path("run"))) == "--conf-file=a/b.yml"


def test_other_paths_can_be_refused():
    with pytest.raises(UserError, match=r"run names /elsewhere/a, which is not below the working directory"):
        portable({"file": "/elsewhere/a"}, refusing(Path("run")))

"""`rlzoo benchmark score`, with a stand-in for playing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rlzoo.cli.main import main
from rlzoo.report import scoring
from rlzoo.report.scores import Score, read_scores
from rlzoo.report.scoring import Scored

SCORE = Score(
    algo="her",
    env_id="A-v0",
    seed=0,
    n_timesteps=1,
    episodes=20,
    mean=-1.5,
    std=0.25,
    median=-1.0,
    mean_length=1.0,
    success_rate=0.5,
    deterministic=True,
    evaluation_seed=1,
    training_seconds=None,
    sha256="",
    trained_with={},
    versions={},
    date="",
)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """What playing gives; to be filled by a test."""
    monkeypatch.chdir(tmp_path)
    found: list[Scored] = []
    monkeypatch.setattr(scoring, "find_agents", lambda place, rows: [result.folder for result in found])
    monkeypatch.setattr(scoring, "score_all", lambda folders, rows, episodes, n_jobs: iter(found))
    return found


def test_each_agent_is_a_line_and_what_was_known_is_counted(results, tmp_path, capsys):
    results += [Scored(Path("a"), SCORE), Scored(Path("b"), dataclasses.replace(SCORE, seed=1), cached=True)]
    assert main(["benchmark", "score", "logs", "--n-jobs", "1", "-o", "all.json"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a: -1.50 +/- 0.25, success 50.0% (20 episodes)",
        "1 of 2 had been scored before",
        "2 scores are in all.json",
    ]
    assert [score.seed for score in read_scores([tmp_path / "all.json"])] == [0, 1]


def test_an_agent_that_fails_is_said_and_the_others_are_written(results, tmp_path, capsys):
    results += [Scored(Path("a"), None, problem="it died"), Scored(Path("b"), SCORE)]
    assert main(["benchmark", "score", "logs", "--n-jobs", "1", "-o", "all.json"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "rlzoo: a: it died",
        "rlzoo: error: 1 of 2 agents could not be played",
    ]
    assert read_scores([tmp_path / "all.json"]) == [SCORE]


def test_a_score_that_cannot_be_kept_counts_all_the_same(results, tmp_path, capsys):
    results.append(Scored(Path("a"), SCORE, problem="cannot write a/score.json: Permission denied"))
    assert main(["benchmark", "score", "logs", "--n-jobs", "1", "-o", "all.json"]) == 0
    assert "rlzoo: a: cannot write a/score.json" in capsys.readouterr().err
    assert read_scores([tmp_path / "all.json"]) == [SCORE]

"""`rlzoo benchmark score`, with a stand-in for playing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rlzoo.benchmark import scoring
from rlzoo.benchmark.scores import Score, read_scores, write_scores
from rlzoo.benchmark.scoring import Scored
from rlzoo.cli.main import main

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
    sha256="0" * 64,
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
        "rlzoo: error: 1 of 2 agents could not be evaluated",
    ]
    assert read_scores([tmp_path / "all.json"]) == [SCORE]


def test_a_score_that_cannot_be_kept_counts_all_the_same(results, tmp_path, capsys):
    results.append(Scored(Path("a"), SCORE, problem="cannot write a/score.json: Permission denied"))
    assert main(["benchmark", "score", "logs", "--n-jobs", "1", "-o", "all.json"]) == 0
    assert "rlzoo: a: cannot write a/score.json" in capsys.readouterr().err
    assert read_scores([tmp_path / "all.json"]) == [SCORE]


def agents(place: Path, *seeds: int) -> None:
    for number, seed in enumerate(seeds, start=1):
        folder = place / "ppo" / f"CartPole-v1_{number}" / "CartPole-v1"
        folder.mkdir(parents=True)
        (folder / "args.yml").write_text(f"{{algo: ppo, env_id: CartPole-v1, seed: {seed}}}")
        (folder.parent / "CartPole-v1.zip").touch()


def test_a_file_keeps_the_scores_of_agents_that_are_elsewhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    old = dataclasses.replace(SCORE, algo="ppo", env_id="CartPole-v1")
    elsewhere, unlisted = dataclasses.replace(old, seed=7), dataclasses.replace(old, env_id="Acrobot-v1")
    write_scores(Path("all.json"), [old, elsewhere, unlisted])
    agents(Path("logs"), 0, 1)
    new = dataclasses.replace(old, mean=1.0)
    played = [Scored(Path("a"), new), Scored(Path("b"), None, problem="it died")]
    monkeypatch.setattr(scoring, "score_all", lambda *_: iter(played))
    command = ["benchmark", "score", "logs", "--n-jobs", "1", "-o", "all.json"]
    assert main(command) == 1
    assert "1 score is in all.json, beside 2 of other agents\n" in capsys.readouterr().out
    assert read_scores([Path("all.json")]) == [unlisted, new, elsewhere]
    Path("list.yml").write_text("rows: [{algo: ppo, env: CartPole-v1}]")
    assert main([*command, "--list", "list.yml"]) == 1
    assert read_scores([Path("all.json")]) == [new, elsewhere]


def test_a_failed_agent_keeps_no_score_of_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    old = [dataclasses.replace(SCORE, algo="ppo", env_id="CartPole-v1", seed=seed) for seed in (0, 1)]
    write_scores(Path("all.json"), old)
    agents(Path("logs"), 0, 1)
    played = [Scored(Path("a"), old[0]), Scored(Path("b"), None, problem="it died")]
    monkeypatch.setattr(scoring, "score_all", lambda *_: iter(played))
    assert main(["benchmark", "score", "logs", "--n-jobs", "1", "-o", "all.json"]) == 1
    assert read_scores([Path("all.json")]) == old[:1]


def test_a_file_of_another_kind_is_not_written_over(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scoring, "score_all", lambda *_: pytest.fail("they played"))
    agents(Path("logs"), 0)
    Path("notes.md").write_text("mine")
    assert main(["benchmark", "score", "logs", "--n-jobs", "1", "-o", "notes.md"]) == 2
    assert "notes.md" in capsys.readouterr().err and Path("notes.md").read_text() == "mine"


def test_duplicate_agents_fail_before_scoring(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scoring, "score_all", lambda *_: pytest.fail("they played"))
    agents(Path("logs"), 0, 1, 0)
    assert main(["benchmark", "score", "logs", "--n-jobs", "1", "-o", "all.json"]) == 2
    assert "CartPole-v1_1 and logs/ppo/CartPole-v1_3 are both ppo on CartPole-v1" in capsys.readouterr().err


def test_zoo_runs_with_one_seed_fail_before_scoring(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scoring, "score_all", lambda *_: pytest.fail("they played"))
    agents(Path("logs"), 0, 0)
    for file in Path("logs").rglob("args.yml"):
        file.write_text("{algo: ppo, env: CartPole-v1, seed: 0}")
    assert main(["benchmark", "score", "logs", "--n-jobs", "1", "-o", "all.json"]) == 2
    assert "are both ppo on CartPole-v1 with seed 0" in capsys.readouterr().err


def test_steps_of_zoo_name_the_flag_for_episodes(results, capsys):
    results.append(Scored(Path("a"), SCORE))
    assert main(["benchmark", "score", "logs", "--n-jobs", "1", "--n-timesteps", "9"]) == 0
    assert capsys.readouterr().err == (
        "rlzoo: --n-timesteps is not needed: whole episodes are evaluated (--n-episodes N);"
        " -n of rl_zoo3 counts steps\n"
    )


def test_an_agent_in_two_places_plays_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    played: list[Path] = []
    agents(Path("logs"), 0)
    monkeypatch.setattr(scoring, "score_all", lambda folders, *_: played.extend(folders) or iter(()))
    assert main(["benchmark", "score", "logs", "logs/ppo", str(tmp_path / "logs"), "--n-jobs", "1"]) == 0
    assert len(played) == 1


@pytest.mark.parametrize(
    ("output", "message"), [("folder", "folder is a folder"), ("file/x.json", "cannot write")]
)
def test_a_place_for_the_scores_that_is_none_is_told_first(tmp_path, monkeypatch, capsys, output, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scoring, "score_all", lambda *_: pytest.fail("they played"))
    agents(Path("logs"), 0)
    Path("folder").mkdir()
    Path("file").touch()
    assert main(["benchmark", "score", "logs", "-o", output]) == 2
    assert message in capsys.readouterr().err

"""Records of scores: what is written is read back, and what is no record is refused."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from rlzoo.benchmark.scores import SCORE, Score, digest, read_scores, write_score, write_scores
from rlzoo.core.errors import UserError

SAMPLE = Score(
    algo="ppo",
    env_id="CartPole-v1",
    seed=0,
    n_timesteps=100,
    episodes=10,
    mean=480.5,
    std=12.25,
    median=490.0,
    mean_length=480.5,
    success_rate=None,
    deterministic=True,
    evaluation_seed=1_000_000,
    training_seconds=12.5,
    sha256="ab" * 32,
    trained_with={"versions": {"torch": "2"}, "git_commit": None, "date": "2026-01-01T00:00:00Z"},
    versions={"rlzoo": "0.1.0"},
    date="2026-01-02T00:00:00Z",
)


def test_a_list_is_read_back_in_an_order_of_its_own(tmp_path: Path) -> None:
    scores = [replace(SAMPLE, seed=2), replace(SAMPLE, algo="a2c"), SAMPLE]
    write_scores(tmp_path / "scores.json", scores)
    read = read_scores([tmp_path / "scores.json"])
    assert read == [scores[1], scores[2], scores[0]]
    first = (tmp_path / "scores.json").read_bytes()
    write_scores(tmp_path / "scores.json", reversed(scores))
    assert (tmp_path / "scores.json").read_bytes() == first


def test_folders_are_searched_for_records(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_score(tmp_path / f"seed{seed}" / "ppo" / SCORE, replace(SAMPLE, seed=seed))
    assert [score.seed for score in read_scores([tmp_path])] == [0, 1]


def test_the_same_record_twice_counts_once(tmp_path: Path) -> None:
    write_score(tmp_path / SCORE, SAMPLE)
    write_scores(tmp_path / "all.json", [SAMPLE])
    assert read_scores([tmp_path, tmp_path / "all.json"]) == [SAMPLE]


@pytest.mark.parametrize(
    "impossible",
    [{"algo": ""}, {"env_id": "a\nb"}, {"n_timesteps": -5}, {"episodes": 0}, {"mean": 1e308}, {"std": -3.0},
     {"median": -1e200}, {"mean_length": -1.0}, {"success_rate": 7.0}, {"sha256": "zz"},
     {"name": "a b"}, {"n_candidates": 0}],
)  # fmt: skip
def test_what_no_agent_can_have_is_refused(tmp_path: Path, impossible: dict) -> None:
    (name,) = impossible
    (tmp_path / "s.json").write_text(json.dumps(asdict(SAMPLE) | impossible))
    with pytest.raises(UserError, match=rf"s\.json: {name} of a score cannot be "):
        read_scores([tmp_path / "s.json"])


def test_a_folder_that_cannot_be_searched_is_a_mistake(tmp_path: Path, monkeypatch) -> None:
    write_score(tmp_path / "seed0" / SCORE, SAMPLE)
    (tmp_path / "seed1").mkdir()
    scandir = os.scandir

    def closed(path: str):
        if str(path).endswith("seed1"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(UserError, match=r"cannot read .*seed1: Permission denied"):
        read_scores([tmp_path])


def test_two_records_of_one_training_that_differ_are_a_mistake(tmp_path: Path) -> None:
    write_scores(tmp_path / "a.json", [SAMPLE])
    write_scores(tmp_path / "b.json", [replace(SAMPLE, mean=1.0)])
    with pytest.raises(UserError, match="disagree on ppo CartPole-v1 seed 0"):
        read_scores([tmp_path / "a.json", tmp_path / "b.json"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON file"),
        ("[1]", "'1' is no record"),
        ("{}", "algo is missing"),
        (json.dumps({**asdict(SAMPLE), "meen": 1}), "did you mean 'mean'"),
        (json.dumps({**asdict(SAMPLE), "seed": "x"}), "seed must be"),
        (json.dumps({**asdict(SAMPLE), "trained_with": None}), "trained_with must be a dictionary, not None"),
        (json.dumps({**asdict(SAMPLE), "mean": float("nan")}), "mean must be a number, not nan"),
        (json.dumps({**asdict(SAMPLE), "mean": float("inf")}), "mean must be a number, not inf"),
        (json.dumps(asdict(SAMPLE)).replace("490.0", "-1e999"), "median must be a number, not -inf"),
        ("[" * 100_000, "is no JSON file"),
    ],
)
def test_what_is_no_record_is_refused_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "scores.json").write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        read_scores([tmp_path / "scores.json"])
    assert "\n" not in str(caught.value)


def test_what_a_killed_process_left_half_written_is_no_score(tmp_path: Path) -> None:
    write_score(tmp_path / "a" / SCORE, SAMPLE)
    write_score(tmp_path / ".a-0f" / SCORE, replace(SAMPLE, mean=1.0))
    assert read_scores([tmp_path]) == [SAMPLE]


def test_two_records_of_one_training_in_one_file_are_a_mistake(tmp_path: Path) -> None:
    write_scores(tmp_path / "a.json", [SAMPLE, replace(SAMPLE, mean=1.0)])
    with pytest.raises(UserError, match=r"a\.json has two scores of ppo CartPole-v1 seed 0"):
        read_scores([tmp_path / "a.json"])


def test_a_record_beside_another_agent_is_refused(tmp_path: Path) -> None:
    (tmp_path / "CartPole-v1.zip").write_bytes(b"trained on since")
    write_score(tmp_path / SCORE, SAMPLE)
    with pytest.raises(UserError, match=r"score\.json is of another agent; `rlzoo benchmark score"):
        read_scores([tmp_path])
    write_score(tmp_path / SCORE, replace(SAMPLE, sha256=digest(tmp_path / "CartPole-v1.zip")))
    assert len(read_scores([tmp_path])) == 1


def test_a_place_without_records_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="`rlzoo benchmark score"):
        read_scores([tmp_path])
    with pytest.raises(UserError, match="there is no"):
        read_scores([tmp_path / "nowhere"])


def test_records_from_before_a_field_was_there_stay_as_they_were(tmp_path: Path) -> None:
    write_score(tmp_path / SCORE, SAMPLE)
    written = json.loads((tmp_path / SCORE).read_text())
    new = {"name", "n_candidates", "selection_score", "selection_episodes"}
    assert written.keys() == asdict(SAMPLE).keys() - new
    chosen = replace(SAMPLE, name="big", n_candidates=3, selection_score=481.0, selection_episodes=10)
    write_score(tmp_path / SCORE, chosen)
    (read,) = read_scores([tmp_path / SCORE])
    assert asdict(read) == asdict(chosen) and read.key == ("big", "CartPole-v1")


def test_how_an_agent_was_chosen_is_no_other_score(tmp_path: Path) -> None:
    write_score(tmp_path / "a" / SCORE, SAMPLE)
    write_score(tmp_path / "b" / SCORE, replace(SAMPLE, n_candidates=3, selection_score=1.0))
    assert read_scores([tmp_path]) == [SAMPLE]

"""Normalised scores and what they are measured by."""

from __future__ import annotations

import csv
import itertools

import numpy as np
import pytest

from rlzoo.config.hyperparams import shipped_folder
from rlzoo.core.errors import UserError
from rlzoo.plots import gather, normalise
from rlzoo.plots.normalisation import scales_of
from rlzoo.plots.references import RANDOM, best_reference, random_score


def test_known_environments_have_random_and_published_scores(logs):
    scales = scales_of(gather(logs))
    low, best = random_score("CartPole-v1"), best_reference("CartPole-v1")
    assert (scales["CartPole-v1"].low, scales["CartPole-v1"].high) == (low, best.mean)
    assert 15 < low < 30 and best.mean == 500


def test_other_environments_have_the_range_of_the_runs(logs):
    scales = scales_of(gather(logs))
    assert (scales["Mine-v0"].low, scales["Mine-v0"].high) == (0.0, 10.0)
    assert "lowest and highest evaluation" in scales["Mine-v0"].kind


def test_scores_are_runs_times_environments(logs):
    scores = normalise(gather(logs), {"CartPole-v1": (0, 500), "Mine-v0": [0, 10]})
    assert scores.final["ppo"].tolist() == [[0.8, 0.5], [0.9, 0.6], [1.0, 0.7]]
    assert scores.curves["a2c"][0].tolist() == [[0.04, 0.2, 0.4], [0.1, 0.2, 1.0]]
    assert scores.steps.tolist() == [1000, 2000, 3000] and not scores.in_percent


def test_trainings_of_other_lengths_are_compared_by_their_share(logs, make_run):
    for algo, seed in itertools.product(("ppo", "a2c"), range(3)):
        make_run(algo, "Long-v0", seed, np.arange(1, 7), steps=np.arange(1, 7) * 5000)
    scores = normalise(gather(logs), "range")
    assert scores.in_percent and scores.steps.tolist() == pytest.approx([100 / 3, 200 / 3, 100])
    long = scores.environments.index("Long-v0")
    assert scores.curves["ppo"][0, long].tolist() == pytest.approx([0.2, 0.6, 1.0])
    short = scores.environments.index("Mine-v0")
    assert scores.curves["a2c"][0, short].tolist() == pytest.approx([0.1, 0.2, 1.0])


def test_environments_that_some_lack_are_not_aggregated(logs, make_run):
    make_run("ppo", "Only-v0")
    with pytest.warns(UserWarning, match="not aggregated, for lack of runs: Only-v0"):
        assert normalise(gather(logs)).environments == ["CartPole-v1", "Mine-v0"]


def test_the_fewest_runs_of_an_environment_count(logs, make_run):
    make_run("ppo", "CartPole-v1", 3)
    with pytest.warns(UserWarning, match="ppo: 3 runs of each environment"):
        assert normalise(gather(logs)).final["ppo"].shape == (3, 2)


def test_nothing_in_common_is_a_mistake(make_run, tmp_path):
    make_run("ppo", "CartPole-v1")
    make_run("a2c", "Mine-v0")
    with pytest.raises(UserError, match="no environment has runs of all of ppo, a2c"):
        normalise(gather(tmp_path / "logs"))


def test_success_rates_are_as_they_are(make_run, tmp_path):
    make_run(successes=[[0, 0], [0, 1], [1, 1]])
    scores = normalise(gather(tmp_path / "logs", key="successes"))
    assert scores.curves["ppo"].tolist() == [[[0.0, 0.5, 1.0]]] and scores.caption == "success rates"


def test_references_are_given_in_a_file(logs, tmp_path):
    path = tmp_path / "scales.yml"
    path.write_text("CartPole-v1: [20, 500]\nMine-v0: [0, 1e1]\n")
    scores = normalise(gather(logs), path)
    assert scores.scales["CartPole-v1"].low == 20.0 and scores.caption == "0 and 1 = given references"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CartPole-v1: [20, 500]", "no references for Mine-v0"),
        ("CartPole-v1: [500, 20]\nMine-v0: [0, 1]", r"needs \[low, high\]"),
        ("CartPole-v1: 500\nMine-v0: [0, 1]", r"needs \[low, high\]"),
        ("CartPole-v1: [0, .inf]\nMine-v0: [0, 1]", r"needs \[low, high\]"),
        ("CartPole-v1: [a, b]\nMine-v0: [0, 1]", r"needs \[low, high\]"),
        ("[1]", "should have lines"),
    ],
)
def test_wrong_references_are_a_mistake(logs, tmp_path, text, message):
    (tmp_path / "scales.yml").write_text(text)
    with pytest.raises(UserError, match=message):
        normalise(gather(logs), tmp_path / "scales.yml")


def test_missing_references_are_a_mistake(logs):
    with pytest.raises(UserError, match=r"published: .* for Mine-v0"):
        normalise(gather(logs), "published")
    with pytest.raises(UserError, match="not 'rang'"):
        normalise(gather(logs), "rang")


def test_equal_evaluations_have_no_range(make_run, tmp_path):
    make_run(env="Mine-v0", returns=(1.0, 1.0))
    with pytest.raises(UserError, match="all evaluations on Mine-v0 are 1"):
        normalise(gather(tmp_path / "logs"))
    assert normalise(gather(tmp_path / "logs"), "none").final["ppo"].tolist() == [[1.0]]


def test_random_scores_are_sorted_and_below_the_published_ones():
    with (shipped_folder("benchmarks") / RANDOM).open(newline="") as file:
        rows = list(csv.DictReader(file))
    ids = [row["env_id"] for row in rows]
    assert ids == sorted(set(ids)) and {"CartPole-v1", "Pendulum-v1", "HalfCheetah-v5"} <= set(ids)
    for env_id in ids:
        best = best_reference(env_id)
        assert best is None or random_score(env_id) < best.mean, env_id


def test_best_reference_prefers_the_exact_id():
    assert best_reference("Hopper-v5").env_id == "Hopper-v3"
    assert best_reference("Pendulum-v1").env_id == "Pendulum-v1"
    assert best_reference("Mine-v0") is None and random_score("Mine-v0") is None

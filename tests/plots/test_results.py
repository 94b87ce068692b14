"""Evaluations gathered over seeds, algorithms and environments, and their file."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

from rlzoo.core.errors import UserError
from rlzoo.plots import gather, load_runs, read_results
from rlzoo.plots.results import as_results, choose, from_frame, merge, rename, results_text


def test_curves_are_gathered_over_seeds(logs):
    results = gather(logs)
    assert results.environments == ["CartPole-v1", "Mine-v0"] and results.names == ["a2c", "ppo"]
    curve = results.curve("CartPole-v1", "ppo")
    assert curve.seeds == (0, 1, 2) and curve.steps.tolist() == [1000, 2000, 3000]
    assert curve.scores[:, 0].tolist() == [20.0, 21.0, 22.0]
    assert curve.final.tolist() == [400.0, 450.0, 500.0]


@pytest.mark.parametrize(
    ("key", "expected"), [("results", 400.0), ("reward", 400.0), ("ep_lengths", 7.0), ("length", 7.0)]
)
def test_key_chooses_the_array(logs, key, expected):
    assert gather(logs, key=key).curve("CartPole-v1", "ppo").final[0] == expected


def test_unknown_key_is_a_mistake(logs):
    with pytest.raises(UserError, match="unknown key 'result'; did you mean 'results'"):
        gather(logs, key="result")
    with pytest.raises(UserError, match="none of these runs has successes"):
        gather(logs, key="successes")


def test_folders_have_labels(make_run, tmp_path):
    for parent in ("old", "new"):
        make_run("ppo", parent=parent)
    folders = [tmp_path / "old", tmp_path / "new"]
    assert gather(folders, ["before", "after"]).names == ["before", "after"]
    make_run("a2c", parent="new")
    assert gather(folders, ["before", "after"]).names == ["ppo, before", "a2c, after", "ppo, after"]
    with pytest.raises(UserError, match="2 folders need as many labels, not 1"):
        gather(folders, ["before"])
    with pytest.raises(UserError, match="labels of folders must differ"):
        gather(folders, ["same", "same"])


def test_max_timesteps_cuts_curves(logs):
    assert gather(logs, max_timesteps=2500).curve("CartPole-v1", "ppo").steps.tolist() == [1000, 2000]
    with pytest.raises(UserError, match="no run is left"):
        gather(logs, max_timesteps=10)


def test_run_that_ended_early_is_left_out_and_said(make_run, tmp_path):
    make_run(seed=0, returns=range(10))
    make_run(seed=1, returns=range(4))
    with pytest.warns(UserWarning, match=r"left out .*CartPole-v1_2: it ended before 10,000 steps"):
        assert gather(tmp_path / "logs").curves[0].seeds == (0,)


def test_min_timesteps_keeps_shorter_runs(make_run, tmp_path):
    make_run(seed=0, returns=range(10))
    make_run(seed=1, returns=range(4))
    make_run(seed=2, returns=range(2))
    (curve,) = gather(tmp_path / "logs", min_timesteps=3000).curves
    assert curve.seeds == (0, 1) and curve.steps.tolist() == [1000, 2000, 3000, 4000]


def test_algorithm_without_long_runs_is_left_out_and_said(make_run, tmp_path):
    make_run(seed=0, returns=range(10))
    make_run(seed=0, returns=range(2), algo="a2c")
    with pytest.warns(UserWarning, match="left out a2c on CartPole-v1: no run is left"):
        assert len(gather(tmp_path / "logs", min_timesteps=3000).curves) == 1


def test_runs_with_other_steps_are_compared_at_the_nearest(make_run, tmp_path):
    make_run(seed=0, returns=range(1, 11))
    make_run(seed=1, returns=(5.0, 10.0), steps=(5100, 9900))
    (curve,) = gather(tmp_path / "logs").curves
    assert curve.steps.tolist() == [5100, 9900]
    assert curve.scores.tolist() == [[5.0, 10.0], [5.0, 10.0]]


def test_evaluation_that_is_not_finite_leaves_the_run_out(make_run, tmp_path):
    make_run(seed=0)
    make_run(seed=1, returns=(1.0, np.inf, 2.0))
    with pytest.warns(UserWarning, match="not finite"):
        assert gather(tmp_path / "logs").curves[0].seeds == (0,)


def test_variants_are_curves_of_their_own(make_run, tmp_path):
    make_run(seed=0, name="small")
    make_run(seed=1)
    assert set(gather(tmp_path / "logs").names) == {"small", "ppo"}


def test_file_is_read_as_it_was_written(logs, tmp_path):
    written = gather(logs)
    path = tmp_path / "results.json"
    path.write_text(results_text(written))
    found = read_results(path)
    assert results_text(found) == path.read_text() and found.measure == "return"
    assert found.curve("Mine-v0", "a2c").scores.tolist() == written.curve("Mine-v0", "a2c").scores.tolist()


def test_every_kind_of_source_gives_the_same_results(logs, tmp_path):
    path = tmp_path / "results.json"
    path.write_text(results_text(gather(logs)))
    for source in (logs, str(path), load_runs(logs), gather(logs)):
        assert results_text(as_results(source)) == path.read_text()


def test_table_of_something_else_is_a_mistake(logs):
    with pytest.raises(UserError, match="no column 'seed'"):
        from_frame(load_runs(logs).drop(columns="seed"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "no results file"),
        ({"version": 2}, "version 2 of the format, not 1"),
        ({"curves": []}, "no curves"),
        ({"curves": 3}, "damaged"),
        ({"curves": [{}]}, "damaged: KeyError"),
        ({"measure": 3}, "damaged"),
    ],
)
def test_damaged_file_is_a_mistake(logs, tmp_path, change, message):
    path = tmp_path / "results.json"
    path.write_text(json.dumps({**json.loads(results_text(gather(logs))), **change}))
    with pytest.raises(UserError, match=message):
        read_results(path)


@pytest.mark.parametrize(
    "change",
    [
        {"scores": [[1.0]]},
        {"scores": [[1.0, 2.0, 3.0]] * 2},
        {"scores": [[1.0, 2.0, None]] * 3},
        {"scores": [["a", 2.0, 3.0]] * 3},
        {"scores": [[1e400, 2.0, 3.0]] * 3},
        {"steps": [3, 2, 1]},
        {"steps": [1, 2, 1e300]},
        {"seeds": [0, 1, "2"]},
        {"environment": ""},
        {"name": ["ppo"]},
    ],
)
def test_damaged_curve_is_a_mistake(logs, tmp_path, change):
    content = json.loads(results_text(gather(logs)))
    content["curves"][0] |= change
    path = tmp_path / "results.json"
    path.write_text(json.dumps(content))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserError, match="is damaged"):
            read_results(path)


def test_foreign_files_are_a_mistake(tmp_path):
    for name, content in (
        ("a.json", b"["),
        ("b.json", b"[" * 100_000),
        ("c.csv", b"r,l,t\n"),
        ("d", b"\xff"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match="no results file"):
            read_results(tmp_path / name)
    (tmp_path / "theirs.pkl").write_bytes(b"\x80\x04.")
    with pytest.raises(UserError, match="pickles"):
        read_results(tmp_path / "theirs.pkl")
    with pytest.raises(UserError, match="cannot read"):
        read_results(tmp_path / "gone.json")


def test_curves_are_chosen_renamed_and_merged(logs):
    results = gather(logs)
    ppo = choose(results, keep_names=["ppo"])
    assert ppo.names == ["ppo"] and choose(results, skip_envs=["Mine-v0"]).environments == ["CartPole-v1"]
    assert rename(results, ["A2C", "PPO"]).names == ["A2C", "PPO"]
    other = rename(ppo, ["new"])
    assert merge(results, [other]).names == ["a2c", "ppo", "new"]
    assert len(merge(results, [ppo]).curves) == 4
    with pytest.raises(UserError, match="did you mean 'ppo'"):
        choose(results, skip_names=["pp"])
    with pytest.raises(UserError, match="no curve is left"):
        choose(results, keep_names=["ppo"], skip_names=["ppo"])
    with pytest.raises(UserError, match="need 2 labels"):
        rename(results, ["one"])
    with pytest.raises(UserError, match="cannot be merged"):
        merge(results, [gather(logs, key="ep_lengths")])

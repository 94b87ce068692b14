"""The rows of a table of scores."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rlzoo.benchmark.score_table import TableRow, table
from rlzoo.benchmark.table_formats import latex, markdown, short, to_json
from rlzoo.config.benchmark import Expert, Row, experts_of
from rlzoo.core.errors import UserError


def test_scores_are_grouped_and_sorted(score):
    rows = table(
        [score(seed=2, mean=3.0), score(env_id="Acrobot-v1"), score(algo="a2c"), score(seed=0, mean=1.0)]
    )
    assert [row.row.key for row in rows] == [
        ("a2c", "CartPole-v1"),
        ("ppo", "Acrobot-v1"),
        ("ppo", "CartPole-v1"),
    ]
    assert rows[2].seeds == [0, 2] and rows[2].means == [1.0, 3.0] and rows[2].aggregate.mean == 2.0
    assert rows[2].reached is None and rows[2].n_missing == 0


def test_list_sets_row_order_and_filters_scores(score):
    wanted = [Row(algo="ppo", env="B-v0"), Row(algo="ppo", env="Unscored-v0"), Row(algo="ppo", env="A-v0")]
    rows = table([score(env_id="A-v0"), score(env_id="B-v0"), score(env_id="C-v0")], wanted)
    assert [row.row for row in rows] == [wanted[0], wanted[2]]


@pytest.mark.parametrize(
    ("limit", "reached"),
    [
        ({"required": 20.0}, True),
        ({"required": 20.5}, False),
        ({"below": 20.0}, False),
        ({"below": 20.1}, True),
    ],
)
def test_the_median_is_what_is_required(score, limit, reached):
    scores = [score(seed=seed, mean=mean) for seed, mean in enumerate([20.0, 10.0, 90.0])]
    assert table(scores, [Row(algo="ppo", env="CartPole-v1", **limit)])[0].reached is reached


def test_nothing_is_reached_while_seeds_are_missing(score):
    scores = [score(seed=0), score(seed=7)]
    row = table(scores, [Row(algo="ppo", env="CartPole-v1", seeds=(0, 1, 2), required=0)])[0]
    assert row.n_missing == 2 and row.reached is None


def test_success_is_another_measure(score):
    scores = [score(mean=-40.0, std=9.0, success_rate=0.8), score(seed=1, mean=-50.0, success_rate=1.0)]
    rows = table(scores, [Row(algo="ppo", env="CartPole-v1", measure="success")])
    assert rows[0].means == [0.8, 1.0] and rows[0].stds == pytest.approx([0.4, 0.0])
    assert rows[0].reference is None  # what is published are returns
    assert table(scores)[0].means == [-40.0, -50.0] and table(scores)[0].reference.mean == 500.0


def test_success_that_was_not_recorded(score):
    row = table([score()], [Row(algo="ppo", env="CartPole-v1", measure="success")])[0]
    with pytest.raises(UserError, match="ppo on CartPole-v1: the list asks for success"):
        _ = row.means


def test_what_differs_between_seeds(score):
    scores = [
        score(seed=0, n_timesteps=100, episodes=100, training_seconds=None),
        score(seed=1, n_timesteps=300, episodes=50, training_seconds=4.0),
        score(seed=2, n_timesteps=102, episodes=100, training_seconds=10.0),
    ]
    row = table(scores)[0]
    assert (row.n_timesteps, row.episodes, row.training_seconds) == (102, 50, 7.0)
    assert table(scores[:2])[0].n_timesteps == 100  # of one of the trainings, not between them
    assert table(scores[:1])[0].training_seconds is None


def test_added_seeds_do_not_rescue_a_missed_requirement(score):
    scores = [score(seed=seed, mean=mean) for seed, mean in enumerate([1.0, 2.0, 3.0, 9.0, 9.0, 9.0, 9.0])]
    (row,) = table(scores, [Row(algo="ppo", env="CartPole-v1", required=5)])
    assert row.aggregate.median == 9.0 and row.reached is False
    (row,) = table(scores, [Row(algo="ppo", env="CartPole-v1", required=2)])
    assert row.reached is True


def test_the_agents_that_others_learn_from_are_no_seeds_of_a_row(score):
    expert = Expert(algo="ppo", seed=100, episodes=5)
    rows = [Row(algo="ppo", env="CartPole-v1"), Row(algo="bc", env="CartPole-v1", expert=expert)]
    scores = [score(seed=seed) for seed in (0, 1, 100)]
    for shown in (rows, rows[:1]):  # those that were asked for
        assert [row.seeds for row in table(scores, shown, experts_of(rows))] == [[0, 1]]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({}, True),
        ({"n_timesteps": 100_000}, True),
        ({"n_timesteps": 99_000}, True),  # it ends after its last step
        ({"n_timesteps": 5_000_000}, None),
        ({"n_timesteps": 50_000}, None),
        ({"episodes": 50}, True),  # twice as many
        ({"episodes": 101}, None),
        ({"env": "Acrobot-v1"}, None),  # its hyperparameters say a million
        ({"conf_file": "gone.yml"}, True),  # nobody knows what it said
    ],
)
def test_scores_of_other_settings_do_not_count(score, row, expected):
    rows = [Row(**{"algo": "ppo", "env": "CartPole-v1", **row}, seeds=(0,), required=-1e9)]
    (found,) = table([score(env_id=rows[0].env, n_timesteps=100_000, episodes=100)], rows)
    assert found.reached is expected and found.is_as_listed is (expected is True)


@pytest.mark.parametrize("changes", [{"evaluation_seed": 0}, {"deterministic": False}])
def test_scores_that_were_played_otherwise_reach_nothing(score, changes):
    (row,) = table([score(**changes)], [Row(algo="ppo", env="CartPole-v1", seeds=(0,), required=0)])
    assert row.reached is None and not row.is_as_listed


def test_variants_are_rows_of_their_own(score):
    scores = [score(mean=9.0), score(mean=5.0, name="big"), score("a2c", mean=1.0, name="other", seed=1)]
    assert [(row.row.label, row.means) for row in table(scores)] == [
        ("big", [5.0]),
        ("other", [1.0]),
        ("ppo", [9.0]),
    ]
    listed = [
        Row(algo="ppo", env="CartPole-v1", name="big"),
        Row(algo="ppo", env="CartPole-v1", name="other"),
    ]
    (row,) = table(scores, listed)  # `other` is a variant of another algorithm here
    assert (row.row.name, row.means) == ("big", [5.0])
    for write in (markdown, latex, short):
        assert "big" in write([row])
    assert json.loads(to_json([row]))[0]["name"] == "big"
    assert "big on CartPole-v1: the list asks for success" in problem_of(row)


def problem_of(row):
    with pytest.raises(UserError) as caught:
        TableRow(replace(row.row, measure="success"), row.scores).means  # noqa: B018
    return str(caught.value)

"""The list of a benchmark: what it stands for, and what is said about a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlzoo.config.benchmark import Expert, Row, choose, parse_key, planned_steps, read_list
from rlzoo.config.hyperparams import benchmark_file
from rlzoo.core.errors import UserError


def written(folder: Path, text: str) -> Path:
    path = folder / "list.yml"
    path.write_text(text)
    return path


def test_lists_of_names_stand_for_their_pairs(tmp_path: Path) -> None:
    path = written(
        tmp_path, "seeds: [4]\nepisodes: 7\nrows:\n- {algo: [ppo, a2c], env: [A-v1, B-v1], n_timesteps: 9}"
    )
    assert read_list(path) == [
        Row(algo=algo, env=env, seeds=(4,), episodes=7, n_timesteps=9)
        for algo in ("ppo", "a2c")
        for env in ("A-v1", "B-v1")
    ]


def test_a_row_has_the_last_word(tmp_path: Path) -> None:
    text = (
        "seeds: [4]\nrows:\n- {algo: bc, env: A-v1, seeds: [1, 2], expert: {algo: ppo, seed: 3, episodes: 5}}"
    )
    (row,) = read_list(written(tmp_path, text))
    assert row.seeds == (1, 2) and row.expert == Expert(algo="ppo", seed=3, episodes=5)


def test_a_row_with_a_name_is_a_variant_of_its_algorithm(tmp_path: Path) -> None:
    text = (
        "rows:\n- {algo: ppo, env: [A, B], name: big, hyperparams: {policy_kwargs: {net_arch: [9]}},"
        " ship: false}\n- {algo: ppo, env: A}\n- {algo: ppo, env: B, name: ppo}"
    )
    big, _, plain, same = read_list(written(tmp_path, text))
    assert (big.key, big.label, big.algo, big.ship) == (("big", "A"), "big", "ppo", False)
    assert big.hyperparams == {"policy_kwargs": {"net_arch": [9]}}
    assert plain.key == ("ppo", "A") and plain.ship and not plain.hyperparams
    assert same.name is None  # its own algorithm is no name
    assert len({big, plain, same}) == 3


def test_how_long_a_row_trains() -> None:
    assert planned_steps(Row(algo="ppo", env="CartPole-v1")) == 100_000
    assert planned_steps(Row(algo="ppo", env="CartPole-v1", hyperparams={"n_timesteps": 1e3})) == 1000
    both = Row(algo="ppo", env="CartPole-v1", hyperparams={"n_timesteps": 1e3}, n_timesteps=5)
    assert planned_steps(both) == 5
    assert planned_steps(Row(algo="ppo", env="CartPole-v1", conf_file="gone.yml")) is None


def test_steps_may_be_written_as_in_hyperparameters(tmp_path: Path) -> None:
    (row,) = read_list(written(tmp_path, "rows:\n- {algo: ppo, env: A-v1, n_timesteps: 1e5}"))
    assert row.n_timesteps == 100_000 and type(row.n_timesteps) is int
    expert = "{algo: ppo, seed: 3, episodes: 5e0}"
    (row,) = read_list(written(tmp_path, f"rows:\n- {{algo: bc, env: A-v1, expert: {expert}}}"))
    assert row.expert is not None and type(row.expert.episodes) is int


def test_required_is_a_floor_and_below_a_ceiling() -> None:
    assert Row(algo="ppo", env="A", required=5).reached(5.0)
    assert not Row(algo="ppo", env="A", required=5).reached(4.9)
    assert not Row(algo="ppo", env="A", below=5).reached(5.0)
    assert Row(algo="ppo", env="A", below=5).reached(4.9)
    assert Row(algo="ppo", env="A").reached(4.9) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is not a benchmark list: `rows` is missing"),
        ("row: []", "is not a benchmark list"),
        ("rows: []", "`rows` is empty"),
        ("seed: [0]\nrows: []", "unknown key in .*'seed'; did you mean 'seeds'"),
        ("rows: [ppo]", "a row is written as {algo: ..., env: ...}, not 'ppo'"),
        ("rows:\n- {algo: ppo}", "a row lacks env"),
        ("rows:\n- {algo: pop, env: A}", "did you mean 'ppo'"),
        ("rows:\n- {algo: ppo, env: A, requird: 3}", "did you mean 'required'"),
        (
            "rows:\n- {algo: ppo, env: A, seeds: 3}",
            "seeds must be .* whole numbers, at most 900000, not 3",
        ),
        ("rows:\n- {algo: ppo, env: A, seeds: [0, 0]}", "seeds must be a list of different"),
        ("rows:\n- {algo: ppo, env: A, seeds: [900001]}", "seeds must be a list of different"),
        ("rows:\n- {algo: ppo, env: A, seeds: [[0]]}", "seeds must be a list of different"),
        ("seeds: []\nrows:\n- {algo: ppo, env: A}", "seeds must be a list of different"),
        ("rows:\n- {algo: ppo, env: A, episodes: 0}", "episodes must be a whole number, at least 1"),
        ("rows:\n- {algo: ppo, env: A, n_timesteps: 1.5}", "n_timesteps must be a whole number"),
        ("rows:\n- {algo: ppo, env: A, measure: reward}", "measure must be return or success, not 'reward'"),
        ("rows:\n- {algo: ppo, env: A, required: high}", "required must be a number, not 'high'"),
        ("rows:\n- {algo: ppo, env: A, required: .nan}", "required must be a number, not nan"),
        ("rows:\n- {algo: ppo, env: A, note: ' '}", "note must be a sentence"),
        ("rows:\n- {algo: ppo, env: A, below: .inf}", "below must be a number, not inf"),
        ("rows:\n- {algo: ppo, env: A, conf_file: ''}", "conf_file must be a path"),
        ("rows:\n- {algo: ppo, env: A, required: 1, below: 2}", "`required` or `below`, not both"),
        ("rows:\n- {algo: bc, env: A, expert: ppo}", "expert must be {algo"),
        ("rows:\n- {algo: bc, env: A, expert: {algo: ppo}}", "an expert is written as"),
        (
            "rows:\n- {algo: bc, env: A, expert: {algo: bc, seed: 0, episodes: 1}}",
            "bc learns from an expert, and can be none itself",
        ),
        ("rows:\n- {algo: ppo, env: A, n_timesteps: .inf}", "n_timesteps must be a whole number"),
        ("rows:\n- {algo: ppo, env: A, n_timesteps: true}", "n_timesteps must be a whole number"),
        (
            "rows:\n- {algo: bc, env: A, expert: {algo: [ppo], seed: 1, episodes: 2}}",
            "an expert is written as",
        ),
        ("rows:\n- {algo: bc, env: A, expert: {algo: ppo, seed: -1, episodes: 2}}", "seed of an expert must"),
        ("rows:\n- {algo: bc, env: A, expert: {algo: pop, seed: 1, episodes: 2}}", "did you mean 'ppo'"),
        ("rows:\n- {algo: bc, env: A, expert: {algo: ppo, seed: 1, episodes: 0}}", "episodes of an expert"),
        ("rows:\n- {algo: ppo, env: A}\n- {algo: [a2c, ppo], env: A}", "has ppo on A twice"),
        ("rows:\n- {algo: ppo, env: [x/A, x-A]}", "ppo on x/A and on x-A have the same folder"),
        ("rows:\n- {algo: ppo, env: A, name: a b}", "name must be letters, digits"),
        ("rows:\n- {algo: ppo, env: A, name: ../x}", "name must be letters, digits"),
        ("rows:\n- {algo: ppo, env: A, name: 5}", "name must be letters, digits"),
        ("rows:\n- {algo: ppo, env: A, name: sac}", "sac is the name of an algorithm, and the row's is ppo"),
        ("rows:\n- {algo: [ppo, a2c], env: A, name: x}", "a row with a name has one algorithm, not"),
        ("rows:\n- {algo: ppo, env: A, name: x}\n- {algo: a2c, env: A, name: x}", "has x on A twice"),
        ("rows:\n- {algo: ppo, env: A, hyperparams: [1]}", "hyperparams must be a dictionary"),
        ("rows:\n- {algo: ppo, env: A, hyperparams: {gamma: 'dict('}}", "is no plain value"),
        ("rows:\n- {algo: ppo, env: A, ship: 1}", "ship must be true or false, not 1"),
        ("rows:\n- {algo: [], env: A}", "algo must be a name or a list of names"),
    ],
)
def test_a_mistake_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("{", r"\{")) as caught:
        read_list(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_missing_list_is_a_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.yml"):
        read_list(tmp_path / "none.yml")


def test_rows_are_chosen_by_their_keys() -> None:
    rows = [Row(algo="ppo", env="A"), Row(algo="a2c", env="A"), Row(algo="ppo", env="B")]
    variant = Row(algo="ppo", env="A", name="big", hyperparams={"gamma": 0.9})
    assert choose([*rows, variant], [("big", "A")]) == [variant]
    assert choose(rows, []) == rows
    assert choose(rows, [("ppo", "B"), ("ppo", "A")]) == [rows[0], rows[2]]
    with pytest.raises(UserError, match="unknown row 'ppo:C'; did you mean 'ppo:"):
        choose(rows, [("ppo", "C")])


def test_the_key_of_a_row_has_two_parts() -> None:
    assert parse_key("ppo:CartPole-v1") == ("ppo", "CartPole-v1")
    assert parse_key("ppo:my_package:My-v0") == ("ppo", "my_package:My-v0")
    assert parse_key("big.net-2:A") == ("big.net-2", "A")
    for wrong in ("ppo", ":A", "ppo:", ""):
        with pytest.raises(UserError, match="ALGORITHM:ENVIRONMENT"):
            parse_key(wrong)


def test_shipped_benchmark_list_and_its_files_exist() -> None:
    rows = read_list(benchmark_file("benchmarks/learning.yml"))
    assert {row.algo for row in rows} >= {"ppo", "sac", "trpo"}
    for row in rows:
        assert row.conf_file is None or benchmark_file(row.conf_file).is_file()

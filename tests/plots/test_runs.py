"""The evaluations of run folders as a table."""

from __future__ import annotations

import numpy as np
import pytest

import rlzoo
from rlzoo.core.errors import UserError
from rlzoo.plots.runs import find_runs, load_runs, select


def test_evaluations_become_rows(make_run, tmp_path):
    folder = make_run(seed=3, returns=(10.0, 20.0), successes=[[0, 1], [1, 1]])
    table = rlzoo.load_runs(tmp_path / "logs")
    assert list(table.columns) == [
        "algorithm", "name", "environment", "seed", "run", "step", "return", "length", "success",
    ]  # fmt: skip
    assert table.iloc[0].tolist() == ["ppo", "ppo", "CartPole-v1", 3, str(folder), 1000, 10.0, 7.0, 0.5]
    assert table["return"].tolist() == [10.0, 20.0] and table["success"].tolist() == [0.5, 1.0]


def test_folder_of_one_run_is_enough(make_run):
    assert len(load_runs(make_run())) == 3


def test_unknown_success_is_nan(make_run, tmp_path):
    make_run()
    make_run(seed=1, successes=[[0, 1]] * 3)
    table = load_runs(tmp_path / "logs")
    assert table["success"].isna().tolist() == [True] * 3 + [False] * 3


def test_other_arrays_are_columns(make_run, tmp_path):
    make_run(speed=np.array([1.0, 2.0, 3.0]), odd=np.zeros(9))
    table = load_runs(tmp_path / "logs")
    assert table["speed"].tolist() == [1.0, 2.0, 3.0] and "odd" not in table


def test_array_named_like_a_column_does_not_replace_it(make_run, tmp_path):
    make_run(**{"return": np.ones(3), "length": np.ones(3)})
    table = load_runs(tmp_path / "logs")
    assert table["return"].tolist() == [10.0, 20.0, 30.0] and table["length"].tolist() == [7.0] * 3


def test_runs_of_a_benchmark_are_found(make_run, tmp_path):
    for seed in range(2):
        make_run(seed=seed, parent=f"logs/benchmark/seed{seed}")
    assert [run.seed for run in find_runs(tmp_path / "logs")] == [0, 1]


def test_variant_is_named_by_row_json(make_run, tmp_path):
    make_run(seed=0, name="ppo, small")
    make_run(seed=1)
    runs = find_runs(tmp_path / "logs")
    assert {run.name for run in runs} == {"ppo, small", "ppo"}
    assert {run.algorithm for run in runs} == {"ppo"}
    assert [run.seed for run in select(runs, ["PPO, small"])] == [0]
    assert len(select(runs, ["PPO"])) == 2


def test_runs_of_rl_baselines3_zoo_are_read(make_run, tmp_path):
    folder = make_run()
    (folder / "CartPole-v1" / "args.yml").write_text(
        "!!python/object/apply:collections.OrderedDict\n- - - algo\n    - tqc\n  - - env\n    - Mine-v1\n"
        "  - - seed\n    - 17\n"
    )
    (run,) = find_runs(tmp_path / "logs")
    assert (run.algorithm, run.environment, run.seed) == ("tqc", "Mine-v1", 17)


def test_seed_that_is_not_known_is_none(make_run, tmp_path):
    folder = make_run()
    (folder / "CartPole-v1" / "args.yml").write_text("algo: ppo\nenv_id: CartPole-v1\nseed: -1\n")
    assert find_runs(tmp_path / "logs")[0].seed is None
    assert load_runs(tmp_path / "logs")["seed"].isna().all()


def test_environments_are_chosen_by_part_of_their_id(make_run, tmp_path):
    for env in ("HalfCheetah-v5", "HalfCheetah-v4", "Ant-v5"):
        make_run(env=env)
    runs = find_runs(tmp_path / "logs")
    assert [run.environment for run in select(runs, envs=["Half"])] == ["HalfCheetah-v4", "HalfCheetah-v5"]
    assert [run.environment for run in select(runs, envs=["Ant-v5"])] == ["Ant-v5"]
    with pytest.raises(UserError, match="did you mean 'Ant-v5'"):
        select(runs, envs=["Ant-v7"])
    with pytest.raises(UserError, match="did you mean 'ppo'"):
        select(runs, algos=["pp"])


def test_names_without_a_run_are_left_out_with_a_warning(make_run, tmp_path):
    make_run(env="Ant-v5")
    runs = find_runs(tmp_path / "logs")
    with pytest.warns(UserWarning, match="there is no run of algorithm 'sac'"):
        assert len(select(runs, algos=["ppo", "sac"])) == 1
    with pytest.warns(UserWarning, match="there is no run of environment 'Walker'"):
        assert len(select(runs, envs=["Walker", "Ant"])) == 1


def test_algorithms_without_a_run_are_said_with_those_there(make_run, tmp_path):
    make_run(algo="ppo")
    make_run(algo="a2c", env="Ant-v5")
    runs = find_runs(tmp_path / "logs")
    with pytest.raises(UserError, match=r"^there is no run of algorithm 'dqn' in logs, only of a2c, ppo$"):
        select(runs, ["dqn"], where="logs")
    with pytest.raises(UserError, match=r"'pppo' or 'sac' in logs, only of a2c, ppo; did you mean 'ppo'\?"):
        select(runs, ["pppo", "sac"], where="logs")
    with pytest.raises(UserError, match="no run of ppo on Ant-v5 in logs, only of a2c on Ant-v5, ppo on C"):
        select(runs, ["ppo"], ["Ant-v5"], where="logs")


def test_folder_without_runs_is_a_mistake(tmp_path):
    with pytest.raises(UserError, match="there are no runs in"):
        load_runs(tmp_path)
    with pytest.raises(UserError, match="there is no folder"):
        load_runs(tmp_path / "nowhere")


def test_runs_without_evaluations_are_a_mistake(make_run, tmp_path):
    make_run(returns=None)
    with pytest.raises(UserError, match=r"no evaluations .* of the run in .*--eval-freq"):
        load_runs(tmp_path / "logs")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"results": np.ones((2, 1))}, "holds no evaluations"),
        ({"timesteps": np.arange(2), "results": np.ones((3, 1))}, "results has the shape"),
        ({"timesteps": np.arange(2), "results": np.array([["a"], ["b"]])}, "results has the shape"),
        ({"timesteps": np.array([2, 1]), "results": np.ones((2, 1))}, "do not increase"),
        ({"timesteps": np.array([]), "results": np.ones((0, 1))}, "do not increase"),
        ({"timesteps": np.array([1, None]), "results": np.ones((2, 1))}, "pickled"),
    ],
)
def test_broken_evaluations_are_a_mistake(make_run, tmp_path, arrays, message):
    folder = make_run()
    np.savez(folder / "evaluations.npz", **arrays)
    with pytest.raises(UserError, match=message) as caught:
        load_runs(tmp_path / "logs")
    assert "evaluations.npz" in str(caught.value)


@pytest.mark.parametrize("content", ["", "[]", '{"name": 3}', "[" * 100_000])
def test_broken_row_json_is_a_mistake(make_run, tmp_path, content):
    (make_run() / "row.json").write_text(content)
    with pytest.raises(UserError, match=r"row\.json is damaged"):
        load_runs(tmp_path / "logs")


def test_broken_args_are_a_mistake(make_run, tmp_path):
    (make_run() / "CartPole-v1" / "args.yml").write_text("algo: [1]\n")
    with pytest.raises(UserError, match="does not describe a run"):
        load_runs(tmp_path / "logs")

"""`rlzoo list`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlzoo.cli import list as command
from rlzoo.cli.main import main
from rlzoo.config import catalog
from rlzoo.runs.pretrained_registry import AgentEntry, shipped_agents, write_registry


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist sets it


def lines(capsys):
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_algorithms(capsys):
    assert main(["list", "algos"]) == 0
    shown = [line[:2] for line in lines(capsys)]
    assert [name for name, _ in shown] == catalog.names()
    assert ["a2c", "A2C"] in shown


def test_environments_and_who_has_hyperparameters_for_them(capsys):
    assert main(["list", "envs"]) == 0
    rows = {line[0]: line[1:] for line in lines(capsys)}
    assert {"a2c", "dqn", "ppo"} <= set(rows["CartPole-v1"]) and "ppo" in rows["CarRacing-v3"]
    assert "sac" not in rows["CartPole-v1"] and "a2c" not in rows["CarRacing-v3"]
    assert "default" not in rows and "atari" not in rows
    assert main(["list", "envs", "--algo", "a2c"]) == 0
    assert all(line[1:] == ["a2c"] for line in lines(capsys))


def test_all_environments_are_those_that_can_be_made_here(capsys):
    assert main(["list", "envs", "--all"]) == 0
    rows = {line[0]: line[1:] for line in lines(capsys)}
    assert {"a2c", "ppo"} <= set(rows["CartPole-v1"]) and rows["Blackjack-v1"] == []


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setattr("rlzoo.runs.pretrained_registry.shipped_root", lambda: tmp_path / "trained_agents")
    for folder, files in {
        "ppo/CartPole-v1_2": ["CartPole-v1.zip"],
        "ppo/CartPole-v1_10": ["best_model.zip", "CartPole-v1.zip"],
        "ppo/CartPole-v1_11": [],
        "a2c/ALE-Pong-v5_1": ["ALE-Pong-v5.zip"],
    }.items():
        (tmp_path / "logs" / folder).mkdir(parents=True)
        for file in files:
            (tmp_path / "logs" / folder / file).touch()
    return tmp_path / "logs"


def test_agents_are_the_runs_that_hold_a_model(capsys, logs):
    assert main(["list", "agents", "-f", str(logs)]) == 0
    assert [line[:3] for line in lines(capsys)] == [
        ["a2c", "ALE-Pong-v5", "1"],
        ["ppo", "CartPole-v1", "2"],
        ["ppo", "CartPole-v1", "10"],
    ]
    assert main(["list", "agents", "-f", str(logs), "--algo", "a2c"]) == 0
    assert len(lines(capsys)) == 1


def test_shipped_agents_are_listed_with_their_scores(capsys, logs, monkeypatch):
    figures = {
        "n_timesteps": 1,
        "mean": 500.0,
        "std": 0.25,
        "median": 500.0,
        "episodes": 100,
        "success_rate": None,
    }
    where = {"path": "ppo/Ant-v5_1", "sha256": "", "bytes": 1, "actor_only": True, "date": None, "seed": 0}
    agent = AgentEntry(algo="ppo", env_id="Ant-v5", **figures, **where)
    write_registry(logs.parent / "trained_agents", [agent])
    monkeypatch.chdir(logs.parent)
    (logs / "none").mkdir(parents=True)
    assert main(["list", "agents", "-f", str(logs / "none")]) == 0
    assert capsys.readouterr().out == "ppo  Ant-v5  1  500.0 ± 0.2  1B\n"
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["list", "agents", "-f", str(logs / "none")]) == 0
    line = "ppo  Ant-v5  1  500.0 ± 0.2  1B  0  trained_agents/ppo/Ant-v5_1\n"
    assert capsys.readouterr().out == line
    best = replace(agent, name="big", seed=2, n_candidates=3, success_rate=0.5, path="ppo/Ant-v5_2")
    write_registry(logs.parent / "trained_agents", [agent, best])
    assert main(["list", "agents", "-f", str(logs / "none")]) == 0
    second = capsys.readouterr().out.splitlines()[1]
    assert second.endswith("500.0 ± 0.2 (50%)  1B  2 of 3  trained_agents/ppo/Ant-v5_2")
    assert second.startswith("ppo:big  Ant-v5  1")
    assert main(["list", "agents", "--algo", "a2c", "-f", str(logs / "none")]) == 0
    assert lines(capsys) == []


def test_the_list_of_agents_fits_80_columns(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    assert main(["list", "agents"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == len(shipped_agents()) and max(map(len, out)) <= 80


def test_folders_of_runs_are_left_out_where_they_do_not_fit(capsys, logs, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    assert main(["list", "agents", "-f", str(logs)]) == 0
    assert str(logs / "ppo" / "CartPole-v1_2") in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["list", "agents", "-f", str(logs)]) == 0
    assert lines(capsys)[1] == ["ppo", "CartPole-v1", "2", "1", "file"]


def test_a_terminal_has_headings(capsys, logs, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["list", "agents", "-f", str(logs)]) == 0
    assert lines(capsys)[0][:3] == ["algorithm", "environment", "run"]


def test_no_agents_is_said(capsys, logs):
    (logs / "none").mkdir(parents=True)
    assert main(["list", "agents", "-f", str(logs / "none")]) == 0
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == f"no agents in {logs / 'none'}\n"


def test_a_wrong_word_gets_the_nearest(capsys):
    assert main(["list", "algorithms"]) == 2
    assert "did you mean 'algos'?" in capsys.readouterr().err


def test_columns_are_aligned(capsys):
    command.print_table([("a", "bb", "c"), ("aaa", "b", "")])
    assert capsys.readouterr().out == "a    bb  c\naaa  b\n"


def test_verbose_list_of_algorithms_shows_hyperparameters(capsys):
    assert main(["list", "algos", "--verbose"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert [part.split(":")[0] for part in out.split("\n\n")] == catalog.names()
    assert main(["list", "algos", "--algo", "ppo", "-v"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("ppo: PPO\n    Proximal policy optimisation (Schulman et al. 2017,")
    assert "    losses: clip_range=0.2 clip_range_vf=null vf_coef=0.5\n" in out

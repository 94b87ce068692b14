"""`rlzoo benchmark ship`."""

from __future__ import annotations

import shutil

import pytest

from rlzoo.cli.main import main
from rlzoo.config.run import RunConfig
from rlzoo.experiment.training_run import train
from rlzoo.runs.pretrained_registry import read_registry

SMALL = {"n_envs": 1, "n_steps": 20, "batch_size": 20, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A working directory with one run in `logs`."""
    monkeypatch.chdir(tmp_path)
    run = RunConfig(
        algo="ppo", env_id="CartPole-v1", seed=3, n_timesteps=20, hyperparams=SMALL, eval_freq=-1, verbose=0
    )
    train(run, "rlzoo train --algo ppo --env CartPole-v1 --seed 3")
    return tmp_path


def test_agents_are_shipped_and_the_registry_is_written(work, capsys):
    assert main(["benchmark", "ship", "logs", "--seed", "3"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out == ["trained_agents/ppo/CartPole-v1_1: whole, seed 3", "trained_agents has 1 agent, 0.0 MB"]
    (agent,) = read_registry(work / "trained_agents")
    assert (agent.algo, agent.seed) == ("ppo", 3)
    assert main(["benchmark", "ship", "logs", "--seed", "3"]) == 0
    assert "is there already" in capsys.readouterr().out


def test_without_folders_only_the_registry_is_written(work, capsys):
    assert main(["benchmark", "ship", "logs", "--seed", "3", "-o", "mine"]) == 0
    (work / "mine" / "registry.json").unlink()
    assert main(["benchmark", "ship", "-o", "mine"]) == 0
    assert len(read_registry(work / "mine")) == 1
    assert main(["benchmark", "ship", "-o", "none"]) == 2
    assert "no collection none" in capsys.readouterr().err and not (work / "none").exists()


def test_ship_follows_the_list(work, capsys):
    (work / "list.yml").write_text("rows:\n- {algo: ppo, env: CartPole-v1, below: 100}")
    assert main(["benchmark", "ship", "logs", "--seed", "3", "--list", "list.yml"]) == 2
    assert "no trained agent of the list" in capsys.readouterr().err
    (work / "list.yml").write_text("rows:\n- {algo: ppo, env: CartPole-v1, required: 100}")
    assert main(["benchmark", "ship", "logs", "--seed", "3", "--list", "list.yml"]) == 0


def test_ship_takes_best_learned_seed(work, capsys):
    text = "rows:\n- {algo: ppo, env: CartPole-v1, seeds: [3, 4], episodes: 2, required: %s}"
    arguments = ["benchmark", "ship", "logs", "--list", "list.yml", "--n-jobs", "1"]
    (work / "list.yml").write_text(text % 501)
    assert main(arguments) == 1
    err = capsys.readouterr().err.splitlines()
    assert err[0].startswith("rlzoo: ppo on CartPole-v1 is not shipped: its best agent, that of seed 3, has")
    assert err[1:] == ["rlzoo: error: nothing is shipped: no agent has learned"]
    assert not (work / "trained_agents").exists()
    (work / "list.yml").write_text(text % 1)
    assert main(arguments) == 0
    (agent,) = read_registry(work / "trained_agents")
    assert (agent.seed, agent.n_candidates, agent.selection_episodes) == (3, 1, 2)
    (work / "list.yml").write_text(text.replace("}", ", ship: false}") % 1)
    assert main(arguments) == 2
    assert "no trained agent of the list" in capsys.readouterr().err


def test_ship_reports_unplayable_row_and_continues(work, capsys, monkeypatch):
    other = work / "logs" / "ppo" / "Acrobot-v1_1"
    shutil.copytree(work / "logs" / "ppo" / "CartPole-v1_1", other)
    for path in sorted(other.rglob("*CartPole-v1*"), reverse=True):
        path.rename(path.with_name(path.name.replace("CartPole", "Acrobot")))
    args = other / "Acrobot-v1" / "args.yml"
    args.write_text(args.read_text().replace("CartPole", "Acrobot"))  # whose observations are others
    (work / "list.yml").write_text(
        "rows: [{algo: ppo, env: [Acrobot-v1, CartPole-v1], seeds: [3], episodes: 2, required: 1}]"
    )
    assert main(["benchmark", "ship", "logs", "--list", "list.yml", "--n-jobs", "1"]) == 1
    out, err = capsys.readouterr()
    assert "ppo on Acrobot-v1 is not shipped: logs/ppo/Acrobot-v1_1 cannot be played: " in err
    assert "1 row could not be evaluated" in err and "CartPole-v1_1: whole, seed 3" in out
    assert len(read_registry(work / "trained_agents")) == 1


def test_a_mistake_is_one_line(work, capsys):
    assert main(["benchmark", "ship", "logs", "--seed", "0"]) == 2
    assert capsys.readouterr().err == "rlzoo: error: there is no trained agent with seed 0\n"


def test_shipping_nothing_leaves_nothing(work, capsys):
    assert main(["benchmark", "ship", "logs", "--seed", "0", "-o", "new/collection"]) == 2
    assert capsys.readouterr().err == "rlzoo: error: there is no trained agent with seed 0\n"
    assert not (work / "new").exists()

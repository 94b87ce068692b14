"""`rlzoo benchmark ship`."""

from __future__ import annotations

import pytest

from rlzoo.cli.main import main
from rlzoo.config.run import RunConfig
from rlzoo.experiment.registry import read_registry
from rlzoo.experiment.train import train

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
    assert out == ["trained_agents/ppo/CartPole-v1_1: whole", "trained_agents has 1 agent, 0.0 MB"]
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
    assert "there is no collection none" in capsys.readouterr().err and not (work / "none").exists()


def test_with_a_list_only_its_agents_are_shipped_and_none_that_are_to_fail(work, capsys):
    (work / "list.yml").write_text("rows:\n- {algo: ppo, env: CartPole-v1, below: 100}")
    assert main(["benchmark", "ship", "logs", "--seed", "3", "--list", "list.yml"]) == 2
    assert "no trained agent of the list" in capsys.readouterr().err
    (work / "list.yml").write_text("rows:\n- {algo: ppo, env: CartPole-v1, required: 100}")
    assert main(["benchmark", "ship", "logs", "--seed", "3", "--list", "list.yml"]) == 0


def test_a_mistake_is_one_line(work, capsys):
    assert main(["benchmark", "ship", "logs"]) == 2
    assert capsys.readouterr().err == "rlzoo: error: there is no trained agent with seed 0\n"


def test_shipping_nothing_leaves_nothing(work, capsys):
    assert main(["benchmark", "ship", "logs", "-o", "new/collection"]) == 2
    assert capsys.readouterr().err == "rlzoo: error: there is no trained agent with seed 0\n"
    assert not (work / "new").exists()

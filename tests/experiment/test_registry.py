"""The registry of a collection, and finding agents by it."""

from __future__ import annotations

import dataclasses
import json

import pytest

from rlzoo.cli.flags.agent_flags import play_config
from rlzoo.cli.python import parse
from rlzoo.config.run import PlayConfig
from rlzoo.core.errors import UserError
from rlzoo.runs import pretrained_registry as registry
from rlzoo.runs import run_folder
from rlzoo.runs.pretrained_registry import AgentEntry, find_shipped, read_registry, write_registry


def entry(algo: str = "ppo", env_id: str = "CartPole-v1", **changes) -> AgentEntry:
    return AgentEntry(
        **{
            "algo": algo,
            "env_id": env_id,
            "path": f"{algo}/{env_id.replace('/', '-')}_1",
            "seed": 0,
            "n_timesteps": 1000,
            "mean": 9.5,
            "std": 0.5,
            "median": 10.0,
            "episodes": 20,
            "success_rate": None,
            "sha256": "0" * 64,
            "bytes": 10,
            "actor_only": False,
            "date": "2026-01-01T00:00:00Z",
            **changes,
        }
    )


AGENTS = [entry(), entry("sac", "Pendulum-v1"), entry("ppo", "Acrobot-v1"), entry("a2c")]


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A collection of four agents; only PPO's on CartPole is really there."""
    root = tmp_path / "trained_agents"
    write_registry(root, AGENTS)
    config = run_folder.config_path(root / "ppo" / "CartPole-v1_1", "CartPole-v1")
    config.parent.mkdir(parents=True)
    config.write_text("policy: MlpPolicy\ngamma: 0.5\n")
    (root / "ppo" / "CartPole-v1_1" / "CartPole-v1.zip").touch()
    monkeypatch.setattr(registry, "shipped_root", lambda: root)
    return root


def test_the_register_comes_back_sorted(tmp_path):
    write_registry(tmp_path, AGENTS)
    names = [(agent.algo, agent.env_id) for agent in read_registry(tmp_path)]
    assert names == sorted(names) and set(read_registry(tmp_path)) == set(AGENTS)
    assert read_registry(tmp_path / "none") == []


def test_what_cannot_be_read_is_not_written(tmp_path):
    with pytest.raises(UserError, match="date must be"):
        write_registry(tmp_path, [entry(date=5)])
    assert not (tmp_path / registry.REGISTRY).exists()


def test_what_is_shown_of_an_agent():
    assert entry().summary() == "9.5 ± 0.5" and entry().number == 1
    assert (entry(seed=2).choice(), entry(seed=2, n_candidates=3).choice()) == ("2", "2 of 3")
    assert entry(success_rate=0.5).summary() == "9.5 ± 0.5 (50%)"


@pytest.mark.parametrize(
    "path",
    ["../ppo/CartPole-v1_1", "/ppo/CartPole-v1_1", "/CartPole-v1_1", "../CartPole-v1_1", "ppo/a/../b_1",
     "ppo/..", "ppo\\CartPole-v1_1", "ppo/CartPole-v1", "ppo", "", "a2c/CartPole-v1_1", "ppo/Acrobot-v1_1"],
)  # fmt: skip
def test_a_path_that_is_no_run_of_the_collection_is_refused(tmp_path, path):
    (tmp_path / registry.REGISTRY).write_text(json.dumps([dataclasses.asdict(entry(path=path))]))
    for use in (read_registry, lambda root: write_registry(root, [entry(path=path)])):
        with pytest.raises(UserError, match=r"registry\.json: .* is not written as ppo/CartPole-v1_NUMBER"):
            use(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON file"),
        ("[1]", "no record"),
        (json.dumps([{"algo": "ppo"}]), "actor_only is missing"),
        (json.dumps([{**dataclasses.asdict(entry()), "means": 1}]), "did you mean 'mean'"),
        (json.dumps([{**dataclasses.asdict(entry()), "mean": "high"}]), "mean"),
    ],
)
def test_a_damaged_register_is_one_line(tmp_path, content, message):
    (tmp_path / registry.REGISTRY).write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        read_registry(tmp_path)
    assert "\n" not in str(caught.value)


def test_the_same_folder_twice_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"registry\.json has ppo/CartPole-v1_1 twice"):
        write_registry(tmp_path, [entry(), entry(mean=1.0)])


def test_a_folder_in_the_place_of_a_register_is_one_line(tmp_path):
    (tmp_path / registry.REGISTRY).mkdir()
    with pytest.raises(UserError, match=r"registry\.json is no JSON file"):
        read_registry(tmp_path)


def test_finding_a_shipped_agent(shipped):
    found = find_shipped("ppo", "CartPole-v1")
    assert found == (AGENTS[0], shipped / "ppo" / "CartPole-v1_1")
    assert find_shipped("ppo", "CartPole-v1", 1) == found
    assert find_shipped("ppo", "CartPole-v1", 2) is None and find_shipped("td3", "Pendulum-v1") is None
    with pytest.raises(UserError, match=r"there is no .*Pendulum-v1\.zip, which registry\.json lists"):
        find_shipped("sac", "Pendulum-v1")


def test_an_agent_of_the_user_comes_before_a_shipped_one(shipped, tmp_path):
    config = PlayConfig(algo="ppo", env_id="CartPole-v1", folder=str(tmp_path / "logs"))
    (tmp_path / "logs").mkdir()
    agent = run_folder.find_agent(config)
    assert agent.path == shipped / "ppo" / "CartPole-v1_1" / "CartPole-v1.zip"
    assert agent.hyperparams["gamma"] == 0.5
    mine = tmp_path / "logs" / "ppo" / "CartPole-v1_3"
    run_folder.config_path(mine, "CartPole-v1").parent.mkdir(parents=True)
    run_folder.config_path(mine, "CartPole-v1").write_text("policy: MlpPolicy\n")
    (mine / "CartPole-v1.zip").touch()
    assert run_folder.find_agent(config).path == mine / "CartPole-v1.zip"
    with pytest.raises(UserError, match="no run 2"):
        run_folder.find_agent(dataclasses.replace(config, exp_id=2))
    with pytest.raises(UserError, match=r"there is no .*logs/ppo/CartPole-v1\.zip, which --exp-id -1 names"):
        run_folder.find_agent(dataclasses.replace(config, exp_id=-1))


def test_no_shipped_agent_is_taken_where_a_folder_is_named(shipped, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    found = [
        play_config(vars(parse("enjoy", {"algo": "ppo", "env": "CartPole-v1", **more})))
        for more in ({}, {"folder": "logs"})
    ]
    assert shipped in run_folder.find_agent(found[0]).path.parents
    with pytest.raises(UserError, match=r"in logs/ppo \(a shipped one is played without -f\); train one"):
        run_folder.find_agent(found[1])
    with pytest.raises(UserError, match="in logs/td3; train one"):
        run_folder.find_agent(dataclasses.replace(found[1], algo="td3"))


@pytest.mark.parametrize(
    ("algo", "env_id", "said"),
    [
        ("sac", "CartPole-v1", r"\(shipped for CartPole-v1: a2c, ppo\)"),
        ("sac", "Pendulum-v0", "Pendulum-v1"),
        ("ppo", "CartPole-v0", r"\(shipped of ppo: CartPole-v1\)"),
        ("td3", "BipedalWalker-v3", "shipped agents; train one"),
    ],
)
def test_the_message_names_what_is_shipped_instead(shipped, tmp_path, algo, env_id, said):
    with pytest.raises(UserError, match=said):
        run_folder.find_agent(PlayConfig(algo=algo, env_id=env_id, folder=str(tmp_path)))

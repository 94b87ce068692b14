from __future__ import annotations

import dataclasses
import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlzoo.config.hyperparams import lookup
from rlzoo.config.run import PlayConfig, RunConfig, check_folder
from rlzoo.config.values_as_text import Name
from rlzoo.core.errors import UserError
from rlzoo.runs import run_folder
from rlzoo.training.checkpoint import Checkpoint, metadata, write_checkpoint


def save_agent(path: Path, steps: int) -> None:
    state = {"state": {"clock": {"num_timesteps": steps}}}
    write_checkpoint(path, Checkpoint(metadata("PPO", None), {}, {}, state=state))


def test_numbers_go_up_and_fill_no_gap(tmp_path):
    (tmp_path / "ppo" / "CartPole-v1_4").mkdir(parents=True)
    (tmp_path / "ppo" / "CartPole-v1_99_other").mkdir()
    assert run_folder.claim(tmp_path, "ppo", "CartPole-v1").name == "CartPole-v1_5"
    assert run_folder.claim(tmp_path, "ppo", "ALE/Pong-v5").name == "ALE-Pong-v5_1"


def test_runs_that_start_together_get_different_folders(tmp_path):
    with ThreadPoolExecutor(16) as pool:
        folders = list(pool.map(lambda _: run_folder.claim(tmp_path, "ppo", "CartPole-v1"), range(64)))
    assert len(set(folders)) == 64
    assert all(folder.is_dir() for folder in folders)


def test_a_run_with_a_unique_id_counts_too(tmp_path):
    first = run_folder.claim(tmp_path, "ppo", "CartPole-v1", unique=True)
    assert len(first.name) == len("CartPole-v1_1_") + 36
    assert run_folder.claim(tmp_path, "ppo", "CartPole-v1").name == "CartPole-v1_2"


def test_a_log_folder_that_is_a_file_is_the_users_mistake(tmp_path):
    (tmp_path / "logs").write_text("")
    with pytest.raises(UserError, match="cannot keep runs"):
        run_folder.claim(tmp_path / "logs", "ppo", "CartPole-v1")


def test_discard_removes_what_was_made_and_nothing_else(tmp_path):
    folder = run_folder.claim(tmp_path / "logs", "ppo", "CartPole-v1")
    run_folder.discard(folder)
    assert not (tmp_path / "logs").exists()
    other = run_folder.claim(tmp_path / "logs", "ppo", "CartPole-v1")
    folder = run_folder.claim(tmp_path / "logs", "ppo", "CartPole-v1")
    run_folder.discard(folder)
    assert other.is_dir()
    assert not folder.exists()


def test_a_described_run_is_read_back(tmp_path):
    run = RunConfig(
        algo="ppo",
        env_id="ALE/Pong-v5",
        seed=3,
        gym_packages=("a", "b"),
        env_kwargs={"x": [1, 2]},
        hyperparams={"policy_kwargs": {"activation_fn": Name("torch.nn.ReLU")}},
    )
    values = {
        "policy": "MlpPolicy",
        "learning_rate": 1e-5,
        "policy_kwargs": {"activation_fn": Name("torch.nn.ReLU")},
    }
    run_folder.describe(tmp_path, run, values, "rlzoo train --algo ppo")
    assert (tmp_path / "command.txt").read_text() == "rlzoo train --algo ppo\n"
    read = run_folder.read_run(tmp_path)
    assert dataclasses.replace(read, hyperparams={}) == dataclasses.replace(run, hyperparams={})
    config = run_folder.config_path(tmp_path, run.env_id)
    assert config == tmp_path / "ALE-Pong-v5" / "config.yml"
    assert lookup("ppo", run.env_id, config).values == values
    assert "!!" not in config.read_text() + (config.parent / "args.yml").read_text()


ZOO = """\
!!python/object/apply:collections.OrderedDict
- - - algo
    - ppo
  - - env
    - E-v0
  - - env_kwargs
    - gravity: 1.5
      render_mode: human
  - - optimize_hyperparameters
    - false
  - - seed
    - 1052611471
"""


def described_by(folder: Path, arguments: str, config: str = "{policy: MlpPolicy}") -> Path:
    """A run folder with these files, and an agent."""
    (folder / "E-v0").mkdir(parents=True)
    (folder / "E-v0" / "args.yml").write_text(arguments)
    (folder / "E-v0" / "config.yml").write_text(config)
    save_agent(folder / "E-v0.zip", 1)
    return folder


def test_zoo_run_is_read_only_where_asked_for(tmp_path):
    folder = described_by(tmp_path / "E-v0_1", ZOO)
    run = run_folder.read_run(folder, or_zoo=True)
    assert run == RunConfig(algo="ppo", env_id="E-v0", seed=1052611471)
    with pytest.raises(UserError, match="does not describe a run of rlzoo"):
        run_folder.read_run(folder)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{algo: ppo, env: [a]}", "env_id must be a text"),
        ("{algo: ppo, env: E-v0, seed: x}", "seed must be a whole number"),
        ("{env: E-v0}", "does not describe"),
        ("!!python/object/apply:os.system ['touch made']", "python/object/apply:os.system"),
    ],
)
def test_damaged_zoo_arguments_are_a_users_mistake(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    folder = described_by(tmp_path / "E-v0_1", arguments)
    with pytest.raises(UserError, match=message):
        run_folder.read_run(folder, or_zoo=True)
    assert not Path("made").exists()


@pytest.mark.parametrize("flag", ["folder", "trained_agent"])
def test_zoo_agent_plays_with_its_env_kwargs(tmp_path, flag):
    run = described_by(tmp_path / "ppo" / "E-v0_1", ZOO, "{policy: P, env_kwargs: 'dict(mass=2, gravity=9)'}")
    place = {"folder": tmp_path, "trained_agent": run / "E-v0.zip"}[flag]
    agent = run_folder.find_agent(PlayConfig(algo="ppo", env_id="E-v0", **{flag: str(place)}))
    assert agent.hyperparams == {"policy": "P", "env_kwargs": {"mass": 2, "gravity": 1.5}}


def test_zoo_env_kwargs_that_are_no_dictionary(tmp_path):
    run = described_by(tmp_path / "ppo" / "E-v0_1", "{algo: ppo, env: E-v0, env_kwargs: [1]}")
    with pytest.raises(UserError, match="env_kwargs must be a dictionary"):
        run_folder.read_hyperparams(run, "ppo", "E-v0")


def test_own_run_plays_as_its_config_file_says(tmp_path):
    arguments = "{algo: ppo, env_id: E-v0, env_kwargs: {gravity: 1}}"
    folder = described_by(tmp_path / "E-v0_1", arguments, "{policy: P, env_kwargs: {gravity: 2}}")
    found = run_folder.read_hyperparams(folder, "ppo", "E-v0")
    assert found == {"policy": "P", "env_kwargs": {"gravity": 2}}


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "not the folder of a run"), ("[1]", "describe"), ("algo: ppo\nenv_id: x\nsed: 3", "'seed'")],
)
def test_a_folder_that_is_no_run(tmp_path, content, message):
    if content is not None:
        (tmp_path / "x").mkdir()
        (tmp_path / "x" / "args.yml").write_text(content)
    with pytest.raises(UserError, match=message):
        run_folder.read_run(tmp_path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("env_id: [a]", "env_id must be a text"),
        ("n_timesteps: [[]]", "n_timesteps must be a whole number"),
        ("eval_env_kwargs: x", "eval_env_kwargs must be a dictionary"),
        ("env_kwargs: {1: 2}", "env_kwargs must be a dictionary"),
        ("gym_packages: x", "gym_packages must be a list of texts"),
        ("gym_packages: [[a]]", "gym_packages must be a list of texts"),
        ("1: 2", "unknown entry in "),
    ],
)
def test_argument_of_another_type_is_named(tmp_path, values, message):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "args.yml").write_text(
        ("" if "env_id" in values else "env_id: x\n") + f"algo: ppo\n{values}\n"
    )
    with pytest.raises(UserError, match=message):
        run_folder.read_run(tmp_path)


def test_the_newest_checkpoint_is_the_one_with_the_most_steps(tmp_path, capsys):
    for name, steps in [
        ("E-v0.zip", 900),
        ("rl_model_800_steps.zip", 800),
        ("rl_model_1000_steps.zip", 1000),
    ]:
        save_agent(tmp_path / name, steps)
    save_agent(tmp_path / "best_model.zip", 2000)  # the best is not the newest
    (tmp_path / "rl_model_1100_steps.zip").write_bytes(b"half a file")
    assert run_folder.newest_checkpoint(tmp_path, "E-v0").name == "rl_model_1000_steps.zip"
    assert "rl_model_1100_steps.zip" in capsys.readouterr().err
    assert [path.name for path in run_folder.checkpoints(tmp_path, "E-v0")] == [
        "rl_model_1000_steps.zip",
        "E-v0.zip",
        "rl_model_800_steps.zip",
    ]


def test_a_run_without_agents_cannot_continue(tmp_path):
    with pytest.raises(UserError, match=r"no agent to continue from: begin it again"):
        run_folder.newest_checkpoint(tmp_path, "E-v0")
    (tmp_path / "best_model.zip").touch()
    with pytest.raises(UserError, match=r"-i .*best_model\.zip begins with the best one"):
        run_folder.newest_checkpoint(tmp_path, "E-v0")


def test_what_a_killed_process_was_writing_is_removed(tmp_path):
    (tmp_path / ".rlzoo-0123.tmp").write_text("")
    (tmp_path / "E-v0.zip").write_text("")
    run_folder.remove_unfinished_files(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["E-v0.zip"]


@pytest.fixture
def logs(tmp_path):
    """Runs 1 and 2 of an environment, and an empty third one."""
    for number in (1, 2, 3):
        folder = run_folder.claim(tmp_path, "ppo", "E-v0")
        run_folder.describe(
            folder, RunConfig(algo="ppo", env_id="E-v0"), {"policy": "MlpPolicy", "gamma": number / 10}, ""
        )
    for number, names in {
        1: ["E-v0", "best_model"],
        2: ["E-v0", "rl_model_10_steps", "rl_model_9_steps"],
    }.items():
        for name in names:
            save_agent(tmp_path / "ppo" / f"E-v0_{number}" / f"{name}.zip", 1)
    return tmp_path


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({}, "E-v0_2/E-v0.zip"),  # the newest that holds an agent, not the empty third
        ({"exp_id": 1}, "E-v0_1/E-v0.zip"),
        ({"exp_id": 1, "load_best": True}, "E-v0_1/best_model.zip"),
        ({"load_checkpoint": 9}, "E-v0_2/rl_model_9_steps.zip"),
        ({"load_last_checkpoint": True}, "E-v0_2/rl_model_10_steps.zip"),
    ],
)
def test_the_agent_that_was_asked_for(logs, choice, expected):
    agent = run_folder.find_agent(PlayConfig(algo="ppo", env_id="E-v0", folder=str(logs), **choice))
    assert agent.path == logs / "ppo" / expected
    assert agent.hyperparams["gamma"] == (0.1 if "_1/" in expected else 0.2)


def test_agent_of_another_algorithm_is_named(logs):
    path = logs / "ppo" / "E-v0_1" / "E-v0.zip"
    (path.with_suffix("") / "args.yml").write_text("algo: ppo\nenv_id: E-v0\n")
    with pytest.raises(UserError, match=r"E-v0\.zip is an agent of ppo, not of a2c"):
        run_folder.find_agent(PlayConfig(algo="a2c", env_id="E-v0", trained_agent=str(path)))


def test_agent_of_an_unregistered_algorithm_plays(logs):
    path = logs / "ppo" / "E-v0_1" / "E-v0.zip"
    (path.with_suffix("") / "args.yml").write_text("algo: of_somebody\nenv_id: E-v0\n")
    assert run_folder.find_agent(PlayConfig(algo="ppo", env_id="E-v0", trained_agent=str(path))).path == path


FIRST, SECOND = "0f6b3f2a-0000-4000-8000-000000000001", "f06b3f2a-0000-4000-8000-000000000002"


@pytest.mark.parametrize(
    ("there", "exp_id", "expected"),
    [
        (["1", f"1_{FIRST}"], 1, "1"),
        (["1", f"1_{FIRST}"], 0, "1"),
        ([f"1_{FIRST}", f"1_{SECOND}", "2"], 1, f"1_{SECOND}"),
        (["1", f"2_{FIRST}"], 0, f"2_{FIRST}"),
        (["9", "10"], 0, "10"),
    ],
)
def test_exp_id_prefers_the_folder_without_a_random_id(tmp_path, there, exp_id, expected):
    for name in there:
        described_by(tmp_path / "ppo" / f"E-v0_{name}", "{algo: ppo, env_id: E-v0}")
    config = PlayConfig(algo="ppo", env_id="E-v0", folder=str(tmp_path), exp_id=exp_id)
    assert run_folder.find_folder(config).name == f"E-v0_{expected}"


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"exp_id": 7}, "no run 7.*there: 1, 2, 3"),
        ({"load_best": True}, "--eval-freq"),
        ({"load_checkpoint": 11}, "checkpoints: 9, 10"),
        ({"exp_id": 1, "load_last_checkpoint": True}, "--save-freq"),
        ({"env_id": "FrozenLake-v1"}, "train one: rlzoo train --algo ppo --env FrozenLake-v1"),
        ({"env_id": "Acrobat-v1"}, "Acrobot-v1"),
        ({"env_id": "FrozenLake-v1", "exp_id": -1}, r"ppo/FrozenLake-v1\.zip, which --exp-id -1 names"),
    ],
)
def test_an_agent_that_is_not_there(logs, choice, message):
    config = {"algo": "ppo", "env_id": "E-v0", "folder": str(logs), **choice}
    with pytest.raises(UserError, match=message):
        run_folder.find_agent(PlayConfig(**config))


def test_file_system_without_locks_is_one_warning(tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(run_folder.fcntl, "flock", fail)
    with run_folder.locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"
    said = f"rlzoo: {tmp_path} cannot be locked (No locks available): let no other process train there\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(("folder", "hint"), [("logz", "; did you mean .*/logs'?"), ("x", "$")])
def test_folder_that_is_not_there_is_a_mistake(tmp_path, folder, hint):
    (tmp_path / "logs").mkdir()
    with pytest.raises(UserError, match=f"there is no folder '.*/{folder}'{hint}"):
        run_folder.find_agent(PlayConfig(algo="ppo", env_id="CartPole-v1", folder=str(tmp_path / folder)))


def test_default_folder_need_not_be_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_folder("logs")

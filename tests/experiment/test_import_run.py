"""Run folders from model files and run folders of stable-baselines3 and RL Baselines3 Zoo."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlzoo.cli.main import main
from rlzoo.config.run import PlayConfig
from rlzoo.playback.play import play
from rlzoo.runs import run_folder
from rlzoo.runs.agent_file import identify
from rlzoo.training.checkpoint import read_checkpoint

FILES = Path(__file__).parents[1] / "interop" / "sb3_files"
NEW = FILES / "2.9.2"
CONFIG = """\
!!python/object/apply:collections.OrderedDict
- - - n_envs
    - 1
  - - n_timesteps
    - 1000.0
  - - normalize
    - true
  - - policy
    - MlpPolicy
  - - policy_kwargs
    - dict(net_arch=[6])
"""
ARGUMENTS = """\
!!python/object/apply:collections.OrderedDict
- - - algo
    - ppo
  - - env
    - {env}
  - - env_kwargs
    - null
  - - seed
    - 7
"""


def zoo_run(
    folder: Path, name: str = "ppo_normalized", env: str = "Pendulum-v1", config: str = CONFIG
) -> Path:
    """A run folder as RL Baselines3 Zoo writes it."""
    run = folder / "ppo" / f"{env}_1"
    (run / env).mkdir(parents=True)
    for model in (f"{env}.zip", "best_model.zip", "rl_model_64_steps.zip"):
        shutil.copyfile(NEW / f"{name}.zip", run / model)
    if name == "ppo_normalized":
        shutil.copyfile(NEW / "ppo_normalized_vecnormalize.pkl", run / env / "vecnormalize.pkl")
    (run / env / "config.yml").write_text(config)
    (run / env / "args.yml").write_text(ARGUMENTS.format(env=env))
    np.savez(run / "evaluations.npz", timesteps=np.array([1]))
    return run


def rlzoo(*arguments: Any) -> int:
    return main([str(argument) for argument in arguments])


def test_zoo_run_becomes_a_run_that_plays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = zoo_run(tmp_path / "theirs")
    assert rlzoo("import", run, "-o", tmp_path / "logs") == 0
    made = tmp_path / "logs" / "ppo" / "Pendulum-v1_1"
    assert f"{run}: 3 agents of ppo for Pendulum-v1 in {made}" in capsys.readouterr().out
    for name in ("Pendulum-v1.zip", "best_model.zip", "rl_model_64_steps.zip"):
        assert read_checkpoint(made / name).metadata["env_id"] == "Pendulum-v1"
    assert (made / "evaluations.npz").is_file()
    described = run_folder.read_run(made)
    assert (described.algo, described.env_id, described.seed) == ("ppo", "Pendulum-v1", 7)
    for choice in ({}, {"load_best": True}, {"load_checkpoint": 64}):
        config = PlayConfig(
            algo="ppo",
            env_id="Pendulum-v1",
            folder=str(tmp_path / "logs"),
            n_episodes=1,
            no_render=True,
            **choice,
        )
        assert len(play(config).returns) == 1


def test_imported_agent_acts_with_its_statistics(tmp_path: Path) -> None:
    """As in RL Baselines3 Zoo: the return of an episode depends on them."""
    run = zoo_run(tmp_path / "theirs")
    rlzoo("import", run, "-o", tmp_path / "logs")
    model = tmp_path / "logs" / "ppo" / "Pendulum-v1_1" / "Pendulum-v1.zip"
    same = {"algo": "", "env_id": "", "n_episodes": 1, "no_render": True}
    ours = play(PlayConfig(trained_agent=str(model), **same)).returns
    theirs = play(PlayConfig(trained_agent=str(run / "Pendulum-v1.zip"), **same)).returns
    assert ours == theirs
    (run / "Pendulum-v1" / "vecnormalize.pkl").unlink()
    assert play(PlayConfig(trained_agent=str(run / "Pendulum-v1.zip"), **same)).returns != ours


def test_imported_run_is_resumed(tmp_path: Path) -> None:
    rlzoo("import", zoo_run(tmp_path / "theirs"), "-o", tmp_path / "logs")
    run = tmp_path / "logs" / "ppo" / "Pendulum-v1_1"
    before = read_checkpoint(run / "Pendulum-v1.zip").steps()
    assert rlzoo("train", "--resume", run, "-n", before + 32) == 0
    assert read_checkpoint(run / "Pendulum-v1.zip").steps() >= before + 32


def test_folder_of_many_is_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zoo_run(tmp_path / "theirs")
    zoo_run(tmp_path / "theirs", "ppo_mlp", "CartPole-v1", CONFIG.replace("true", "false"))
    (tmp_path / "theirs" / "loose").mkdir()
    shutil.copyfile(NEW / "dqn_mlp.zip", tmp_path / "theirs" / "loose" / "dqn-CartPole-v1.zip")
    broken = zoo_run(tmp_path / "theirs" / "more", "ppo_mlp", "CartPole-v1")
    for path in broken.glob("*.zip"):
        path.write_bytes(path.read_bytes()[:1000])
    assert rlzoo("import", tmp_path / "theirs", "-o", tmp_path / "logs") == 1
    said = capsys.readouterr()
    assert "3 runs are in" in said.out
    assert f"rlzoo: {broken}: " in said.err
    assert "1 of 4 runs could not be imported" in said.err
    made = sorted(path.relative_to(tmp_path / "logs").as_posix() for path in (tmp_path / "logs").glob("*/*"))
    assert made == ["dqn/CartPole-v1_1", "ppo/CartPole-v1_1", "ppo/Pendulum-v1_1"]


def test_two_agents_of_one_folder_become_two_runs(tmp_path: Path) -> None:
    run = zoo_run(tmp_path / "theirs")
    (run / "best_model.zip").unlink()
    shutil.copyfile(run / "Pendulum-v1.zip", run / "ppo-Pendulum-v1.zip")
    (run / "rl_model_64_steps.zip").unlink()
    (run / "config.yml").write_text(CONFIG)
    assert rlzoo("import", run, "-o", tmp_path / "logs") == 0
    assert len(list((tmp_path / "logs" / "ppo").iterdir())) == 2


def test_single_file_tells_its_hyperparameters(tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    shutil.copyfile(NEW / "ppo_mlp.zip", path)
    params = ["-params", "n_epochs:3"]
    assert rlzoo("import", path, "-o", tmp_path / "logs", "--env", "CartPole-v1", *params) == 0
    written = run_folder.config_path(tmp_path / "logs/ppo/CartPole-v1_1", "CartPole-v1").read_text()
    assert "n_epochs: 3" in written
    assert "n_steps: 16" in written
    assert "net_arch: [6]" in written


def test_function_of_a_schedule_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "CartPole-v1.zip"
    shutil.copyfile(NEW / "ppo_function.zip", path)
    assert rlzoo("import", path, "-o", tmp_path / "logs") == 0
    assert "learning_rate is a function (halving), which is not read" in capsys.readouterr().err
    params = ["-params", "learning_rate:lin_1e-3"]
    assert rlzoo("import", path, "-o", tmp_path / "logs", *params) == 0
    assert "which is not read" not in capsys.readouterr().err


def test_algorithm_and_environment_are_told_by_names() -> None:
    assert identify(NEW / "ppo_mlp.zip") == ("ppo", "")
    assert identify(NEW / "ppo_lstm_box.zip") == ("ppo_lstm", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "there is no file or folder 'nowhere'"),
        (["."], "holds no model file"),
        ([NEW / "ppo_mlp.zip"], "does not tell its environment: give --env"),
        ([NEW / "ppo_mlp.zip", "--env", "CartPole-v1", "--algo", "sac"], "holds a PPO agent"),
        ([NEW / "ppo_mlp.zip", "--env", "CartPole-v1", "-params", "n_stepss:4"], "did you mean 'n_steps'"),
        ([NEW / "ppo_normalized_vecnormalize.pkl", "--env", "CartPole-v1"], "a pickle"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_nothing(
    arguments: list[Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert rlzoo("import", *arguments, "-o", tmp_path / "logs") == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "logs").exists()


def test_missing_env_keeps_spaces_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = zoo_run(tmp_path / "theirs", env="Gone-v3")
    assert rlzoo("import", run, "-o", tmp_path / "logs") == 0
    assert "the spaces are those of the file, since" in capsys.readouterr().err
    config = read_checkpoint(tmp_path / "logs/ppo/Gone-v3_1/Gone-v3.zip").config
    assert config["observation_space"]["shape"] == [3]


def test_enjoy_takes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ppo-CartPole-v1.zip"
    shutil.copyfile(NEW / "ppo_mlp.zip", path)
    assert rlzoo("enjoy", "-i", path, "--no-render", "--n-episodes", 1) == 0
    assert f"playing {path}" in capsys.readouterr().out
    assert rlzoo("enjoy", "-i", path, "--load-best") == 2
    assert rlzoo("enjoy", "-i", tmp_path / "ppo-CartPole-v0.zip") == 2
    assert "did you mean" in capsys.readouterr().err
    assert rlzoo("record-training", "-i", path) == 2

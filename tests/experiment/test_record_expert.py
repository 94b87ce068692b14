from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlzoo import BC, GAIL, ExpertDataset
from rlzoo.cli.main import main
from rlzoo.config.run import PlayConfig, RunConfig
from rlzoo.config.values_as_text import read_yaml
from rlzoo.core.errors import UserError
from rlzoo.experiment.resumed_run import resume
from rlzoo.experiment.training_run import train
from rlzoo.playback.expert_recording import record_expert
from rlzoo.playback.play import play

VALUES = """\
default:
  policy: MlpPolicy
  n_timesteps: 512
  policy_kwargs: {net_arch: [8]}
"""
OF_GAIL = "  n_envs: 2\n  learner: ppo\n  n_steps: 64\n  batch_size: 64\n  n_epochs: 2\n"


@pytest.fixture
def expert(run: Any, logs: Path, tmp_path: Path) -> Path:
    """Three episodes of an agent that hardly learned."""
    train(run())
    config = PlayConfig(algo="ppo", env_id="CartPole-v1", folder=str(logs), n_episodes=3, device="cpu")
    return record_expert(config, tmp_path / "expert")


@pytest.fixture
def imitate(expert: Path, logs: Path, tmp_path: Path) -> Any:
    def make(algo: str = "bc", **fields: Any) -> RunConfig:
        conf = tmp_path / f"{algo}.yml"
        conf.write_text(VALUES + (OF_GAIL if algo == "gail" else ""))
        files = {"conf_file": str(conf), "log_folder": str(logs), "expert": str(expert)}
        small = {"env_id": "CartPole-v1", "seed": 0, "eval_freq": -1, "verbose": 0, "device": "cpu"}
        return RunConfig(algo=algo, **{**files, **small, **fields})

    return make


def test_unwritable_output_fails_before_playing(
    expert: Path, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = PlayConfig(algo="ppo", env_id="CartPole-v1", folder=str(logs), n_episodes=3, device="cpu")
    capsys.readouterr()
    with pytest.raises(UserError, match=r"^-o: cannot write in .*expert\.npz: Not a directory"):
        record_expert(config, expert / "expert")
    assert "recording" not in capsys.readouterr().out


def test_an_agent_is_recorded(expert: Path) -> None:
    assert expert.name == "expert.npz"
    dataset = ExpertDataset(expert, verbose=0)
    assert dataset.num_traj == 3
    assert dataset.observations.shape == (len(dataset), 4)
    assert dataset.returns.sum() == len(dataset)


def test_observations_are_recorded_before_they_are_scaled(run: Any, logs: Path, tmp_path: Path) -> None:
    train(run(env_id="Pendulum-v1"))
    config = PlayConfig(
        algo="ppo", env_id="Pendulum-v1", folder=str(logs), n_episodes=3, n_envs=2, device="cpu", seed=3
    )
    dataset = ExpertDataset(record_expert(config, tmp_path / "pendulum.npz"), verbose=0)
    assert (dataset.num_traj, len(dataset)) == (3, 600)
    np.testing.assert_allclose(np.hypot(*dataset.observations[:, :2].T), 1, atol=1e-4)  # cosine and sine


@pytest.mark.parametrize(("algo", "cls"), [("bc", BC), ("gail", GAIL)])
def test_imitation_is_trained_played_and_resumed(imitate: Any, logs: Path, algo: str, cls: Any) -> None:
    result = train(imitate(algo, save_freq=256, eval_freq=256, eval_episodes=1))
    assert result.num_timesteps == 512
    saved = {path.name for path in result.folder.glob("rl_model_*")}
    assert saved == {"rl_model_256_steps.zip", "rl_model_512_steps.zip"}
    assert np.load(result.folder / "evaluations.npz")["timesteps"].tolist() == [256, 512]
    config = read_yaml(result.folder / "CartPole-v1" / "config.yml")
    assert list(config["expert_dataset"]) == ["expert_path"]
    first = cls.load(result.model_path, device="cpu")
    assert first.num_timesteps == 512
    which = {"algo": algo, "env_id": "CartPole-v1", "folder": str(logs)}
    scores = play(PlayConfig(**which, n_episodes=2, no_render=True, device="cpu"))
    assert len(scores.returns) == 2
    further = resume(result.folder, n_timesteps=1024)
    assert further.num_timesteps == 1024
    again = cls.load(further.model_path, device="cpu")
    assert not torch.equal(first.policy.action_net.weight, again.policy.action_net.weight)
    with (result.folder / "progress.csv").open() as file:
        assert "train/loss" in next(csv.reader(file))


def test_run_from_trained_agent_survives_moved_file(imitate: Any, expert: Path) -> None:
    result = train(imitate())
    from_it = train(imitate(trained_agent=str(result.model_path)))
    assert from_it.num_timesteps == 512
    moved = expert.with_name("moved.npz")
    os.rename(expert, moved)
    assert resume(from_it.folder, n_timesteps=1024, expert=str(moved)).num_timesteps == 1024


def test_arguments_of_the_dataset_come_from_the_hyperparameters(imitate: Any, capsys: Any) -> None:
    train(imitate(hyperparams={"expert_dataset": {"traj_limitation": 2}}, verbose=1))
    assert "demonstrations: 2 episodes" in capsys.readouterr().out


def test_the_command_records_and_trains(run: Any, logs: Path, tmp_path: Path, capsys: Any) -> None:
    train(run())
    file = tmp_path / "out" / "expert.npz"
    assert main(["record-expert", "--algo", "ppo", "-f", str(logs), "-n", "2", "-o", str(file)]) == 0
    out = capsys.readouterr().out
    assert "2 episodes" in out and str(file) in out
    arguments = ["-f", str(logs), "-n", "200", "--eval-freq", "-1", "--verbose", "0", "--device", "cpu"]
    assert main(["train", "--algo", "bc", "--expert", str(file), *arguments]) == 0
    assert (logs / "bc" / "CartPole-v1_1" / "CartPole-v1.zip").is_file()

from __future__ import annotations

import pytest

from rlzoo import get_model_path, get_saved_hyperparams, get_trained_models
from rlzoo.core.errors import UserError
from rlzoo.experiment.training_run import train
from rlzoo.runs.pretrained_registry import find_shipped
from rlzoo.runs.saved_agents import get_latest_run_id


@pytest.fixture
def trained(run, logs):
    """A log folder with two runs, the second with checkpoints."""
    train(run(n_timesteps=40))
    train(run(n_timesteps=80, save_freq=40, eval_freq=40, env_id="Pendulum-v1"))
    return logs


def test_agents_of_a_folder_are_listed(trained):
    assert get_trained_models(str(trained)) == {
        "ppo-CartPole-v1": ("ppo", "CartPole-v1"),
        "ppo-Pendulum-v1": ("ppo", "Pendulum-v1"),
    }
    assert get_latest_run_id(f"{trained}/ppo/", "Pendulum-v1") == 1
    assert get_latest_run_id(f"{trained}/ppo", "Acrobot-v1") == 0
    with pytest.raises(UserError, match="no folder"):
        get_trained_models("nowhere")


@pytest.mark.parametrize(
    ("kind", "name", "file"),
    [
        ({}, "final-model", "Pendulum-v1.zip"),
        ({"load_best": True}, "best-model", "best_model.zip"),
        ({"load_checkpoint": "40"}, "checkpoint-40", "rl_model_40_steps.zip"),
        ({"load_last_checkpoint": True}, "checkpoint-80", "rl_model_80_steps.zip"),
    ],
)
def test_files_of_agents_are_found(trained, kind, name, file):
    folder = f"{trained}/ppo/Pendulum-v1_1"
    found = get_model_path(0, str(trained), "ppo", "Pendulum-v1", **kind)
    assert found == (f"{name}-ppo-Pendulum-v1", f"{folder}/{file}", folder)


def test_saved_hyperparameters_say_how_to_normalise(trained):
    path = f"{trained}/ppo/Pendulum-v1_1/Pendulum-v1"
    values, found = get_saved_hyperparams(path)
    assert found == path
    assert values["normalize_kwargs"] == {"norm_obs": True, "norm_reward": False}
    assert get_saved_hyperparams(path, True, True)[0]["normalize_kwargs"]["norm_reward"] is True
    assert get_saved_hyperparams(f"{trained}/ppo/CartPole-v1_1/CartPole-v1")[0]["normalize"] is False
    assert get_saved_hyperparams("nowhere") == ({}, None)


def test_folder_without_the_agent_gives_no_shipped_one(tmp_path, monkeypatch):
    shipped = find_shipped("ppo", "CartPole-v1")
    assert shipped is not None
    folder = shipped[1]
    (tmp_path / "lg" / "ppo" / "CartPole-v1_1").mkdir(parents=True)  # a run that has saved nothing
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("lg", str(tmp_path / "lg"), "empty"):
        with pytest.raises(ValueError, match=r"no agent of ppo for CartPole-v1 in .*/ppo"):
            get_model_path(0, name, "ppo", "CartPole-v1")
    for name in ("logs", "logs/", "trained_agents", str(folder.parents[1])):
        assert get_model_path(0, name, "ppo", "CartPole-v1")[2] == str(folder)

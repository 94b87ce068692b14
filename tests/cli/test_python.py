"""`rlzoo.train`, `rlzoo.enjoy` and `rlzoo.optimize`: the commands as functions."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch

import rlzoo
from rlzoo.cli.main import build, load_command
from rlzoo.cli.python import parse
from rlzoo.core.errors import UnknownArgument, UserError

SMALL = {"n_envs": 1, "n_steps": 32, "batch_size": 32, "n_epochs": 1}


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    """Keywords of a small training."""
    return {
        "algo": "ppo",
        "env": "CartPole-v1",
        "n_timesteps": 64,
        "hyperparams": SMALL,
        "log_folder": tmp_path / "logs",
        "eval_freq": -1,
        "verbose": 0,
        "device": "cpu",
        "seed": 0,
    }


def test_train_returns_the_agent_and_keeps_the_run(options):
    model = rlzoo.train(**options)
    assert isinstance(model, rlzoo.PPO)
    assert model.num_timesteps == 64
    folder = options["log_folder"] / "ppo" / "CartPole-v1_1"
    assert (folder / "CartPole-v1.zip").is_file()
    assert (folder / "command.txt").read_text().startswith("rlzoo.train(algo='ppo', env='CartPole-v1'")


def test_trained_model_goes_on_in_other_environments(options):
    model = rlzoo.train(**options)
    with pytest.raises(rlzoo.UserError, match="has no environment; give it one with set_env"):
        model.learn(8)
    model.set_env(rlzoo.make_vec_env(options["env"], n_envs=2))
    before = model.num_timesteps
    assert model.learn(8, reset_num_timesteps=False).num_timesteps > before


def test_train_resumes_and_starts_from_agents(options):
    rlzoo.train(**options)
    folder = options["log_folder"] / "ppo" / "CartPole-v1_1"
    assert rlzoo.train(resume=folder, n_timesteps=128, verbose=0).num_timesteps == 128
    assert rlzoo.train(**options, trained_agent=folder / "CartPole-v1.zip").num_timesteps == 64


def test_enjoy_returns_returns_and_lengths(options):
    rlzoo.train(**options)
    scores = rlzoo.enjoy(
        algo="ppo", env="CartPole-v1", folder=options["log_folder"], n_episodes=3, no_render=True
    )
    assert len(scores.returns) == 3
    assert scores.returns == scores.lengths


def test_optimize_returns_the_study(options):
    study = rlzoo.optimize(
        **{name: value for name, value in options.items() if name != "eval_freq"},
        n_trials=1,
        no_optim_plots=True,
        n_evaluations=1,
        eval_episodes=1,
    )
    assert isinstance(study, optuna.Study)
    assert study.best_trial.number == 0
    again = rlzoo.optimize(report=study.study_name, log_folder=options["log_folder"], no_optim_plots=True)
    assert again.best_trial.params == study.best_trial.params


@pytest.mark.parametrize("command", ["train", "enjoy", "optimize"])
def test_keywords_are_the_flags_of_the_command(command):
    parameters = inspect.signature(getattr(rlzoo, command)).parameters
    actions = [action for action in build(command, load_command(command)).actions if action.dest != "help"]
    shown = {action.dest: action.default for action in actions if action.default != "==SUPPRESS=="}
    assert {name: parameter.default for name, parameter in parameters.items()} == shown
    assert vars(parse(command, {})).keys() >= shown.keys() - {"trust"}


@pytest.mark.parametrize(
    ("function", "given", "message"),
    [
        ("train", {"n_timestep": 10}, "did you mean 'n_timesteps'"),
        ("enjoy", {"episodes": 10}, "did you mean 'n_episodes'"),
        ("train", {"n_timesteps": "many"}, "expected an integer"),
        ("train", {"n_timesteps": True}, "expected an integer"),
        ("train", {"algo": "pppo"}, "did you mean 'ppo'"),
        ("train", {"progress": 1}, "progress must be True or False"),
        ("train", {"hyperparams": 3}, "hyperparams must be a dictionary"),
        ("train", {"hyperparams": {"gama": 0.9}}, "did you mean 'gamma'"),
        ("train", {"env": object()}, "env must be text"),
        ("train", {"env": ["CartPole-v1", "Acrobot-v1"]}, "one environment, not on 2"),
        ("train", {"optimize_hyperparameters": True}, "rlzoo.optimize"),
        ("optimize", {"serve": "localhost:1"}, "does not take serve"),
        ("enjoy", {"load_best": True, "load_last_checkpoint": True}, "not allowed with"),
    ],
)
def test_mistakes_in_calls_are_user_errors(tmp_path, monkeypatch, function, given, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message) as caught:
        getattr(rlzoo, function)(**given)
    assert isinstance(caught.value, UnknownArgument) or "n_timestep" not in given
    assert not list(tmp_path.iterdir())


def test_values_of_calls_reach_the_run(tmp_path):
    args = parse(
        "train",
        {
            "hyperparams": {"policy_kwargs.net_arch": [8], "policy_kwargs": {"activation_fn": torch.nn.ReLU}},
            "env_kwargs": ["g:3"],
            "gym_packages": "json",
            "n_timesteps": 1e5,
            "seed": None,
        },
    )
    (run,) = load_command("train").runs_of(args)
    assert run.hyperparams == {"policy_kwargs": {"net_arch": [8], "activation_fn": torch.nn.ReLU}}
    assert (run.env_kwargs, run.gym_packages, run.n_timesteps, run.seed) == ({"g": 3}, ("json",), 100_000, -1)


def test_classes_of_calls_are_trained_with_and_found_again(options):
    hyperparams = {**SMALL, "env_wrapper": {rlzoo.FrameSkip: {"skip": 2}}, "policy": rlzoo.ActorCriticPolicy}
    rlzoo.train(**{**options, "hyperparams": hyperparams})
    scores = rlzoo.enjoy(
        algo="ppo", env="CartPole-v1", folder=options["log_folder"], n_episodes=1, no_render=True
    )
    assert scores.returns[0] > scores.lengths[0] or scores.lengths


def test_calls_work_in_threads_and_in_event_loops(options):
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    models = []

    async def in_a_notebook() -> None:
        models.append(rlzoo.train(**options))

    asyncio.run(in_a_notebook())
    thread = threading.Thread(target=lambda: models.append(rlzoo.train(**options)))
    thread.start()
    thread.join()
    assert [model.num_timesteps for model in models] == [64, 64]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers

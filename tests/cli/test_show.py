"""`rlzoo show`."""

from __future__ import annotations

import re

import pytest

from rlzoo.cli.main import main
from rlzoo.config import catalog
from rlzoo.config.hyperparams import lookup
from rlzoo.config.values_as_text import load_yaml
from rlzoo.params.descriptions import describe


def test_each_value_names_its_file_and_entry(capsys):
    arguments = ["-params", "n_envs:4", "monitor_kwargs.allow_early_resets:false"]
    assert main(["show", "--algo", "a2c", "--env", "ALE/Pong-v5", *arguments]) == 0
    out = capsys.readouterr().out.splitlines()
    assert "policy: CnnPolicy  # hyperparams/a2c.yml: atari" in out
    assert "n_envs: 4  # -params" in out
    assert out[-2:] == ["monitor_kwargs:  # -params", "  allow_early_resets: false"]


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", "HalfCheetah-v5", "CarRacing-v3", "ALE/Pong-v5", "Unheard-v0"]
)
def test_what_is_shown_can_be_given_back_as_a_file(capsys, tmp_path, env_id):
    assert main(["show", "--algo", "ppo", "--env", env_id]) == 0
    (tmp_path / "shown.yml").write_text(capsys.readouterr().out)
    assert lookup("ppo", env_id, tmp_path / "shown.yml").values == lookup("ppo", env_id).values


def test_a_file_of_ones_own(capsys, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "hyperparams = {'default': dict(policy='MlpPolicy', learning_rate=lambda progress: progress)}"
    )
    assert main(["show", "--env", "Mine-v0", "--conf-file", str(path)]) == 0
    shown = load_yaml(capsys.readouterr().out, "shown")
    assert shown == {"policy": "MlpPolicy", "learning_rate": "<lambda>"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algo", "ppp"], "unknown algorithm 'ppp'; did you mean 'ppo'?"),
        (["--conf-file", "missing.yml"], "missing.yml: No such file"),
        (["-params", "n_steps"], "not of the form key:value"),
        (
            ["-params", "learning_rte:1e-3"],
            "unknown hyperparameter 'learning_rte'; did you mean 'learning_rate'?",
        ),
        (["-params", "clip_range:line_0.2"], "'line_0.2' is not a schedule; did you mean 'lin_...'?"),
        (["-params", "activation_fn:nn.Rellu"], "did you mean 'nn.ReLU'?"),
    ],
)
def test_mistakes_are_one_line(capsys, arguments, message):
    assert main(["show", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


@pytest.mark.parametrize("algo", catalog.names())
def test_explain_shows_every_hyperparameter_in_80_columns(capsys, algo):
    env = "FetchReach-v4" if algo == "her" else "CartPole-v1" if algo != "crossq" else "Pendulum-v1"
    assert main(["show", "--algo", algo, "--env", env, "--explain"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    learner = {"her": "sac", "ppo1": "ppo", "ppo2": "ppo"}.get(algo, algo)
    for item in describe(catalog.load(learner).Config):
        assert re.search(rf"(?m)^(# )?{item.name}:", out), item.name
        assert item.text.split()[0] in out


def test_explained_hyperparameters_can_be_given_back_as_a_file(capsys, tmp_path):
    assert main(["show", "--algo", "ppo", "--env", "CartPole-v1", "--explain"]) == 0
    (tmp_path / "shown.yml").write_text(capsys.readouterr().out)
    assert lookup("ppo", "CartPole-v1", tmp_path / "shown.yml").values == lookup("ppo", "CartPole-v1").values


def test_explain_names_value_default_and_source(capsys):
    arguments = ["-params", "gamma:0.9", "policy_kwargs:dict(net_arch=[8])", "--explain"]
    assert main(["show", "--algo", "ppo", "--env", "CartPole-v1", *arguments]) == 0
    out = capsys.readouterr().out
    assert "gamma: 0.9\n    # default 0.99; -params\n    # discount factor per step" in out
    assert "policy_kwargs:\n  net_arch: [8]\n    # -params\n    # keyword arguments of the policy" in out
    assert "# vf_coef: 0.5\n    # the default\n" in out
